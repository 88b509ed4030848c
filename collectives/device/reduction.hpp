// DeviceReduction: a reduction that the devices of all ranks of a node carry out, in windows over device memory.
#pragma once

#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/node/parts.hpp"
#include "collectives/node/roles.hpp"

namespace hmc::collectives {

/// Each rank's device runs one kernel over its peers' mapped memory, or none. The hosts wait for each other by arrivals
/// and one phase, as in any direct collective. So no device spins for another process that may share the device.
///
/// Why this is safe: kernels are launched after all ranks have arrived, and a rank returns after all have published
/// `reduced`. Between the two only kernels access the buffers, and no kernel overwrites what another reads:
///  - allreduce, and reduce if the root's output lies in the inputs' window: each device reduces its own slice. Only
///  one
///    kernel accesses element i of any buffer, and it reads all inputs first. So these may be in place.
///  - else each device computes its own rank's output, which doesn't overlap its rank's input, hence no input.
///
/// Use: can(), meet(), then run() if all agreed. Else all ranks fall back to their hosts: node_engine::run_arrived().
/// One object per call; the windows and the arguments outlive it.
class DeviceReduction {
 public:
  /// `args`: a call that the node engine can run.
  DeviceReduction(DirectTeam& team, const CollectiveArgs& args);

  /// True if the call is a large reduction, this rank's buffers lie in windows over device memory, and its device runs
  /// kernels that reach all parts of them. A local answer: ranks may differ.
  bool can() const noexcept { return mine_.in.device_window != 0; }
  /// Requires can(). Begins the call and waits for all ranks. `agreed`: all ranks' devices can; no data has moved yet.
  /// All ranks that can get the same; the others see it in the announcements.
  base::Status meet(bool& agreed) noexcept;
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
