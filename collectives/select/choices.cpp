#include "collectives/select/choices.hpp"

namespace hmc::collectives {

using schedule::Call;

namespace {

/// Limits of the fields in kind_of. Answers for larger element sizes or row numbers aren't cached.
constexpr std::uint32_t element_limit = 1U << 24, said_limit = 1U << 16;

/// Everything except the size on which an answer depends.
std::uint64_t kind_of(const Call& call, std::uint32_t said) noexcept {
  const auto bit = [](bool value, unsigned at) { return static_cast<std::uint64_t>(value) << at; };
  return 1 | static_cast<std::uint64_t>(call.collective) << 1 | bit(call.irregular(), 6) | bit(call.commutative, 7) |
         bit(call.deterministic, 8) | static_cast<std::uint64_t>(call.type) << 9 |
         static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.element_bytes) << 24 |
         static_cast<std::uint64_t>(said) << 48;
}

}  // namespace

Choices::Answer Choices::get(const Call& call, std::uint64_t bytes, bool is_users) noexcept {
  if (version_ != selector_.version()) {
    kept_.fill({});
    version_ = selector_.version();
  }
  const std::uint32_t said = selector_.said(shape_, call.collective, bytes);
  if (call.element_bytes >= element_limit || said >= said_limit)
    return {selector_.choose(shape_, call, bytes, room_), false};
  const std::uint64_t kind = kind_of(call, said), begin = Selector::class_begin(bytes);
  const std::uint64_t mixed = (kind ^ begin * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  Kept& kept = kept_[mixed >> 56];
  if (kept.kind != kind || kept.begin != begin)
    kept = {kind, begin, selector_.choose(shape_, call, bytes, room_), false};
  const bool is_new = is_users && !kept.is_known;
  kept.is_known = kept.is_known || is_users;
  return {kept.choice, is_new};
}

}  // namespace hmc::collectives
