// RemoteMemory: UCX's put and get, where the target's CPU takes no part in them.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/ucx/worker.hpp"

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

/// Owns the registrations. The keys of peers' memory belong to their connection (UcxLink::Peer).
///
/// Atomics aren't offered: UCX chooses the device for each peer by itself, and emulates on the CPU those that a device
/// lacks. So they would not be atomic with each other. Threads: as ByteLink.
class RemoteMemory final : public am::OneSided {
 public:
  RemoteMemory(Worker& worker, UcxLink& link, base::Log log) : worker_(worker), link_(link), log_(log) {}
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  base::Bytes add(std::byte* base, std::uint64_t bytes) override;
  void remove(const std::byte* base, std::uint64_t bytes) noexcept override;
  std::uint64_t open(int rank, base::ByteView key) noexcept override;
  void close(int rank, std::uint64_t number) noexcept override;
  base::Status move(am::Sending& record) noexcept override;
  void fence() noexcept override { worker_.ucp().ucp_worker_fence(worker_.handle()); }

 private:
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
