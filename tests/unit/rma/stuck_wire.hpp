// StuckWire: a wire whose transfers never complete, and which records abandoned ones and fences. Also jobs of ranks
// that use it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/inproc.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma::test {

class StuckWire final : public transport::Wire {
 public:
  std::set<transport::Ticket> under_way;
  std::string connect_failure;  ///< the text that connect() throws; empty: it succeeds
  std::string register_failure;
  int registered = 0;
  int channels = 0;
  int fences = 0;
  int flushes = 0;
  bool flushes_end = false;

  std::string_view name() const noexcept override { return "stuck"; }
  transport::Capabilities capabilities() const noexcept override { return {}; }
  base::Bytes address() override { return {}; }
  void set_peer_addresses(std::vector<base::Bytes>) override {}
  transport::Reachability reaches(int) const override { return {true, "it says so"}; }
  base::Bytes register_region(const transport::Region&) override {
    if (!register_failure.empty()) throw Error(Code::unsupported, "stuck", register_failure);
    ++registered;
    return base::Bytes(1);
  }
  std::vector<std::unique_ptr<transport::Channel>> connect(const transport::Region&, std::span<const base::Bytes>,
                                                           std::span<const int> peers, base::Deadline) override {
    if (!connect_failure.empty()) throw Error(Code::unavailable, "stuck", connect_failure);
    std::vector<std::unique_ptr<transport::Channel>> channels_made;
    for (std::size_t i = 0; i < peers.size(); ++i) channels_made.push_back(std::make_unique<StuckChannel>(*this));
    return channels_made;
  }
  void deregister_region(const transport::Region&) noexcept override { --registered; }
  int progress() noexcept override { return 0; }
  base::Status test(transport::Ticket ticket) noexcept override {
    return under_way.contains(ticket) ? base::Status::in_progress() : base::Status{};
  }
  void abandon(transport::Ticket ticket) noexcept override { under_way.erase(ticket); }
  base::Status fence() noexcept override {
    ++fences;
    return {};
  }
  base::Status flush(int, transport::Ticket& ticket) noexcept override {
    ++flushes;
    return flushes_end ? base::Status{} : issue(ticket);
  }

  base::Status issue(transport::Ticket& ticket) noexcept {
    under_way.insert(ticket = ++last_);
    return {};
  }

 private:
  class StuckChannel final : public transport::Channel {
   public:
    explicit StuckChannel(StuckWire& wire) : wire_(wire) { ++wire_.channels; }
    ~StuckChannel() override {
      --wire_.channels;
      for (const transport::Ticket ticket : mine_) wire_.abandon(ticket);
    }
    base::Status put(std::uint64_t, const void*, std::size_t, transport::Ticket& ticket) noexcept override {
      return issue(ticket);
    }
    base::Status get(std::uint64_t, void*, std::size_t, transport::Ticket& ticket) noexcept override {
      return issue(ticket);
    }
    base::Status put_signal(std::uint64_t, const void*, std::size_t, std::uint64_t, std::uint64_t,
                            transport::Ticket& ticket) noexcept override {
      return issue(ticket);
    }
    base::Status atomic(const transport::Atomic&, std::uint64_t, void*, transport::Ticket& ticket) noexcept override {
      return issue(ticket);
    }

   private:
    base::Status issue(transport::Ticket& ticket) noexcept {
      const base::Status status = wire_.issue(ticket);
      mine_.push_back(ticket);
      return status;
    }
    StuckWire& wire_;
    std::vector<transport::Ticket> mine_;
  };
  transport::Ticket last_ = 0;
};

/// One rank of a job whose only wire is a StuckWire.
struct Rank {
  std::shared_ptr<Fabric> fabric = std::make_shared<Fabric>();
  StuckWire* wire = nullptr;
  std::unique_ptr<TeamCore> team;

  Rank(std::unique_ptr<bootstrap::Bootstrap> place, std::chrono::nanoseconds timeout) {
    const std::shared_ptr<bootstrap::Bootstrap> bootstrap = std::move(place);
    fabric->rank = bootstrap->rank();
    fabric->size = bootstrap->size();
    fabric->timeout = timeout;
    fabric->exchange = bootstrap;
    fabric->node_link = &bootstrap->node_link();
    const int index = bootstrap->facts()[static_cast<std::size_t>(fabric->rank)].local_index;
    fabric->waiter = base::Waiter(bootstrap->node_page(), index, base::WaitMode::spin);
    auto owned = std::make_unique<StuckWire>();
    wire = owned.get();
    fabric->wires.push_back(std::move(owned));
    fabric->tickets.add_wire(*fabric->wires.back());
    fabric->peers.resize(static_cast<std::size_t>(fabric->size));
    team = std::make_unique<TeamCore>(fabric);
  }
  std::shared_ptr<WindowCore> open(std::size_t bytes) const {
    return create_window(*team, bytes, WindowCore::Role::user);
  }
};

/// Runs `program` on every rank, one thread per rank.
inline void run_ranks(int size, std::chrono::nanoseconds timeout, const std::function<void(Rank&)>& program) {
  std::vector<std::thread> threads;
  for (auto& place : bootstrap::make_inproc(size)) {
    threads.emplace_back([&program, timeout, mine = std::move(place)]() mutable {
      Rank rank(std::move(mine), timeout);
      program(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hmc::rma::test
