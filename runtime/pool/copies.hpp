// Copies: finds what the addresses of a copy are, and moves the bytes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hmc/pool.hpp>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/pool/member_table.hpp"
#include "runtime/pool/membership.hpp"
#include "runtime/pool/task_thread.hpp"

namespace hmc::pool {

/// One side of a piece. A global side's member stays in use as long as the Batch lives.
struct Side {
  bool is_global = false;
  bool is_device = false;
  std::byte* direct = nullptr;  ///< the address for this process, or for its device; null: by `way`
  memory::Owner owner;          ///< of `direct`
  const Member* member = nullptr;
  PoolWay way = PoolWay::own;  ///< to the member's part when the copy began
  int rank = -1;
  PoolPart part = PoolPart::host;
  std::uint64_t offset = 0;
  bool is_host_memory() const noexcept { return direct != nullptr && !is_device; }
  bool is_by_wire() const noexcept { return way == PoolWay::verbs || way == PoolWay::ucx || way == PoolWay::tcp; }
};

struct Piece {
  Side destination, source;
  std::size_t bytes = 0;
};

/// The resolved pieces of one call, and the members in use.
struct Batch {
  std::vector<Piece> pieces;
  std::vector<std::pair<int, MemberUse>> members;
};

/// Throws Error. Threads: any.
class Copies {
 public:
  Copies(Membership& members, std::chrono::nanoseconds timeout);
  /// Waits for the copies in the background.
  ~Copies();

  void copy(void* destination, const void* source, std::size_t bytes, PoolDirection direction);
  /// Checks all pieces.
  Batch resolve(std::span<const PoolCopy> pieces, PoolDirection direction);
  /// If a member's way fails while the member lives, the copy is repeated by its next way.
  void run(Batch& batch);
  struct Matrix {
    void* destination = nullptr;
    std::size_t destination_pitch = 0;
    const void* source = nullptr;
    std::size_t source_pitch = 0, width = 0, height = 0;
  };
  void copy_2d(const Matrix& matrix, PoolDirection direction);
  void start(Batch batch);
  /// Throws the first failure of start(), once; Error{timeout}.
  void wait(base::Deadline deadline);
  void on_stream(void* destination, const void* source, std::size_t bytes, MemoryType type, void* stream);
  void register_memory(void* address, std::size_t bytes);
  void deregister_memory(void* address) noexcept;

 private:
  struct InFlight;
  struct WayFailed;
  static void check_way(const base::Status& status, const Side& side);
  void run_once(const Batch& batch);
  void fall_back(const WayFailed& failed);
  void copy_direct(const Piece& piece);
  void transfer_by_place(const Side& side, std::uint64_t at, std::byte* local, std::size_t bytes, bool writes);
  Side side_of(const void* address, std::size_t bytes, Batch& batch);
  Side global_side(const PoolPlace& place, std::size_t bytes, Batch& batch);
  Piece piece_of(const PoolCopy& copy, PoolDirection direction, Batch& batch);
  void run_piece(const Piece& piece, InFlight& in_flight);
  void relay(const Piece& piece);
  static void locate(Side& side) noexcept;
  void read(const Side& from, std::uint64_t at, std::byte* to, std::size_t bytes);
  void write(const Side& to, std::uint64_t at, const std::byte* from, std::size_t bytes);
  base::Bytes staged(const Side& side, std::uint64_t at, std::span<const std::byte> bytes, std::size_t size);
  base::Deadline deadline() const noexcept { return base::Deadline::after(timeout_); }
  void reap_streams(bool all) noexcept;

  Membership& members_;
  const std::chrono::nanoseconds timeout_;
  std::vector<std::mutex> places_;  // by rank: one transfer at a time uses this process's place at a member
  std::mutex lock_;
  std::optional<Error> failure_;  // of copies in the background
  struct StreamUse {
    Batch batch;
    std::unique_ptr<memory::Event> done;
  };
  std::vector<StreamUse> stream_uses_;
  struct Registered {
    std::byte* address = nullptr;
    std::size_t bytes = 0;
    std::vector<std::shared_ptr<void>> pins;
  };
  std::vector<Registered> registered_;
  TaskThread background_{"hmc-pool-copy"};  // last: its thread uses the other members
};

}  // namespace hmc::pool
