// Fixture and Window: one rank's wire, and windows of raw regions over it, for conformance tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/wire.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::conformance {

using transport::Atomic;
using transport::AtomicOp;
using transport::Channel;
using transport::Ticket;

inline constexpr std::chrono::seconds wait_timeout{120};

class Window;

/// One rank and its wire (`--set wire=`: shm, tcp, ucx, sim). Skips the test if the wire is unavailable.
/// All failures throw, so tests don't check results.
class Fixture {
 public:
  explicit Fixture(spmd::TestRank& me);
  ~Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  spmd::TestRank& me;
  transport::Wire& wire() noexcept { return *wire_; }
  /// Ranks that the wire reaches, in ascending order, including this one.
  const std::vector<int>& peers() const noexcept { return peers_; }
  int index_of(int peer) const;  ///< in peers()
  /// The ring neighbours of this rank in peers().
  int next() const;
  int previous() const;

  void barrier();                                           ///< over the control plane; makes no progress on the wire
  std::vector<base::Bytes> allgather(base::ByteView mine);  ///< likewise
  void wait(Ticket ticket);
  void flush(int peer = -1);
  void fence();
  /// flush() and barrier(). Afterwards all puts of all ranks are visible at their targets.
  void settle();
  /// Waits as a rank of a job does: makes progress on the wire.
  template <typename Ready> void until(Ready&& ready) {
    require(waiter_.until({base::Activity::wait_until}, ready, wait_timeout), "waiting");
  }
  void require(base::Status status, const char* what) const;

 private:
  friend class Window;
  std::unique_ptr<transport::Wire> make(const std::string& name);

  base::Waiter waiter_;
  base::Log log_;
  std::unique_ptr<transport::Wire> wire_;
  std::vector<int> peers_;
};

/// One region per rank. Construction is collective.
class Window {
 public:
  Window(Fixture& fixture, std::size_t bytes);
  ~Window();  ///< not collective: call close() unless the test failed
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  void close();

  std::span<std::byte> mine() const noexcept { return {region_.base, region_.bytes}; }
  const transport::Region& region() const noexcept { return region_; }
  std::uint64_t* word(std::uint64_t offset) const noexcept {
    return reinterpret_cast<std::uint64_t*>(region_.base + offset);
  }
  /// Destroys the channel to a peer, even with transfers in flight.
  void end_channel(int peer) { channels_[static_cast<std::size_t>(fixture_.index_of(peer))].reset(); }
  Channel& to(int peer) const { return *channels_[static_cast<std::size_t>(fixture_.index_of(peer))]; }

  [[nodiscard]] Ticket put_nb(int peer, std::uint64_t offset, std::span<const std::byte> source) const;
  [[nodiscard]] Ticket get_nb(int peer, std::uint64_t offset, std::span<std::byte> destination) const;
  [[nodiscard]] Ticket put_signal_nb(int peer, std::uint64_t offset, std::span<const std::byte> source,
                                     std::uint64_t signal_offset, std::uint64_t value) const;
  /// Returns at local completion: the source may be reused.
  void put(int peer, std::uint64_t offset, std::span<const std::byte> source) const;
  void get(int peer, std::uint64_t offset, std::span<std::byte> destination) const;
  void put_signal(int peer, std::uint64_t offset, std::span<const std::byte> source, std::uint64_t signal_offset,
                  std::uint64_t value) const;
  /// Returns the old value for a fetching operation.
  std::uint64_t atomic(int peer, std::uint64_t offset, AtomicOp op, int width, std::uint64_t operand,
                       std::uint64_t compare = 0) const;
  /// Waits until this rank's own word is at least `value`.
  void wait_signal(std::uint64_t offset, std::uint64_t value) const;

 private:
  Fixture& fixture_;
  std::shared_ptr<base::Segment> segment_;
  transport::Region region_;
  std::vector<std::unique_ptr<Channel>> channels_;
  bool open_ = true;
};

/// A vector of the pattern's bytes [from, from + bytes).
std::vector<std::byte> bytes_of(const spmd::Pattern& pattern, std::size_t bytes, std::uint64_t from = 0);
/// The value of --set KEY=NUMBER.
std::uint64_t number(const spmd::TestRank& me, const std::string& key, std::uint64_t fallback);

}  // namespace hmc::conformance
