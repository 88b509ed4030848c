// The sim wire: a simulated transport that uses all freedom of the contract, reproducibly for a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "runtime/transport/wire.hpp"

namespace hmc::spmd {

class SimChannel;

/// For ranks that are threads of one process. Only progress() executes operations, a few steps per call. Each step
/// selects a random operation that may execute next, and applies a random part of it.
///  - Puts overtake each other unless a fence is between them, and arrive in pieces in any order.
///  - A put completes locally long before its last byte is visible, or at the same time.
///  - A flush completes late.
///  - An abandoned put is still delivered.
///
/// Deterministic: the effect of one rank's calls depends only on the seed, the rank and the calls.
class SimWire final : public transport::Wire {
 public:
  /// A deliberate defect, which the conformance suite must detect.
  enum class Fault { none, fence, signal, flush, source, ticket, atomic, abandon };
  static Fault fault_named(std::string_view name);

  SimWire(int rank, std::uint64_t seed, Fault fault = Fault::none);
  ~SimWire() override;

  std::string_view name() const noexcept override { return "sim"; }
  transport::Capabilities capabilities() const noexcept override;
  base::Bytes address() override;
  void set_peer_addresses(std::vector<base::Bytes> addresses) override;
  transport::Reachability reaches(int peer) const override;
  base::Bytes register_region(const transport::Region& mine) override;
  std::vector<std::unique_ptr<transport::Channel>> connect(const transport::Region& mine,
                                                           std::span<const base::Bytes> keys,
                                                           std::span<const int> peers,
                                                           base::Deadline deadline) override;
  void deregister_region(const transport::Region& mine) noexcept override;

  int progress() noexcept override;
  base::Status test(transport::Ticket ticket) noexcept override;
  void abandon(transport::Ticket ticket) noexcept override;
  base::Status fence() noexcept override;
  base::Status flush(int peer, transport::Ticket& ticket) noexcept override;

 private:
  friend class SimChannel;
  struct Operation {
    enum class Kind { put, get, atomic, flush } kind = Kind::put;
    int peer = -1;                        ///< for a flush -1 means all
    std::uint64_t epoch = 0;              ///< number of fences before the operation
    std::uint64_t number = 0;             ///< order of issue
    std::shared_ptr<base::Segment> held;  ///< the target's memory: its owner may release it first if a test fails
    std::byte* remote = nullptr;
    const std::byte* source = nullptr;  ///< of a put, until its bytes are copied
    std::vector<std::byte> captured;
    std::byte* destination = nullptr;
    std::vector<std::uint32_t> pieces;  ///< not yet applied, shuffled
    std::size_t bytes = 0;
    std::uint64_t* signal = nullptr;  ///< stored after the pieces
    std::uint64_t value = 0;
    transport::Atomic atomic{};
    void* result = nullptr;
    transport::Ticket ticket = transport::done;
    const void* channel = nullptr;
  };

  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  transport::Ticket new_ticket();
  void end_ticket(Operation& operation);
  /// Ends the access to local memory. True if the operation needs no further steps.
  bool abandon(Operation& operation);
  void abandon_channel(const void* channel) noexcept;
  void cut(Operation& operation);
  void issue(Operation operation, transport::Ticket& ticket);
  bool may_go(const Operation& operation) const;
  /// True if the operation is complete.
  bool step(Operation& operation);
  void apply_piece(Operation& operation);

  int rank_;
  Fault fault_;
  std::mt19937_64 random_;
  std::vector<bool> reachable_;
  std::uint64_t epoch_ = 0;
  std::uint64_t issued_ = 0;
  std::deque<Operation> pending_;
  std::vector<bool> open_tickets_;
  std::list<transport::Region> registered_;  // a key is the address of an element
};

}  // namespace hmc::spmd
