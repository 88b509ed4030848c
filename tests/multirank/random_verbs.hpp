// RandomVerbs: random verbs on a window, compared with a shadow model. The owners verify the bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/multirank/shadow_model.hpp"
#include "tests/support/check.hpp"

namespace hmc::spmd {

using transport::AtomicOp;

/// One rank's part of a run on a window. It performs its own verbs and computes those of all other ranks.
class RandomVerbs {
 public:
  static constexpr std::size_t window_bytes = std::size_t{64} << 10;

  /// Collective over the team.
  RandomVerbs(Team team, std::uint64_t seed)
      : team_(std::move(team)),
        seed_(seed),
        win_(Window::create(team_, window_bytes)),
        model_(team_.size(), window_bytes),
        common_(seed) {}

  /// Collective: every rank performs `verbs` verbs; then the owners verify the bytes. `number` differs in each call.
  /// `before_verb`, if given, is called before each verb of this rank.
  void epoch(std::uint64_t number, std::uint64_t verbs, const std::function<void()>& before_verb = {}) {
    reshape();
    ActionMaker mine(seed_, team_.rank(), team_.size(), number);
    for (std::uint64_t i = 0; i < verbs; ++i) {
      if (before_verb) before_verb();
      perform(mine.next(blocks_));
    }
    finish_all();
    team_.barrier();
    for (int rank = 0; rank < team_.size(); ++rank) {
      if (rank == team_.rank()) continue;
      ActionMaker theirs(seed_, rank, team_.size(), number);
      for (std::uint64_t i = 0; i < verbs; ++i) model_.apply(theirs.next(blocks_));
    }
    verify(number);
    team_.barrier();
  }
  void close() { win_.close(); }

 private:
  struct Pending {  // a request and its memory
    Request request;
    std::vector<std::byte> bytes;
    std::vector<std::byte> expected;  // for a get
  };

  /// Allocates and frees blocks, with the same random choices on every rank.
  void reshape() {
    const auto below = [this](std::uint64_t limit) { return common_() % limit; };
    while (blocks_.size() > 1 && below(3) == 0) {
      const auto victim = static_cast<std::ptrdiff_t>(below(blocks_.size()));
      win_.free(blocks_[static_cast<std::size_t>(victim)].offset);
      blocks_.erase(blocks_.begin() + victim);
    }
    for (std::uint64_t tries = 1 + below(3); tries > 0; --tries) {
      const std::uint64_t stripe = 8 * (4 + below(below(3) == 0 ? 700 : 60));
      const std::uint64_t align = std::uint64_t{64} << below(4);
      try {
        blocks_.push_back({win_.alloc(stripe * static_cast<std::uint64_t>(team_.size()), align), stripe});
      } catch (const Error& error) {
        HMC_CHECK_EQ(error.code(), Code::out_of_memory);
        HMC_CHECK(!blocks_.empty());
      }
    }
  }

  void perform(const Action& action) {
    if (action.verb == Verb::fence || action.verb == Verb::flush || action.verb == Verb::flush_all)
      return order(action);
    // An access that overlaps an unordered one has no defined result.
    const bool overlaps = touches_unordered(action, action.offset, action.extent()) ||
                          (action.verb == Verb::put_signal && touches_unordered(action, action.signal_offset, 8));
    if (overlaps) finish_all();
    action.writes() ? write(action) : read(action);
    unordered_.push_back({action.target, action.offset, action.extent(), action.writes(), false});
    if (action.verb == Verb::put_signal) unordered_.push_back({action.target, action.signal_offset, 8, true, false});
    while (pending_.size() > 20) finish_one();
  }

  void order(const Action& action) {
    if (action.verb == Verb::fence) {
      win_.fence();  // orders writes only; a get still needs a flush
      for (Touched& touched : unordered_) touched.fenced = touched.written;
    }
    if (action.verb == Verb::flush) win_.flush(action.target);
    if (action.verb == Verb::flush_all) finish_all();
  }

