// The sim wire: a transport that is as unhelpful as the contract allows, and the same for a seed.
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

/// For ranks that are threads of one process. Nothing happens before progress(), and then only a few
/// steps: each takes one of the operations that may go next, at random, and applies a random piece of
/// it. Puts overtake each other unless a fence stands between, arrive in pieces in any order, and let
/// go of their source long before or exactly when the last byte is there. A flush says so late. A put that
/// is given up still arrives.
///
/// Deterministic: what one rank's calls do depends on the seed, its rank and its calls.
class SimWire final : public transport::Wire {
 public:
  /// What to break on purpose, to see the conformance suite fail.
  enum class Fault { none, fence, signal, flush, source, ticket, atomic, abandon };
  static Fault fault_named(std::string_view name);

  SimWire(int rank, std::uint64_t seed, Fault fault = Fault::none);
  ~SimWire() override;

  std::string_view name() const noexcept override { return "sim"; }
  transport::Capabilities capabilities() const noexcept override;
  base::Bytes address() override;
  void know_peers(std::vector<base::Bytes> addresses) override;
  transport::Reach reaches(int peer) const override;
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
    int peer = -1;                        ///< of a flush: -1 is all
    std::uint64_t epoch = 0;              ///< fences before it
    std::uint64_t number = 0;             ///< order of issue
    std::shared_ptr<base::Segment> held;  ///< the target's memory: it may go first where a test fails
    std::byte* remote = nullptr;
    const std::byte* source = nullptr;  ///< of a put, until it was captured
    std::vector<std::byte> captured;
    std::byte* destination = nullptr;
    std::vector<std::uint32_t> pieces;  ///< those still to apply, shuffled
    std::size_t bytes = 0;
    std::uint64_t* signal = nullptr;  ///< raised after the pieces
    std::uint64_t value = 0;
    transport::Atomic atomic{};
    std::uint64_t* result = nullptr;
    transport::Ticket ticket = transport::done;
    const void* channel = nullptr;
  };

  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  transport::Ticket new_ticket();
  void end_ticket(Operation& operation);
  /// Lets go of its local memory; true if nothing of it is left to do.
  bool give_up(Operation& operation);
  void abandon_channel(const void* channel) noexcept;
  void cut(Operation& operation);
  void issue(Operation operation, transport::Ticket& ticket);
  bool may_go(const Operation& operation) const;
  /// True when it is over.
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
  std::list<transport::Region> registered_;  // a key is the address of one
};

}  // namespace hmc::spmd
