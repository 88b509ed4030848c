// AmChannel: a region of a peer, reached by messages.
#pragma once

#include "runtime/transport/am/engine.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::am {

class AmChannel final : public Channel {
 public:
  AmChannel(Engine& engine, int peer, Regions::Key region) : engine_(engine), to_{peer, region, this} {
    engine_.begin_channel(to_);
  }
  ~AmChannel() override { engine_.end_channel(to_); }

  base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override {
    return engine_.put(to_, offset, source, bytes, ticket);
  }
  base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override {
    return engine_.get(to_, offset, destination, bytes, ticket);
  }
  base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                          std::uint64_t value, Ticket& ticket) noexcept override {
    return engine_.put_signal(to_, offset, source, bytes, signal_offset, value, ticket);
  }
  base::Status atomic(const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      Ticket& ticket) noexcept override {
    return engine_.atomic(to_, atomic, offset, result, ticket);
  }

 private:
  Engine& engine_;
  Engine::To to_;
};

}  // namespace hmc::transport::am
