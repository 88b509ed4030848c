// Team: an ordered set of ranks, and the collectives on it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <hmc/error.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

namespace hmc {

namespace window {
class TeamCore;
}

/// Collectives are called by every rank of the team, in the same order, with matching arguments;
/// what doesn't match is Error{mismatch} on the ranks that see it. Any memory may be given: a buffer
/// that lies in a window is used in place, another is staged. Input and output may be the same
/// buffer, and may not overlap otherwise. All ranks get bit-identical results; 16-bit floats are
/// summed in 32 bits. Deadlines: the runtime's (HMC_TIMEOUT_S); Error{timeout} names who is missing.
/// Threads: one at a time per Runtime. A Team is a handle: copies mean the same team.
class HMC_API Team {
 public:
  int rank() const noexcept;
  int size() const noexcept;

  void barrier();
  void broadcast(void* data, std::size_t bytes, int root);
  /// `bytes` from each rank; `out` holds size() * bytes in rank order.
  void allgather(const void* in, void* out, std::size_t bytes);
  void allreduce(const void* in, void* out, std::size_t count, DType type, Op op);
  void allreduce(const void* in, void* out, std::size_t count, DType type, ReduceFunction function, void* context);

  template <typename T> void broadcast(std::span<T> data, int root) {
    broadcast(static_cast<void*>(data.data()), data.size_bytes(), root);
  }
  template <typename T> void allgather(std::span<const T> in, std::span<T> out) {
    require_equal("allgather", in.size() * static_cast<std::size_t>(size()), out.size());
    allgather(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size_bytes());
  }
  template <typename T> void allreduce(std::span<const T> in, std::span<T> out, Op op) {
    require_equal("allreduce", in.size(), out.size());
    allreduce(static_cast<const void*>(in.data()), static_cast<void*>(out.data()), in.size(), dtype_of<T>(), op);
  }

  const std::shared_ptr<window::TeamCore>& core() const noexcept { return core_; }
  explicit Team(std::shared_ptr<window::TeamCore> core) noexcept : core_(std::move(core)) {}

 private:
  static void require_equal(const char* operation, std::size_t expected, std::size_t got);
  std::shared_ptr<window::TeamCore> core_;
};

}  // namespace hmc
