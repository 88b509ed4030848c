// FuzzedTarget: a Target with a region, a get and an atomic in flight. Each is in memory of its own, so
// AddressSanitizer detects every access beyond its end.
#pragma once

#include <memory>
#include <numeric>
#include <span>

#include "runtime/transport/am/target.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

inline constexpr std::uint64_t secret = 0x1122334455667788;
inline constexpr std::size_t region_bytes = 128, get_bytes = 96;
inline constexpr std::uint32_t peer = 1;

/// Reads all bytes that the target sends.
class ReadingLink final : public transport::am::ByteLink {
 public:
  const Traits& traits() const noexcept override {
    static constexpr Traits mine{.name = "fuzz", .chunk_bytes = 64, .most_in_flight = 32};
    return mine;
  }
  std::string describe() const override { return "a fuzz target"; }
  std::string describe(int) const override { return "a fuzz target"; }
  void serve(transport::am::LinkUser&, int, int) override {}
  base::Bytes address() const override { return base::Bytes(1); }
  int event_fd() const override { return -1; }
  base::Status connect(int, base::ByteView) noexcept override { return {}; }
  base::Status send(transport::am::Sending& record) noexcept override {
    sum_ = std::accumulate(record.source, record.source + record.bytes, sum_,
                           [](std::uint64_t sum, std::byte byte) { return sum + static_cast<std::uint8_t>(byte); });
    return {};
  }
  int progress() noexcept override { return 0; }
  bool arm() noexcept override { return true; }
  void disconnect(int, bool) noexcept override {}
  std::size_t ending() noexcept override { return 0; }
  void leave(bool) noexcept override {}

 private:
  volatile std::uint64_t sum_ = 0;
};

class FuzzedTarget {
 public:
  FuzzedTarget() {
    peers.create(3, 0, secret);
    region = regions_.add(memory_.get(), region_bytes);
    target.add_channel(peer, region);
    get = tickets_.open({.peer = peer, .left = get_bytes, .destination = destination_.get(), .bytes = get_bytes});
    atomic = tickets_.open({.peer = peer, .left = 1, .result = result_.get()});
    flush = tickets_.open({.peer = peer, .left = 1});
  }
  /// A message that the target accepts.
  transport::am::Message next(transport::am::MessageKind kind) {
    transport::am::Message message;
    message.origin = peer;
    message.kind = kind;
    message.width = 8;
    message.sequence = peers.at(peer).received;
    message.tag = tags_.at(message.sequence);
    message.region = region.index;
    message.nonce = region.nonce;
    return message;
  }
  bool is_unchanged() const {
    const auto is_zero = [](std::byte byte) { return byte == std::byte{}; };
    return std::all_of(memory_.get(), memory_.get() + region_bytes, is_zero) && *result_ == 0 &&
           std::all_of(destination_.get(), destination_.get() + get_bytes, is_zero);
  }
  void close_region() { target.forget(*regions_.of(memory_.get(), region_bytes)); }

 private:
  ReadingLink link_;
  transport::am::Tickets tickets_;
  transport::am::Regions regions_;
  base::Log quiet_{static_cast<base::LogLevel>(-1)};
  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(region_bytes);
  std::unique_ptr<std::byte[]> destination_ = std::make_unique<std::byte[]>(get_bytes);
  std::unique_ptr<std::uint64_t> result_ = std::make_unique<std::uint64_t>();
  transport::Keystream tags_{
      {transport::Keystream::Key{}, std::as_bytes(std::span(&secret, 1)), std::as_bytes(std::span(&peer, 1))}};

 public:
  transport::am::Peers peers{link_, tickets_, quiet_};
  transport::am::Target target{peers, tickets_, regions_, quiet_};
  transport::am::Regions::Key region;
  transport::Ticket get{}, atomic{}, flush{};
};

}  // namespace hmc::fuzz
