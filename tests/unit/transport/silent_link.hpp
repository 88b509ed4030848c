// SilentLink: a link that accepts every message and delivers none.
#pragma once

#include <utility>

#include "runtime/transport/am/peers.hpp"

namespace hmc::transport::am {

class SilentLink final : public ByteLink {
 public:
  const Traits& traits() const noexcept override {
    static constexpr Traits mine{.name = "silent", .chunk_bytes = 60 * 1024, .most_in_flight = 32};
    return mine;
  }
  std::string describe() const override { return "nothing"; }
  std::string describe(int) const override { return "nothing"; }
  void serve(LinkUser&, int, int) override {}
  base::Bytes address() const override { return base::Bytes(1); }
  int event_fd() const override { return -1; }
  base::Status connect(int, base::ByteView) noexcept override { return {}; }
  base::Status send(Sending&) noexcept override { return {}; }
  int progress() noexcept override { return 0; }
  bool arm() noexcept override { return true; }
  void disconnect(int, bool) noexcept override {}
  std::size_t ending() noexcept override { return 0; }
  void leave(bool) noexcept override {}
};

}  // namespace hmc::transport::am
