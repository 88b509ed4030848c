// The public Team: checks the arguments, takes the direct or the general form, and says what went wrong.
#include <hmc/team.hpp>

#include <fmt/format.h>

#include <cstring>

#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/broadcast/broadcast.hpp"
#include "collectives/failure.hpp"
#include "collectives/state.hpp"

namespace hmc {

using collectives::State;

namespace {

State& open_state(const std::shared_ptr<window::TeamCore>& core, const char* operation) {
  if (core == nullptr || core->fabric().closed || core->collectives == nullptr) [[unlikely]]
    throw Error(Code::closed, operation, "the runtime is closed");
  return static_cast<State&>(*core->collectives);
}

void require_pointer(const char* operation, const void* pointer, std::size_t bytes) {
  if (pointer == nullptr && bytes > 0) [[unlikely]]
    throw Error(Code::invalid_argument, operation, fmt::format("a buffer of {} bytes is null", bytes));
}

std::size_t checked_product(const char* operation, std::size_t count, std::size_t element) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element, &bytes)) [[unlikely]]
    throw Error(Code::invalid_argument, operation,
                fmt::format("{} elements of {} bytes are more than there can be", count, element));
  return bytes;
}

collectives::ReduceCall make_call(const void* in, void* out, std::size_t count, DType type) {
  if (static_cast<int>(type) >= dtype_count) [[unlikely]]
    throw Error(Code::invalid_argument, "allreduce",
                fmt::format("there is no element type {}", static_cast<int>(type)));
  collectives::ReduceCall call;
  call.in = in;
  call.out = out;
  call.count = count;
  call.type = type;
  call.element = size_of(type);
  return call;
}

void run_allreduce(window::TeamCore& core, State& state, collectives::ReduceCall& call, unsigned op) {
  const std::size_t bytes = checked_product("allreduce", call.count, call.element);
  require_pointer("allreduce", call.in, bytes);
  require_pointer("allreduce", call.out, bytes);
  call.signature = collectives::Signature::make(collectives::Kind::allreduce, call.count, 0, call.type, op);
  const base::Status status = state.direct() != nullptr ? collectives::allreduce_direct(*state.direct(), call)
                                                        : collectives::allreduce_rounds(*state.rounds(), call);
  if (!status.ok()) [[unlikely]]
    collectives::throw_failure(core, state, status, "allreduce", bytes);
}

}  // namespace

int Team::rank() const noexcept { return core_->rank(); }
int Team::size() const noexcept { return core_->size(); }

void Team::require_equal(const char* operation, std::size_t expected, std::size_t got) {
  if (expected != got)
    throw Error(Code::invalid_argument, operation,
                fmt::format("the output has {} elements; it needs {}", got, expected));
}

void Team::barrier() {
  State& state = open_state(core_, "barrier");
  if (collectives::DirectTeam* const direct = state.direct()) [[likely]] {
    if (const base::Status status = collectives::barrier_direct(*direct); !status.ok()) [[unlikely]]
      collectives::throw_failure(*core_, state, status, "barrier", 0);
    return;
  }
  base::Status status = window::flush_wires(core_->fabric());
  if (status.ok()) status = collectives::barrier_rounds(*state.rounds());
  if (!status.ok()) collectives::throw_failure(*core_, state, status, "barrier", 0);
}

void Team::broadcast(void* data, std::size_t bytes, int root) {
  State& state = open_state(core_, "broadcast");
  if (root < 0 || root >= size())
    throw Error(Code::bad_rank, "broadcast",
                fmt::format("root {}: there is no such rank in a team of {}", root, size()));
  require_pointer("broadcast", data, bytes);
  const collectives::BroadcastCall call{data, bytes, root};
  const base::Status status = state.direct() != nullptr ? collectives::broadcast_direct(*state.direct(), call)
                                                        : collectives::broadcast_rounds(*state.rounds(), call);
  if (!status.ok()) [[unlikely]]
    collectives::throw_failure(*core_, state, status, "broadcast", bytes);
}

void Team::allgather(const void* in, void* out, std::size_t bytes) {
  State& state = open_state(core_, "allgather");
  checked_product("allgather", bytes, static_cast<std::size_t>(size()));
  require_pointer("allgather", in, bytes);
  require_pointer("allgather", out, bytes);
  const collectives::AllgatherCall call{in, out, bytes};
  const base::Status status = state.direct() != nullptr ? collectives::allgather_direct(*state.direct(), call)
                                                        : collectives::allgather_rounds(*state.rounds(), call);
  if (!status.ok()) [[unlikely]]
    collectives::throw_failure(*core_, state, status, "allgather", bytes);
}

void Team::allreduce(const void* in, void* out, std::size_t count, DType type, Op op) {
  State& state = open_state(core_, "allreduce");
  collectives::ReduceCall call = make_call(in, out, count, type);
  call.kernel = collectives::reduce_kernel(type, op);
  if (call.kernel == nullptr) [[unlikely]]
    throw Error(Code::invalid_argument, "allreduce",
                fmt::format("{} isn't defined for {}", name_of(op), name_of(type)));
  run_allreduce(*core_, state, call, static_cast<unsigned>(op));
}

void Team::allreduce(const void* in, void* out, std::size_t count, DType type, ReduceFunction function, void* context) {
  State& state = open_state(core_, "allreduce");
  if (function == nullptr) throw Error(Code::invalid_argument, "allreduce", "the user's function is null");
  collectives::ReduceCall call = make_call(in, out, count, type);
  call.function = function;
  call.context = context;
  run_allreduce(*core_, state, call, collectives::Signature::user_op);
}

}  // namespace hmc