  void write(const Action& action) {
    if (action.verb == Verb::atomic) return atomic(action);
    std::vector<std::byte> bytes = bytes_of(action);
    const std::size_t row = action.bytes / action.rows;
    switch (action.verb) {
      case Verb::put: win_.put(action.target, action.offset, bytes.data(), bytes.size()); break;
      case Verb::put_signal:
        win_.put_signal(action.target, action.offset, bytes.data(), bytes.size(), action.signal_offset, action.fill);
        break;
      case Verb::put_strided: put_strided(action, bytes, row); break;
      case Verb::put_batch: {
        std::vector<Put> puts;
        for (std::size_t i = 0; i < action.rows; ++i)
          puts.push_back({action.offset + i * row, bytes.data() + i * row, row});
        win_.put_batch(action.target, puts);
        break;
      }
      default:
        pending_.push_back({{}, std::move(bytes), {}});
        pending_.back().request = win_.put_nb(action.target, action.offset, pending_.back().bytes.data(), action.bytes);
        model_.apply(action);
        return;
    }
    model_.apply(action);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xee});  // local completion: the caller owns the source again
  }

  void put_strided(const Action& action, const std::vector<std::byte>& bytes, std::size_t row) {
    std::vector<std::byte> spread(action.rows * action.local_pitch, std::byte{0xdd});
    for (std::size_t i = 0; i < action.rows; ++i)
      std::memcpy(spread.data() + i * action.local_pitch, bytes.data() + i * row, row);
    win_.put_strided(action.target, action.offset, spread.data(),
                     {action.rows, row, action.local_pitch, action.remote_pitch});
  }

  std::vector<std::byte> expected(const Action& action) const {
    std::vector<std::byte> bytes(action.bytes);
    const std::size_t row = action.bytes / action.rows;
    const std::byte* const from = model_.window(action.target).data() + action.offset;
    for (std::size_t i = 0; i < action.rows && row > 0; ++i)
      std::memcpy(bytes.data() + i * row, from + i * action.remote_pitch, row);
    return bytes;
  }

  void read(const Action& action) {
    const std::size_t row = action.bytes / action.rows;
    std::vector<std::byte> got(action.bytes, std::byte{0xcc});
    switch (action.verb) {
      case Verb::get: win_.get(action.target, action.offset, got.data(), got.size()); break;
      case Verb::get_batch: {
        std::vector<Get> gets;
        for (std::size_t i = 0; i < action.rows; ++i)
          gets.push_back({action.offset + i * row, got.data() + i * row, row});
        win_.get_batch(action.target, gets);
        break;
      }
      case Verb::get_strided: {
        std::vector<std::byte> spread(action.rows * action.local_pitch, std::byte{0xcc});
        win_.get_strided(action.target, action.offset, spread.data(),
                         {action.rows, row, action.local_pitch, action.remote_pitch});
        for (std::size_t i = 0; i < action.rows; ++i) {
          const std::byte* const start = spread.data() + i * action.local_pitch;
          std::memcpy(got.data() + i * row, start, row);
          for (std::size_t gap = row; gap < action.local_pitch; ++gap)
            HMC_CHECK_MSG(start[gap] == std::byte{0xcc}, "get_strided wrote between the rows ({})", replay());
        }
        break;
      }
      default:
        pending_.push_back({{}, std::move(got), expected(action)});
        pending_.back().request = win_.get_nb(action.target, action.offset, pending_.back().bytes.data(), action.bytes);
        return;
    }
    HMC_CHECK_MSG(got == expected(action), "get of {} bytes at {} of rank {} ({})", action.bytes, action.offset,
                  action.target, replay());
  }

  template <typename T> std::uint64_t run_atomic(const Action& action) {
    const int to = action.target;
    const std::uint64_t at = action.offset;
    const auto value = static_cast<T>(action.atomic.operand);
    switch (action.atomic.op) {
      case AtomicOp::fetch_add: return win_.fetch_add<T>(to, at, value);
      case AtomicOp::swap: return win_.swap<T>(to, at, value);
      case AtomicOp::compare_swap: return win_.compare_swap<T>(to, at, static_cast<T>(action.atomic.compare), value);
      case AtomicOp::fetch: return win_.fetch<T>(to, at);
      case AtomicOp::fetch_and: return win_.fetch_and<T>(to, at, value);
      case AtomicOp::fetch_or: return win_.fetch_or<T>(to, at, value);
      case AtomicOp::fetch_xor: return win_.fetch_xor<T>(to, at, value);
      case AtomicOp::set: win_.set<T>(to, at, value); return 0;
      case AtomicOp::add: win_.add<T>(to, at, value); return 0;
      case AtomicOp::band: win_.atomic_and<T>(to, at, value); return 0;
      case AtomicOp::bor: win_.atomic_or<T>(to, at, value); return 0;
      case AtomicOp::bxor: win_.atomic_xor<T>(to, at, value); return 0;
    }
    return 0;
  }

  void atomic(const Action& action) {
    const std::uint64_t got =
        action.atomic.width == 4 ? run_atomic<std::uint32_t>(action) : run_atomic<std::uint64_t>(action);
    const std::uint64_t want = model_.apply(action);
    if (!transport::returns_value(action.atomic.op)) return;
    HMC_CHECK_MSG(got == want, "atomic {} of {} bytes at {} of rank {} gave {:#x} and not {:#x} ({})",
                  static_cast<int>(action.atomic.op), action.bytes, action.offset, action.target, got, want, replay());
  }

  bool touches_unordered(const Action& action, std::uint64_t offset, std::uint64_t extent) const {
    for (const Touched& other : unordered_) {
      if (other.target != action.target || offset >= other.offset + other.extent || other.offset >= offset + extent)
        continue;
      if (!(other.fenced && action.writes())) return true;
    }
    return false;
  }

  void finish_one() {
    Pending& first = pending_.front();
    while (!first.request.test()) {
    }
    if (!first.expected.empty())
      HMC_CHECK_MSG(first.bytes == first.expected, "get_nb of {} bytes ({})", first.bytes.size(), replay());
    pending_.pop_front();
  }

  void finish_all() {
    win_.flush();
    while (!pending_.empty()) finish_one();
    unordered_.clear();
  }

  void verify(std::uint64_t epoch) {
    const std::vector<std::byte>& want = model_.window(team_.rank());
    if (std::memcmp(win_.data(), want.data(), window_bytes) == 0) return;
    std::size_t i = 0;
    while (win_.data()[i] == want[i]) ++i;
    fail_check(__FILE__, __LINE__,
               fmt::format("byte {} of rank {} is {:#04x} and not {:#04x} after epoch {} ({})", i, team_.rank(),
                           static_cast<unsigned>(win_.data()[i]), static_cast<unsigned>(want[i]), epoch, replay()));
  }

  std::string replay() const { return fmt::format("seed {}", seed_); }

  struct Touched {
    int target;
    std::uint64_t offset;
    std::uint64_t extent;
    bool written;
    bool fenced;
  };
  Team team_;
  std::uint64_t seed_;
  Window win_;
  ShadowModel model_;
  std::mt19937_64 common_;
  std::vector<Block> blocks_;
  std::vector<Touched> unordered_;
  std::deque<Pending> pending_;
};

}  // namespace hmc::spmd
