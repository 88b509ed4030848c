// DeviceReduction: what reductions by the ranks' devices are made of.
#pragma once

#include <cstddef>

#include <hmc/types.hpp>

#include "collectives/args/reduce_call.hpp"
#include "collectives/direct/direct_team.hpp"

namespace hmc::collectives {

/// Each rank's device runs one kernel over its peers' mapped memory, or none. The hosts do the waiting: arrivals and
/// one phase, as in any direct collective, so that no device spins for another process that may share its time.
///
/// Why that is safe: kernels are launched after all have arrived, and all leave after all have published `reduced`. So
/// between the two nobody but kernels touches the buffers; which kernel touches what is up to who uses this.
///
/// For one call; the windows outlive it.
class DeviceReduction {
 public:
  /// This rank's; null and 0 for what it hasn't.
  struct Buffers {
    const void* in;
    std::size_t in_bytes;
    const void* out;
    std::size_t out_bytes;
  };
  DeviceReduction(DirectTeam& team, const ReduceCall& call, Op op, const Buffers& buffers);

  /// This rank's buffers lie in devices' windows, and its device runs kernels that reach every part of them.
  explicit operator bool() const noexcept { return mine_.in.device_window != 0; }

  /// Begins the call and waits for all. in_progress: not all ranks can, which all that can see alike; nothing has been
  /// moved, and the others take this rank's input for one that comes by staging.
  base::Status meet(Signature signature) noexcept;

  // ---- after that; addresses are those that this rank's kernels see
  Announcement shown_by(int rank) const noexcept;
  bool outputs_share_a_window() const noexcept;
  std::byte* in(int rank, std::size_t offset) const;
  /// Of a rank whose output lies in my output's window.
  std::byte* out(int rank, std::size_t offset) const;
  /// Of a rank whose output lies in the inputs' window.
  std::byte* out_among_inputs(int rank, std::size_t offset) const;

  /// What one rank reduces of a vector that all share out; in elements.
  struct Slice {
    std::size_t first;
    std::size_t count;
  };
  Slice my_slice(std::size_t elements) const noexcept;

  /// Reduces the team's first `inputs` ins into its first `outputs` outs, if `count` isn't 0; then waits for all.
  base::Status run(std::size_t inputs, std::size_t outputs, std::size_t count) noexcept;

 private:
  std::byte* at(window::Core& core, int rank, std::uint64_t offset) const;
  bool is_aligned(const Placement& placement) const noexcept { return placement.offset % call_.element == 0; }

  DirectTeam& team_;
  const ReduceCall& call_;
  Op op_;
  window::Core* in_ = nullptr;
  window::Core* out_ = nullptr;
  Announcement mine_;
};

}  // namespace hmc::collectives
