// Station: one end of a TcpLink that records its events. RawSocket: a socket that connects to it without a link.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/am/tcp/tcp_link.hpp"

namespace hmc::transport::tcp {

using am::Message;
using am::MessageKind;
using am::Sending;

constexpr std::size_t header_bytes = sizeof(std::uint64_t) + sizeof(Message);
/// The longest data that an AmConnection receives into its buffer; longer data is read directly to its destination.
constexpr std::size_t most_gathered = 8 * 1024 + 256 - header_bytes;

/// Depends on the position and on `seed`.
inline std::vector<std::byte> pattern(std::size_t bytes, std::size_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + i / 251 + seed * 7);
  return data;
}

class Station final : public am::LinkUser {
 public:
  struct Came {
    Message message;
    std::vector<std::byte> data;
    bool large = false;
  };

  /// By default it doesn't wait for the other rank's connection.
  Station(int rank, int ranks = 2, Patience patience = {.call_ns = 0}, const base::Waiter* waiter = nullptr)
      : rank_(rank),
        ranks_(ranks),
        link(base::Log(static_cast<base::LogLevel>(-1)), patience, Reachable::by_all_interfaces, waiter) {
    for (int i = 0; i < ranks; ++i) peers_.emplace_back().rank = i;
    link.serve(*this, rank_, ranks);
  }

  std::uint64_t secret() const { return 0xabcdef00ULL + static_cast<std::uint64_t>(rank_); }
  std::uint16_t port() const { return decode(link.address())->port; }

  Message message_to(const Station& other, std::uint64_t bytes) {
    Message message;
    message.origin = static_cast<std::uint32_t>(rank_);
    message.tag = other.secret();
    message.sequence = sequence_++;
    message.bytes = bytes;
    return message;
  }
  base::Status connect(const Station& other) { return link.connect(other.rank_, other.link.address()); }
  /// Queues a message, like Peers does, behind those that the link holds. The caller makes progress.
  void say(const Station& to, std::vector<std::byte> data) {
    auto& record = records_.emplace_back(std::make_unique<Sending>());
    auto& bytes = data_.emplace_back(std::move(data));
    record->peer = &peers_[static_cast<std::size_t>(to.rank_)];
    record->message = message_to(to, bytes.size());
    record->source = bytes.data();
    record->bytes = bytes.size();
    if (bytes.size() <= am::inline_bytes) {
      if (!bytes.empty()) std::memcpy(record->data, bytes.data(), bytes.size());
      record->source = record->data;
    }
    waiting_.push_back(record.get());
    pump();
  }
  int drive() {
    const int happened = link.progress();
    pump();
    return happened;
  }

  std::deque<Came> came;
  std::vector<std::pair<int, std::string>> lost_ranks;
  std::vector<base::Status> failed;  // statuses of failed messages
  std::size_t sent_well = 0;
  int strangers = 0;
  bool believes = true;          // accepts large messages
  bool has_place = true;         // has a destination for their bytes, from now on
  bool large_open = false;       // a large message is incomplete
  std::uint64_t large_read = 0;  // bytes of it that were read
  bool arrived_without_place = false;

 private:
  void pump() {
    while (!waiting_.empty() && in_hand_ == nullptr) {
      Sending* const record = std::exchange(waiting_.front(), nullptr);
      waiting_.pop_front();
      in_hand_ = record;
      if (const base::Status status = link.send(*record); status.code != Code::in_progress) sent(*record, status);
    }
  }
  void sent(Sending& record, base::Status status) noexcept override {
    EXPECT_EQ(&record, in_hand_);
    in_hand_ = nullptr;
    if (status.ok())
      ++sent_well;
    else
      failed.push_back(status);
  }
  void lost(int rank, const char* why, int) noexcept override { lost_ranks.emplace_back(rank, why); }
  void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept override {
    came.push_back({message, {data, data + bytes}});
  }
  void stranger(int /*socket*/) noexcept override { ++strangers; }
  bool knows(const Message& message) noexcept override {
    return message.tag == secret() && message.origin < static_cast<std::uint32_t>(ranks_);
  }
  bool begins(const Message& message) noexcept override {
    if (!believes) return false;
    EXPECT_FALSE(large_open);
    large_open = true;
    large_read = 0;
    reading_.assign(message.bytes, std::byte{0});
    return true;
  }
  Place place(const Message& message, std::uint64_t at) noexcept override {
    EXPECT_LE(at, message.bytes);
    return {has_place ? reading_.data() + at : nullptr, message.bytes - at};
  }
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept override {
    EXPECT_TRUE(has_place);
    EXPECT_LE(at + bytes, message.bytes);
    large_read = at + bytes;
  }
  void arrived(const Message& message) noexcept override {
    large_open = false;
    arrived_without_place = !has_place;
    came.push_back({message, reading_, true});
  }

  const int rank_;
  const int ranks_;
  std::deque<am::AmPeer> peers_;
  std::uint64_t sequence_ = 0;
  std::vector<std::unique_ptr<Sending>> records_;
  std::deque<std::vector<std::byte>> data_;
  std::deque<Sending*> waiting_;
  Sending* in_hand_ = nullptr;
  std::vector<std::byte> reading_;

 public:
  TcpLink link;  // destroyed first, since its destructor may call back
};

/// Drives all stations until `over`; false after ten seconds.
template <typename Over> bool drive_until(std::initializer_list<Station*> all, const Over& over) {
  const auto limit = base::Deadline::after(std::chrono::seconds(10));
  while (!over()) {
    if (limit.expired()) return false;
    for (Station* const one : all) one->drive();
  }
  return true;
}
/// Enough progress for what has arrived: loopback delivers within the send call, and epoll_wait is called at least once
/// in 64 calls.
inline void settle(Station& station) {
  for (int i = 0; i < 200; ++i) station.drive();
}

/// A frame in the format of the socket.
inline std::vector<std::byte> frame(const Message& message, std::span<const std::byte> data) {
  const std::uint64_t bytes = data.size();
  std::vector<std::byte> all(header_bytes + data.size());
  std::memcpy(all.data(), &bytes, sizeof bytes);
  std::memcpy(all.data() + sizeof bytes, &message, sizeof message);
  if (!data.empty()) std::memcpy(all.data() + header_bytes, data.data(), data.size());
  return all;
}

class RawSocket {
 public:
  RawSocket() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit RawSocket(std::uint16_t port) : RawSocket() { connect(port); }
  void connect(std::uint16_t port) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  /// False if the other side has closed the connection.
  bool say(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }
  /// True if the other side has closed the connection.
  bool ended() const {
    char byte = 0;
    const ssize_t count = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  }
  int fd() const { return socket_.get(); }

 private:
  base::UniqueFd socket_;
};

/// Checks that a rank of the job can still connect and send a message.
inline void expect_served(Station& server, Station& client) {
  const std::size_t before = server.came.size();
  ASSERT_TRUE(client.connect(server).ok());
  client.say(server, pattern(40, 9));
  ASSERT_TRUE(drive_until({&server, &client}, [&] { return server.came.size() > before; }));
  EXPECT_EQ(server.came.back().data, pattern(40, 9));
}

}  // namespace hmc::transport::tcp
