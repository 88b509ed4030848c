// RdmaWire: the `verbs` wire. The target's RDMA device executes its operations.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/transport/rdma/atomics.hpp"
#include "runtime/transport/rdma/registrations.hpp"
#include "runtime/transport/rdma/requests.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::rdma {

/// README.md states the guarantees and the path of each verb.
/// Threads: the owner, and the rank's progress thread, which continues collectives and messages in flight while the
/// owner computes or calls verbs. One lock protects requests, queue pairs and registrations. Connections' progress
/// thread replies to peers that connect; it doesn't access transfers.
class RdmaWire final : public OpenWire {
 public:
  /// Throws Error{unavailable}.
  explicit RdmaWire(const Options& options);
  ~RdmaWire() override { requests_.finish(); }

  std::string_view name() const noexcept override { return "verbs"; }
  Capabilities capabilities() const noexcept override;
  base::Bytes address() override { return connections().address(); }
  void set_peer_addresses(std::vector<base::Bytes> addresses) override;
  base::Bytes offer(int number) override;
  void add_peer(int number, base::ByteView address) override {
    const std::lock_guard guard(lock_);
    connections().add(number, address);
  }
  void remove_peer(int number) noexcept override;
  base::Status peer_status(int number) noexcept override {
    const std::lock_guard guard(lock_);
    return number < connections().count() ? connections().at(number).failure : base::Status{};
  }
  Reachability reaches(int peer) const override;
  base::Bytes register_region(const Region& mine) override {
    const std::lock_guard guard(lock_);
    return regions_.add(mine);
  }
  std::vector<std::unique_ptr<transport::Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                           std::span<const int> peers,
                                                           base::Deadline deadline) override;
  void deregister_region(const Region& mine) noexcept override {
    const std::lock_guard guard(lock_);
    regions_.remove(mine);
  }
  void retire_region(const Region& mine) noexcept override {
    const std::lock_guard guard(lock_);
    regions_.retire(mine);
  }
  bool register_local(std::byte* memory, std::size_t bytes) override {
    const std::lock_guard guard(lock_);
    regions_.add_local(memory, bytes);
    return true;
  }
  void deregister_local(const std::byte* memory, std::size_t bytes) noexcept override {
    const std::lock_guard guard(lock_);
    regions_.remove_local(memory, bytes, requests_.finish());
  }

  int progress() noexcept override;
  bool is_quick() const noexcept override { return true; }  // a poll of the completion queue is no system call
  base::Status test(Ticket ticket) noexcept override { return requests_.transfers().test(ticket, &lock_); }
  /// If the device accesses the caller's memory, waits for the transfer. Closes the connection if no request of it
  /// completes for one second.
  void abandon(Ticket ticket) noexcept override {
    const std::lock_guard guard(lock_);
    requests_.reclaim(ticket);
  }
  base::Status fence() noexcept override;
  /// On each queue pair with requests in flight, waits for the last request, if it is signalled and has no ticket, else
  /// for a signalled empty WRITE after it. A queue pair completes its requests in order. Nothing orders one queue pair
  /// with another.
  ///
  /// Why a completed WRITE or atomic is visible: the target's device acknowledges it after it has issued the write to
  /// memory. Regions are host memory, registered without relaxed ordering, so these PCIe writes stay in order, and the
  /// CPU's caches are coherent with them. Later writes of this device, such as a signal, follow them.
  ///
  /// Device memory or relaxed ordering would need a READ of at least one byte instead: its PCIe read can't pass the
  /// writes. (An empty READ accesses no memory, so it guarantees no more than an empty WRITE.)
  base::Status flush(int peer, Ticket& ticket) noexcept override;

  // ---- state, for tests
  std::uint64_t refusals() const noexcept { return requests_.connections().refusals(); }
  const Device& device() const noexcept { return requests_.device(); }

 private:
  class Channel;

  Connections& connections() noexcept { return requests_.connections(); }
  base::Status write(const Channel& to, std::uint64_t offset, const std::byte* source, std::size_t bytes,
                     const std::uint64_t* signal, std::uint64_t signal_offset, Ticket& ticket) noexcept;
  base::Status read(const Channel& to, std::uint64_t offset, std::byte* destination, std::size_t bytes,
                    Ticket& ticket) noexcept;
  /// A transfer without a copy: the device accesses the caller's memory, which `key` registers.
  base::Status move(const Channel& to, ibv_wr_opcode opcode, std::uint64_t remote, std::byte* local, std::size_t bytes,
                    std::uint32_t key, Owned<ibv_mr> registration, Ticket& ticket) noexcept;

  const Options options_;
  std::mutex lock_;
  Requests requests_;
  Atomics atomics_;
  Registrations regions_;
  int without_ = -1;        // a rank that has no verbs wire
  bool has_reads_ = false;  // READs or atomics since the last fence
};

}  // namespace hmc::transport::rdma
