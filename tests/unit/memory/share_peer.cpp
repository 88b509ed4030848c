#include "tests/unit/memory/share_peer.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

}  // namespace

Exported duplicate(const Exported& exported) {
  Exported copy{exported.bytes, {}};
  if (!exported.fd) return copy;
  copy.fd.reset(::fcntl(exported.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.fd) fail("F_DUPFD_CLOEXEC");
  return copy;
}

void send(int socket, const Message& message) {
  base::ByteWriter out;
  out.number(static_cast<std::uint8_t>(message.what)).number(message.number).number(message.bytes);
  out.number(static_cast<std::uint8_t>(message.kind)).text(message.text).blob(message.memory.bytes);
  iovec part{const_cast<std::byte*>(out.view().data()), out.view().size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  if (message.memory.fd) {
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = message.memory.fd.get();
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  if (::sendmsg(socket, &header, MSG_NOSIGNAL) < 0) fail("sendmsg");
}

Message receive(int socket) {
  std::array<std::byte, 4096> bytes;
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (got <= 0) throw std::runtime_error("the other process is gone");
  base::ByteReader in({bytes.data(), static_cast<std::size_t>(got)});
  Message message;
  message.what = static_cast<char>(in.number<std::uint8_t>());
  message.number = in.number<std::uint64_t>();
  message.bytes = in.number<std::uint64_t>();
  message.kind = static_cast<SharingKind>(in.number<std::uint8_t>());
  message.text = in.text();
  const base::ByteView blob = in.blob();
  message.memory.bytes.assign(blob.begin(), blob.end());
  if (const cmsghdr* const control = CMSG_FIRSTHDR(&header); control != nullptr) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    message.memory.fd.reset(fd);
  }
  return message;
}

Peer::Peer(const std::string& which) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  const char* const arguments[] = {"memory_sharing_test", "--peer", which.c_str(), nullptr};
  const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  socket_ = ends[0];
  if (error != 0) throw std::runtime_error(std::strerror(error));
}
Peer::~Peer() {
  ::close(socket_);  // which ends its loop
  if (pid_ > 0) {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}
void Peer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}
Message Peer::try_ask(Message message) const {
  send(socket_, message);
  return receive(socket_);
}
Message Peer::ask(Message message) const {
  Message answer = try_ask(std::move(message));
  EXPECT_EQ(answer.what, 'y') << answer.text;
  return answer;
}

namespace {

/// Owns the memory that the peer created and imported.
class Server {
 public:
  explicit Server(const Which& which) : provider_(which.open()), fake_(which.name) {}

  Message answer(const Message& asked) {
    try {
      Message reply;
      reply.what = 'y';
      act(asked, reply);
      return reply;
    } catch (const std::exception& error) {
      Message reply;
      reply.what = 'n';
      reply.text = error.what();
      return reply;
    }
  }

 private:
  void act(const Message& asked, Message& reply) {
    const auto seed = static_cast<unsigned>(asked.number);
    if (asked.what == 'e') {
      own_ = provider_.allocate(0, asked.bytes, asked.kind == SharingKind::ipc ? Backing::plain : Backing::vmm);
      put(*own_, seed);
      reply.memory = provider_.share(own_, asked.kind);
    } else if (asked.what == 'i') {
      imports_.push_back(provider_.import(duplicate(asked.memory), 1));
      check(*imports_.back(), seed);
      put(*imports_.back(), seed + 1);
    } else if (asked.what == 'v') {
      check(*own_, seed);
    } else if (asked.what == 'c') {
      imports_.clear();
      own_.reset();
    }
    reply.number = static_cast<std::uint64_t>(fake_.live("import") + fake_.live("mapping") + fake_.live("physical") +
                                              fake_.live("reservation") + fake_.live("memory"));
  }
  void put(const Allocation& memory, unsigned seed) const {
    const auto data = pattern(memory.bytes, seed);
    if (const auto status = provider_.copy_from_host(memory.address, data.data(), data.size()); !status.ok())
      throw std::runtime_error(status.what);
  }
  void check(const Allocation& memory, unsigned seed) const {
    std::vector<unsigned char> got(memory.bytes);
    if (const auto status = provider_.copy_to_host(got.data(), memory.address, got.size()); !status.ok())
      throw std::runtime_error(status.what);
    if (got != pattern(memory.bytes, seed)) throw std::runtime_error("the bytes are wrong");
  }

  DeviceProvider provider_;
  Fake fake_;
  std::shared_ptr<Allocation> own_;
  std::vector<std::shared_ptr<Allocation>> imports_;
};

}  // namespace

int serve_peer(int socket, const std::string& which) {
  use_fakes();
  for (const Which& each : whiches) {
    if (each.name != which) continue;
    Server server(each);
    for (;;) {
      Message asked;
      try {
        asked = receive(socket);
      } catch (const std::runtime_error&) {
        return 0;
      }
      send(socket, server.answer(asked));
    }
  }
  return 2;
}

}  // namespace hmc::memory
