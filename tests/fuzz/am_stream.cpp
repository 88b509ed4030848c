// The byte stream of a tcp wire's connection, with a Target behind it.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/transport/am/tcp/connection.hpp"
#include "tests/fuzz/am_target.hpp"

namespace hmc::fuzz {

using namespace hmc::transport::am;
using hmc::transport::tcp::AmConnection;

namespace {

/// Passes a connection's events to the target, as AmWire does.
class User final : public LinkUser {
 public:
  explicit User(FuzzedTarget& fuzzed) : fuzzed_(fuzzed) {}
  void sent(Sending&, base::Status) noexcept override {}
  void lost(int, const char*, int) noexcept override {}
  void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept override {
    require(knows(message));
    fuzzed_.target.receive(message, data, bytes);
  }
  void stranger(int socket) noexcept override { fuzzed_.target.refuse_stranger(socket); }
  bool knows(const Message& message) noexcept override { return fuzzed_.peers.knows(message); }
  bool begins(const Message& message) noexcept override { return fuzzed_.target.begin(message); }
  Place place(const Message& message, std::uint64_t at) noexcept override { return fuzzed_.target.place(message, at); }
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept override {
    fuzzed_.target.filled(message, at, bytes);
  }
  void arrived(const Message& message) noexcept override { fuzzed_.target.finish(message); }

 private:
  FuzzedTarget& fuzzed_;
};

void append(base::Bytes& stream, Message message, std::size_t bytes) {
  message.bytes = bytes;
  base::ByteWriter out;
  out.number(static_cast<std::uint64_t>(bytes)).raw(std::as_bytes(std::span(&message, 1)));
  stream.insert(stream.end(), out.view().begin(), out.view().end());
  for (std::size_t i = 0; i < bytes; ++i) stream.push_back(static_cast<std::byte>(i));
}

}  // namespace

/// The first byte is the size of the pieces in which the rest arrives.
void run(base::ByteView bytes) {
  FuzzedTarget fuzzed;
  User user(fuzzed);
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const base::UniqueFd sender(ends[0]);
  AmConnection connection{base::UniqueFd(ends[1])};
  std::vector<std::byte> waste(4096);
  Input input(bytes);
  const std::size_t piece = std::max(std::size_t{input.value<std::uint8_t>()} * 64 + 1, bytes.size() / 128);
  while (!input.empty()) {
    const base::ByteView part = input.take(piece);
    require(::send(sender.get(), part.data(), part.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(part.size()));
    AmConnection::Outcome outcome{};
    do outcome = connection.read(user, waste);
    while (outcome == AmConnection::Outcome::more || outcome == AmConnection::Outcome::moved);
    if (outcome != AmConnection::Outcome::idle) break;
    (void)fuzzed.target.answer();
  }
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  for (const unsigned piece : {255U, 1U, 0U}) {
    FuzzedTarget fuzzed;
    base::Bytes stream{static_cast<std::byte>(piece)};
    std::uint64_t sequence = 0;
    for (const MessageKind kind : {MessageKind::put, MessageKind::put_signal, MessageKind::get, MessageKind::atomic,
                                   MessageKind::flush, MessageKind::got}) {
      Message message = fuzzed.next(kind);
      message.sequence = sequence++;
      message.offset = 8;
      message.first = 16;
      message.ticket = kind == MessageKind::got ? fuzzed.get : 0;
      append(stream, message, kind == MessageKind::put || kind == MessageKind::got ? 40 : 0);
    }
    Message large = fuzzed.next(MessageKind::put);  // longer than a connection's buffer, and than the region
    large.sequence = sequence++;
    append(stream, large, 9000);
    add(stream);
  }
}

}  // namespace hmc::fuzz
