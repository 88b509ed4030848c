#include "collectives/select/choice_cache.hpp"

namespace hmc::collectives {

using schedule::Call;

namespace {

/// Limits of the fields in key_of. Choices for larger element sizes or row numbers aren't cached.
constexpr std::uint32_t element_limit = 1U << 24, setting_limit = 1U << 16;

/// All properties on which a choice depends, except the size.
std::uint64_t key_of(const Call& call, std::uint32_t setting) noexcept {
  const auto bit = [](bool value, unsigned at) { return static_cast<std::uint64_t>(value) << at; };
  return 1 | static_cast<std::uint64_t>(call.collective) << 1 | bit(call.irregular(), 6) | bit(call.commutative, 7) |
         bit(call.deterministic, 8) | static_cast<std::uint64_t>(call.type) << 9 |
         static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.element_bytes) << 24 |
         static_cast<std::uint64_t>(setting) << 48;
}

}  // namespace

ChoiceCache::CachedChoice ChoiceCache::get(const Call& call, std::uint64_t bytes, bool is_users) noexcept {
  if (version_ != selector_.version()) {
    entries_.fill({});
    version_ = selector_.version();
  }
  const std::uint32_t setting = selector_.setting_for(shape_, call.collective, bytes);
  if (call.element_bytes >= element_limit || setting >= setting_limit)
    return {selector_.choose(shape_, call, bytes, limits_), false};
  const std::uint64_t key = key_of(call, setting), begin = Selector::class_begin(bytes);
  const std::uint64_t mixed = (key ^ begin * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  CacheEntry& entry = entries_[mixed >> 56];
  if (entry.key != key || entry.begin != begin)
    entry = {key, begin, selector_.choose(shape_, call, bytes, limits_), false};
  const bool is_new = is_users && !entry.is_reported;
  entry.is_reported = entry.is_reported || is_users;
  return {entry.choice, is_new};
}

}  // namespace hmc::collectives
