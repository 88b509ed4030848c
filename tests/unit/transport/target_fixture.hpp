// MessageTarget: a Target with a region, and messages as a peer would send them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/transport/am/target.hpp"
#include "tests/unit/transport/silent_link.hpp"

namespace hmc::transport::am {

inline constexpr std::byte untouched{0x5a};
inline constexpr std::uint64_t secret = 0x1122334455667788;

class MessageTarget : public ::testing::Test {
 protected:
  MessageTarget() {
    memory_.fill(untouched);
    peers_.create(3, 0, secret);
    region_ = regions_.add(memory_.data() + 64, 128);  // with space on both sides to detect stray writes
  }
  Message from_peer(MessageKind kind) {
    Message message;
    message.origin = 1;
    message.kind = kind;
    set_sequence(message, sequence_++);
    message.region = region_.index;
    message.nonce = region_.nonce;
    message.width = 8;
    return message;
  }
  /// With the tag of that number.
  static void set_sequence(Message& message, std::uint64_t sequence) {
    message.sequence = sequence;
    message.tag = tag_of(message.origin, sequence);
  }
  /// As the peers compute it, with the key that Peers has by default.
  static std::uint64_t tag_of(std::uint32_t origin, std::uint64_t sequence) {
    constexpr transport::Keystream::Key key{};
    return transport::Keystream({key, std::as_bytes(std::span(&secret, 1)), std::as_bytes(std::span(&origin, 1))})
        .at(sequence);
  }
  void receive(Message message, std::size_t bytes) {
    message.bytes = bytes;
    target_.receive(message, data_.data(), bytes);
  }
  void refuse_put_to(const Regions::Key& region) {
    Message refused = from_peer(MessageKind::refused);
    refused.region = region.index;
    refused.nonce = region.nonce;
    receive(refused, 0);
  }
  Code flush_to_peer() {
    const Ticket flush = tickets_.open({.peer = 1, .left = 1});
    Message flushed = from_peer(MessageKind::flushed);
    flushed.ticket = flush;
    receive(flushed, 0);
    std::mutex lock;
    return tickets_.test(flush, &lock).code;
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + 64 + offset, 8);
    return value;
  }
  bool clean() const { return std::ranges::count(memory_, untouched) == static_cast<std::ptrdiff_t>(memory_.size()); }

  SilentLink link_;
  Tickets tickets_;
  Regions regions_;
  base::Log quiet_{static_cast<base::LogLevel>(-1)};
  Peers peers_{link_, tickets_, quiet_};
  Target target_{peers_, tickets_, regions_, quiet_};
  alignas(8) std::array<std::byte, 256> memory_{};
  std::array<std::byte, 256> data_{};
  Regions::Key region_;
  std::uint64_t sequence_ = 0;
};

}  // namespace hmc::transport::am
