// The windows of a Group that tensors use again.
#include <algorithm>
#include <bit>

#include "group_state.hpp"

namespace hmc::torch_adapter {

namespace {

constexpr std::size_t page = 4096;
// A window may be larger than wanted by a factor of two, small ones by this.
constexpr std::size_t spare_bytes = std::size_t{1} << 20;

}  // namespace

WindowPool::Part WindowPool::take(Team& team, std::size_t bytes) {
  // The ranks free their tensors at different times, so they agree on a window that is free on all.
  struct Mine {
    std::uint64_t free;
    std::uint64_t bytes;
  };
  const Mine mine{.free = free_, .bytes = bytes};
  std::vector<Mine> all(static_cast<std::size_t>(team.size()));
  team.allgather(&mine, all.data(), sizeof mine);
  std::uint64_t free = mine.free;
  std::size_t wanted = 1;
  for (const Mine& each : all) {
    free &= each.free;
    wanted = std::max(wanted, static_cast<std::size_t>(each.bytes));
  }
  int best = -1, largest = -1, unused = -1;
  const auto size_of = [&](int slot) { return windows_[static_cast<std::size_t>(slot)]->bytes(); };
  for (int slot = 0; slot < slots; ++slot) {
    if (windows_[static_cast<std::size_t>(slot)] == nullptr) {
      if (unused < 0) unused = slot;
    } else if ((free >> slot & 1) != 0) {
      if (largest < 0 || size_of(slot) > size_of(largest)) largest = slot;
      if (size_of(slot) < wanted || size_of(slot) > 2 * wanted + spare_bytes) continue;
      if (best < 0 || size_of(slot) < size_of(best)) best = slot;
    }
  }
  const int slot = best >= 0 ? best : unused >= 0 ? unused : largest;
  if (slot < 0) return {std::make_shared<Window>(Window::create(team, wanted)), slot};
  free_ &= ~(std::uint64_t{1} << slot);
  std::shared_ptr<Window>& window = windows_[static_cast<std::size_t>(slot)];
  if (best < 0) {
    window.reset();
    window = std::make_shared<Window>(Window::create(team, (wanted + page - 1) / page * page));
  }
  return {window, slot};
}

void WindowPool::give_back(int slot) noexcept {
  if (slot >= 0) free_ |= std::uint64_t{1} << slot;
}

void WindowPool::close() noexcept {
  for (auto& each : windows_) each.reset();
}

const std::shared_ptr<WindowPool>& Group::pool() const noexcept { return state_->pool; }

Counters Group::counters() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.require_open();
  ++state.waiting;
  state.changed.wait(lock, [&] { return !state.busy; });
  --state.waiting;
  return state.collectives->counters();
}

}  // namespace hmc::torch_adapter
