// Control: host memory that belongs to one rank's device memory in a window. The rank registers it with the wires
// instead of the device memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hmc::device {

struct ControlHead {
  /// Held during accesses to words of the device memory. Value: the holder's rank + 1, or owner_agent; 0: free.
  alignas(64) std::atomic<std::uint64_t> lock;
  /// Counts the writes by HMC's verbs. A wait for a word reads the word again when this count changes.
  alignas(64) std::atomic<std::uint64_t> changed;
  /// The futex word of the owner's agent. `asleep` is 1 while the agent sleeps.
  alignas(64) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> asleep;
};
inline constexpr std::uint64_t owner_agent = ~std::uint64_t{0};

enum class DeviceVerb : std::uint32_t { put, get, atomic };

/// A request of an origin to the owner's agent. The agent validates it, like all data that a peer writes.
struct alignas(64) Command {
  DeviceVerb verb = DeviceVerb::put;
  std::uint8_t first = 0;    ///< first command of a verb: clears the failure of an earlier verb
  std::uint8_t signals = 0;  ///< put: store `value` at `signal_offset` after the bytes
  std::uint8_t op = 0;       ///< atomic
  std::uint8_t width = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t signal_offset = 0;
  std::uint64_t value = 0;
  std::uint64_t compare = 0;
};
static_assert(std::is_trivially_copyable_v<Command>);

/// The agent's reply: an atomic's old value, or the failure.
struct alignas(64) Reply {
  std::uint64_t result = 0;
  std::uint32_t code = 0;
  char text[116] = {};
};
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 128);

/// The commands of one origin. Command n is in slot n % 2 and its bytes are in buffer n % 2: the wire writes one buffer
/// while the agent reads the other.
struct Lane {
  static constexpr std::size_t slots = 2;
  Command commands[slots];
  alignas(64) std::atomic<std::uint64_t> posted;  ///< set by the origin, after the command of this number and its bytes
  /// Set by the agent: number of executed commands * 2, + 1 if the verb in progress has failed. In that case `reply`
  /// holds the failure.
  alignas(64) std::atomic<std::uint64_t> finished;
  Reply reply;
};

/// The layout of a Control. It is equal on all ranks of a window.
class ControlShape {
 public:
  explicit ControlShape(int ranks) noexcept
      : ranks_(static_cast<std::size_t>(ranks)),
        chunk_(std::clamp(all_buffers / (ranks_ * Lane::slots) / 4096 * 4096, std::size_t{4096}, largest_chunk)) {}

  int ranks() const noexcept { return static_cast<int>(ranks_); }
  /// Largest number of bytes of one command.
  std::size_t chunk() const noexcept { return chunk_; }
  std::size_t bytes() const noexcept { return buffer(ranks(), 0); }
  std::uint64_t lane(int rank) const noexcept {
    return sizeof(ControlHead) + static_cast<std::size_t>(rank) * sizeof(Lane);
  }
  std::uint64_t command(int rank, std::uint64_t number) const noexcept {
    return lane(rank) + offsetof(Lane, commands) + number % Lane::slots * sizeof(Command);
  }
  std::uint64_t posted(int rank) const noexcept { return lane(rank) + offsetof(Lane, posted); }
  std::uint64_t finished(int rank) const noexcept { return lane(rank) + offsetof(Lane, finished); }
  std::uint64_t reply(int rank) const noexcept { return lane(rank) + offsetof(Lane, reply); }
  std::uint64_t buffer(int rank, std::uint64_t number) const noexcept {
    const std::size_t lanes_end = (lane(ranks()) + 4095) / 4096 * 4096;
    return lanes_end + (static_cast<std::size_t>(rank) * Lane::slots + number % Lane::slots) * chunk_;
  }

 private:
  static constexpr std::size_t all_buffers = std::size_t{8} << 20;
  static constexpr std::size_t largest_chunk = std::size_t{256} << 10;
  std::size_t ranks_;
  std::size_t chunk_;
};

inline ControlHead& head_of(std::byte* control) noexcept { return *reinterpret_cast<ControlHead*>(control); }

/// The lock for words. Every process takes it to modify a word of the device memory by an atomic or a signal. Atomics
/// are therefore atomic with respect to each other and to signals.
inline bool try_lock(ControlHead& head, std::uint64_t who) noexcept {
  std::uint64_t free = 0;
  // Acquire: pairs with the release in unlock(). The previous holder's copies completed before its unlock.
  return head.lock.compare_exchange_strong(free, who, std::memory_order_acquire, std::memory_order_relaxed);
}
inline void unlock(ControlHead& head) noexcept { head.lock.store(0, std::memory_order_release); }

/// Called when the bytes are in device memory. Release: pairs with the acquire in DevicePart::look, before the word is
/// read.
inline void note_change(ControlHead& head) noexcept { head.changed.fetch_add(1, std::memory_order_release); }

}  // namespace hmc::device
