// TRANS: peers by name, and transfers between their registered memory.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include <smem_trans.h>
#include <hmc/pool.hpp>

#include "compat/memfabric/control_store.hpp"

namespace hmc::memfabric {

/// The memory that peers may access. Threads: any.
class RegisteredMemory {
 public:
  ~RegisteredMemory();
  /// The same range again has no effect. Throws Failure.
  void add(std::byte* address, std::uint64_t bytes);
  /// All or none.
  void add(std::span<const std::pair<std::byte*, std::uint64_t>> ranges);
  /// Afterwards no peer accesses it.
  void remove(std::byte* address);
  void* allocate(std::uint64_t bytes);
  void free(std::byte* address);

  /// Calls `use` while the ranges can't be removed. Throws Failure unless each piece is within registered memory.
  template <typename Pieces, typename Use> void with(const Pieces& pieces, Use&& use) const {
    const std::shared_lock lock(mutex_);
    for (const auto& piece : pieces)
      if (!contains(piece.address, piece.bytes))
        throw Failure(SMEM_INVALID_PARAM, fmt::format("{} bytes at {:#x} aren't in registered memory of this peer",
                                                      piece.bytes, piece.address));
    use();
  }

 private:
  bool contains(std::uint64_t address, std::uint64_t bytes) const;
  void require_free(std::byte* address, std::uint64_t bytes) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;     // address: bytes
  std::map<std::uint64_t, std::uint64_t> allocated_;  // of allocate()
  std::uint64_t allocated_bytes_ = 0;
};

/// One piece of a transfer. Addresses are numbers, because the remote one has no meaning in this process.
struct TransferPiece {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t bytes = 0;
};
enum class TransferKind : std::uint32_t { write, read };

/// A transfer through the caller's part of the pool: to write, the caller copies its bytes there and asks the owner to
/// fetch them; to read, the owner stores them there. So the owner alone accesses its memory, and checks each address.
/// The part has several slots, so several threads may transfer at once. A large transfer uses the parts of its slot in
/// turn, so that both processes copy at the same time.
class TransferEngine {
 public:
  TransferEngine(const Store& store, const Url& name, Timeout timeout, std::uint32_t device);
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  const std::string& name() const noexcept { return name_; }
  RegisteredMemory& memory() noexcept { return memory_; }
  /// Returns when all bytes have arrived. The check of all pieces precedes the first byte.
  void transfer(TransferKind kind, const std::string& peer, std::span<const TransferPiece> pieces);
  /// The same after the work of a stream of this machine's accelerator.
  void transfer_after(void* stream, TransferKind kind, const std::string& peer, std::span<const TransferPiece> pieces);
  /// Called with the name of each peer that ends, on a thread of the pool. Null: no more calls.
  void on_peer_down(smem_trans_peer_down_callback_t callback, void* user_data);

 private:
  class Chunks;
  class Slot;
  void take_name();
  int find_peer(const std::string& peer, bool fresh);
  void transfer_to(int rank, TransferKind kind, const std::string& peer, std::span<const TransferPiece> pieces);
  std::string serve(int from, std::string_view request);
  /// The text of the answer. Throws the peer's Failure.
  std::string ask(int rank, const std::string& request);
  /// Exchanges names with all members, so that each knows this peer before it can end.
  void announce();
  void learn_name(int rank, std::uint64_t version, std::string name);
  void report_down(int rank, std::uint64_t version);
  std::vector<std::size_t> late_slots(int rank);
  void set_slot(std::size_t index, int state);

  Store store_;
  std::string name_;
  Timeout timeout_;
  int device_;
  std::mutex names_mutex_;  // of the next four
  // By rank, then by a version at which that peer was a member: a rank is another peer's after a leave.
  std::map<int, std::map<std::uint64_t, std::string>> names_;
  std::uint64_t version_ = 0;  // of this peer's join, or later
  smem_trans_peer_down_callback_t peer_down_ = nullptr;
  void* peer_down_data_ = nullptr;
  Pool pool_;
  RegisteredMemory memory_;
  std::mutex slots_mutex_;
  std::condition_variable slot_freed_;
  static constexpr int slot_free = -2, slot_in_use = -1;
  // Of the caller's part: one transfer each. Other values: the rank to which a request has timed out. It executes
  // requests in their order, so the slot is free again after the answer to a later one.
  std::array<int, 4> slots_{slot_free, slot_free, slot_free, slot_free};
  std::mutex peers_mutex_;
  std::map<std::string, int> peers_;
};

}  // namespace hmc::memfabric
