// DeviceReduction: a reduction that the devices of all ranks run.
#pragma once

#include <cstddef>

#include <hmc/types.hpp>

#include "collectives/args/reduce_call.hpp"
#include "collectives/node/direct_team.hpp"

namespace hmc::collectives {

/// Each rank's device runs one kernel over its peers' mapped memory, or none. The hosts wait for each other by arrivals
/// and one phase, as in any direct collective. So no device spins for another process that may share the device.
///
/// Why this is safe: kernels are launched after all ranks have arrived, and a rank returns after all have published
/// `reduced`. Between the two only kernels access the buffers. The caller of this class decides which kernel accesses
/// which part.
///
/// One object per call; the windows outlive it.
class DeviceReduction {
 public:
  /// Of this rank; null and 0 for a buffer that it doesn't have.
  struct Buffers {
    const void* in;
    std::size_t in_bytes;
    const void* out;
    std::size_t out_bytes;
  };
  DeviceReduction(DirectTeam& team, const ReduceCall& call, Op op, const Buffers& buffers);

  /// True if this rank's buffers lie in windows over device memory, and its device runs kernels that reach all parts of
  /// them.
  explicit operator bool() const noexcept { return mine_.in.device_window != 0; }

  /// Begins the call and waits for all ranks. in_progress: not all ranks can use their devices. All ranks that can
  /// return the same; no data has moved, and the other ranks treat this rank's input as staged.
  base::Status meet(Signature signature) noexcept;

  // ---- after meet(); addresses are as this rank's kernels use them
  Announcement shown_by(int rank) const noexcept;
  bool outputs_share_a_window() const noexcept;
  std::byte* in(int rank, std::size_t offset) const;
  /// Requires that the rank's output lies in the same window as this rank's output.
  std::byte* out(int rank, std::size_t offset) const;
  /// Requires that the rank's output lies in the inputs' window.
  std::byte* out_among_inputs(int rank, std::size_t offset) const;

  /// One rank's slice of a vector that all ranks reduce together; in elements.
  struct Slice {
    std::size_t first;
    std::size_t count;
  };
  Slice my_slice(std::size_t elements) const noexcept;

  /// If `count` isn't 0, reduces the team's first `inputs` ins into its first `outputs` outs. Then waits for all ranks.
  base::Status run(std::size_t inputs, std::size_t outputs, std::size_t count) noexcept;

 private:
  std::byte* at(rma::Core& core, int rank, std::uint64_t offset) const;
  bool is_aligned(const Placement& placement) const noexcept { return placement.offset % call_.element == 0; }

  DirectTeam& team_;
  const ReduceCall& call_;
  Op op_;
  rma::Core* in_ = nullptr;
  rma::Core* out_ = nullptr;
  Announcement mine_;
};

}  // namespace hmc::collectives
