// The bare loops over one TCP connection on loopback, two ranks, polling: the speed of that network path.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/compare/loop.hpp"

namespace bench::floor {
namespace {

// Requests and barriers begin with a header. Data of collectives needs none, since both sides know its size.
struct Header {
  enum Kind : std::uint32_t { put, get, answer, here } kind;
  std::uint32_t bytes;
};

class FloorTcp {
 public:
  FloorTcp(int socket, int rank, const Setup& setup)
      : socket_(socket),
        rank_(rank),
        source_(setup.source_bytes(2)),
        result_(setup.result_bytes(2)),
        target_(setup.target_bytes()) {}

  int rank() const { return rank_; }
  int size() const { return 2; }
  static std::string version() { return "bare loops over one TCP connection"; }
  static std::string settings() { return "private buffers; polling; TCP_NODELAY; 127.0.0.1"; }
  static std::string lacks(Operation) { return ""; }
  std::byte* source() { return source_.data(); }
  std::byte* result() { return result_.data(); }
  std::byte* target() { return target_.data(); }

  // The target waits in its barrier and answers from there.
  void put(int, std::size_t bytes) {
    send_header(Header::put, bytes);
    exchange(source_.data(), bytes, nullptr, 0);
    await_answer();
  }
  void get(int, std::size_t bytes) {
    send_header(Header::get, bytes);
    await_answer();
    exchange(nullptr, 0, result_.data(), bytes);
  }
  void barrier() {
    send_header(Header::here, 0);
    while (!peer_is_here_) serve(receive_header());
    peer_is_here_ = false;
  }
  void broadcast(std::size_t bytes) {
    if (rank_ == 0)
      exchange(source_.data(), bytes, nullptr, 0);
    else
      exchange(nullptr, 0, source_.data(), bytes);
  }
  void allgather(std::size_t bytes) {
    const auto mine = static_cast<std::size_t>(rank_) * bytes;
    exchange(source_.data(), bytes, result_.data() + (bytes - mine), bytes);
    std::memcpy(result_.data() + mine, source_.data(), bytes);
  }
  void allreduce(std::size_t bytes) {
    exchange(source_.data(), bytes, result_.data(), bytes);
    add(source_.data(), bytes);
  }
  void gather(std::size_t bytes) {
    if (rank_ == 1) return exchange(source_.data(), bytes, nullptr, 0);
    exchange(nullptr, 0, result_.data() + bytes, bytes);
    std::memcpy(result_.data(), source_.data(), bytes);
  }
  void scatter(std::size_t bytes) {
    if (rank_ == 1) return exchange(nullptr, 0, result_.data(), bytes);
    exchange(source_.data() + bytes, bytes, nullptr, 0);
    std::memcpy(result_.data(), source_.data(), bytes);
  }
  void alltoall(std::size_t bytes) {
    exchange(theirs(source_, bytes), bytes, theirs(result_, bytes), bytes);
    std::memcpy(mine(result_, bytes), mine(source_, bytes), bytes);
  }
  void reduce(std::size_t bytes) {
    if (rank_ == 1) return exchange(source_.data(), bytes, nullptr, 0);
    exchange(nullptr, 0, result_.data(), bytes);
    add(source_.data(), bytes);
  }
  void reduce_scatter(std::size_t bytes) {
    exchange(theirs(source_, bytes), bytes, result_.data(), bytes);
    add(mine(source_, bytes), bytes);
  }
  void scan(std::size_t bytes) {
    exscan(bytes);
    if (rank_ == 0)
      std::memcpy(result_.data(), source_.data(), bytes);
    else
      add(source_.data(), bytes);
  }
  void exscan(std::size_t bytes) {
    if (rank_ == 0)
      exchange(source_.data(), bytes, nullptr, 0);
    else
      exchange(nullptr, 0, result_.data(), bytes);
  }
  void allgatherv(std::size_t bytes) { allgather(bytes); }
  void alltoallv(std::size_t bytes) { alltoall(bytes); }
  void expose() {}
  void close() { ::close(socket_); }

 private:
  std::byte* mine(Memory& memory, std::size_t block) const { return memory.data() + (rank_ == 0 ? 0 : block); }
  std::byte* theirs(Memory& memory, std::size_t block) const { return memory.data() + (rank_ == 0 ? block : 0); }
  void add(const std::byte* to_result, std::size_t bytes) {
    const auto* const more = reinterpret_cast<const float*>(to_result);
    auto* const sum = reinterpret_cast<float*>(result_.data());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) sum[i] += more[i];
  }

  void send_header(Header::Kind kind, std::size_t bytes) {
    const Header header{kind, static_cast<std::uint32_t>(bytes)};
    exchange(reinterpret_cast<const std::byte*>(&header), sizeof header, nullptr, 0);
  }
  Header receive_header() {
    Header header{};
    exchange(nullptr, 0, reinterpret_cast<std::byte*>(&header), sizeof header);
    return header;
  }

  void serve(const Header& header) {
    if (header.kind == Header::here) {
      peer_is_here_ = true;
    } else if (header.kind == Header::get) {
      send_header(Header::answer, 0);
      exchange(target_.data(), header.bytes, nullptr, 0);
    } else {
      exchange(nullptr, 0, target_.data(), header.bytes);
      send_header(Header::answer, 0);
    }
  }
  // The target may have entered its barrier before it received the request.
  void await_answer() {
    while (receive_header().kind == Header::here) peer_is_here_ = true;
  }

  // In both directions at once, so that a full socket buffer doesn't block either side.
  void exchange(const std::byte* out, std::size_t out_left, std::byte* in, std::size_t in_left) {
    while (out_left > 0 || in_left > 0) {
      if (out_left > 0) {
        const std::size_t done = moved(::send(socket_, out, out_left, MSG_DONTWAIT | MSG_NOSIGNAL));
        out += done;
        out_left -= done;
      }
      if (in_left > 0) {
        const ssize_t got = ::recv(socket_, in, in_left, MSG_DONTWAIT);
        if (got == 0) throw std::runtime_error("the other rank has ended");
        in += moved(got);
        in_left -= moved(got);
      }
    }
  }
  static std::size_t moved(ssize_t result) {
    if (result >= 0) return static_cast<std::size_t>(result);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    throw std::runtime_error(std::string("socket: ") + std::strerror(errno));
  }

  int socket_;
  int rank_;
  bool peer_is_here_ = false;
  Memory source_, result_, target_;
};

// Both ends of a connection over loopback.
void connect_pair(int ends[2]) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, any, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, any, &length) != 0 || connect(ends[0], any, length) != 0 ||
      (ends[1] = accept(listener, nullptr, nullptr)) < 0)
    throw std::runtime_error(std::string("no TCP on 127.0.0.1: ") + std::strerror(errno));
  ::close(listener);
  for (int i = 0; i < 2; ++i) {
    const int on = 1;
    setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
}

}  // namespace
}  // namespace bench::floor

int main(int argc, char** argv) try {
  const bench::Setup setup = bench::setup_of(argc, argv);
  if (setup.ranks != 2) throw std::invalid_argument("the bare loops over TCP need two ranks");
  int ends[2];
  bench::floor::connect_pair(ends);
  return bench::run_ranks(setup.ranks, setup.cpus, [&](int rank) {
    close(ends[1 - rank]);
    bench::floor::FloorTcp contestant(ends[rank], rank, setup);
    return bench::run_rank(contestant, setup);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
