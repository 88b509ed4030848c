// DeviceReduction: a reduction by the devices of all ranks of a node, in windows over device memory.
#pragma once

#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/node/parts.hpp"

namespace hmc::collectives {

/// Each rank's device runs at most one kernel, which accesses the peers' mapped memory. The hosts synchronize by
/// arrivals and one phase, as in any collective by load and store. So no kernel waits for another process, which may
/// share the device.
///
/// Why this is safe: kernels start after all ranks have arrived, and a rank returns after all have published `reduced`.
/// Between these points only kernels access the buffers. No kernel overwrites data that another kernel reads:
/// - allreduce, and reduce if the root's output is in the inputs' window: each device reduces its own slice. Only one
///   kernel accesses element i of any buffer, and it reads all inputs first. So these calls may be in place.
/// - other reductions: each device computes its own rank's output, which overlaps no input.
///
/// Use: can(), then agree(), then run() if `agreed`. Otherwise all ranks fall back to the hosts:
/// node_engine::run_after_devices(). One object per call. The windows and the arguments must outlive it.
class DeviceReduction {
 public:
  /// `args`: a call that the node engine can run.
  DeviceReduction(DirectTeam& team, const CollectiveArgs& args);

  /// True if this rank can use its device. Ranks may get different results. Conditions:
  /// - the call is a large reduction;
  /// - this rank's buffers are in windows over device memory;
  /// - kernels of this rank's device can access all parts of these windows.
  bool can() const noexcept { return mine_.in.device_window != 0; }
  /// Requires can(). Begins the call and waits for all ranks. Sets `agreed` if every rank can use its device. No data
  /// has moved yet. All ranks with can() get the same `agreed`; the others see the fallback in the announcements.
  base::Status agree(bool& agreed) noexcept;
  /// Requires that all ranks agreed.
  base::Status run() noexcept;

 private:
  /// This rank's share: `count` elements from byte `from` of the first `inputs` ranks' inputs. 0: no kernel.
  struct Share {
    std::size_t inputs;
    std::size_t from = 0;
    std::size_t count = 0;
  };
  Share my_share();
  /// This rank's slice of a vector that all ranks reduce together.
  Share my_slice() const noexcept;
  Announcement shown_by(int rank) const noexcept;
  std::byte* at(rma::WindowCore& core, int rank, std::uint64_t offset) const;
  bool is_aligned(const Placement& placement) const noexcept {
    return placement.offset % args_.call.element_bytes == 0;
  }

  DirectTeam& team_;
  const CollectiveArgs& args_;
  Roles roles_;
  rma::WindowCore* in_ = nullptr;
  rma::WindowCore* out_ = nullptr;
  Announcement mine_;
  std::size_t outputs_ = 1;  // of this rank's kernel
};

}  // namespace hmc::collectives
