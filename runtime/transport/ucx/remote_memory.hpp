// RemoteMemory: UCX's put and get, where the target's CPU takes no part in them.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/ucx/worker.hpp"

namespace hmc::transport::ucx {

class UcxLink;

struct MemoryTrial {
  std::string why_not;  ///< why put and get need the target's progress; empty: they don't
  /// The trial's connection isn't complete. UCX 1.13 would end the process if it were closed, also by the destruction
  /// of the worker, so the caller leaks the worker's resources.
  bool is_connecting = false;
};

/// Writes and reads the memory of a second worker in this process that makes no progress. UCX emulates put and get by
/// messages over TCP and shared memory. Takes at most some seconds.
MemoryTrial try_remote_memory(Worker& worker);

/// Registers this rank's memory, and accesses the memory of peers. Owns the registrations; the keys of peers' memory
/// belong to their connection (UcxLink::Peer). Threads: as ByteLink.
///
/// Atomics aren't offered: UCX chooses the device for each peer by itself, and emulates on the CPU those that a device
/// lacks. So they would not be atomic with each other.
class RemoteMemory {
 public:
  RemoteMemory(Worker& worker, UcxLink& link, base::Log log) : worker_(worker), link_(link), log_(log) {}
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  /// Registers memory for the peers and returns its key; empty, after a log message, if the memory can't be registered.
  base::Bytes add(std::byte* base, std::uint64_t bytes);
  /// The key of the memory becomes invalid.
  void remove(const std::byte* base, std::uint64_t bytes) noexcept;
  /// The number of a peer's memory for move(); 0 if the key is of no use. The rank is connected. The number is valid
  /// until close() or the end of the connection.
  std::uint64_t open(int rank, base::ByteView key) noexcept;
  void close(int rank, std::uint64_t number) noexcept;
  /// Executes record.message: put or get of record.bytes between the local memory `source` and the peer's memory
  /// `message.region` at the address `message.offset`, or flush. Returns as ByteLink::send. A flush is complete when
  /// all earlier gets are, and all earlier puts to the rank are visible there; it sets Peer::flushed to
  /// `message.first`.
  base::Status move(am::Sending& record) noexcept;
  /// Later puts become visible after earlier ones to the same rank.
  void fence() noexcept { worker_.ucp().ucp_worker_fence(worker_.handle()); }

 private:
  /// For requests of flushes, as UcxLink::on_sent.
  static void on_flushed(void* request, ucs_status_t status, void* user_data) noexcept;
  struct Registered {
    const std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    int uses = 0;
    ucp_mem_h memory = nullptr;
  };
  Worker& worker_;
  UcxLink& link_;
  base::Log log_;
  std::vector<Registered> registered_;
};

}  // namespace hmc::transport::ucx
