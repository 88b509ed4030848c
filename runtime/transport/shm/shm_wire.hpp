// The shm wire: the ranks of one node map each other's memory. A put is a memory copy.
#pragma once

#include "runtime/base/node_link.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

/// Needs no progress and has no thread. The link and the waiter must outlive it.
class ShmWire final : public Wire {
 public:
  ShmWire(int rank, base::NodeLink& link, const base::Waiter& waiter);

  std::string_view name() const noexcept override { return "shm"; }
  Capabilities capabilities() const noexcept override;

  base::Bytes address() override { return {}; }
  void set_peer_addresses(std::vector<base::Bytes>) override {}
  Reachability reaches(int peer) const override;

  base::Bytes register_region(const Region& mine) override;
  std::vector<std::unique_ptr<Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                std::span<const int> peers, base::Deadline deadline) override;
  void deregister_region(const Region&) noexcept override {}

  int progress() noexcept override { return 0; }
  base::Status test(Ticket) noexcept override { return {}; }
  void abandon(Ticket) noexcept override {}  // every transfer has completed when its call returns
  base::Status fence() noexcept override;
  base::Status flush(int peer, Ticket& ticket) noexcept override;

 private:
  int local_index(int peer) const noexcept;

  int rank_;
  base::NodeLink& link_;
  const base::Waiter& waiter_;
};

}  // namespace hmc::transport
