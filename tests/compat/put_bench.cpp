// Times of puts between two processes on one node, for tests/compat/bench.
//   put_bench ROLE lat|bw SIZE COUNT PORT    ROLE: 0 waits for the other, 1 connects and prints microseconds per
//   message
// lat: half a ping-pong; each side polls the last byte of the message. bw: puts one after the other.
#include <hmc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace {

using hmc::status_t;

void require(status_t status, const char* what) {
  if (status == status_t::SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, hmc::status_to_string(status));
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const bool connects = std::string(argv[1]) == "1", latency = std::string(argv[2]) == "lat";
  const std::size_t size = std::stoul(argv[3]);
  const long count = std::stol(argv[4]);
  const auto port = static_cast<std::uint16_t>(std::stoi(argv[5]));
  const std::string ip = "127.0.0.1";
  const auto mine = static_cast<std::uint16_t>(connects ? port + 1 : port);
  const auto theirs = static_cast<std::uint16_t>(connects ? port : port + 1);

  // The first half is sent, the second half is received; then the byte that ends a transfer in one direction.
  auto buffer = std::make_shared<hmc::ConnBuffer>(0, 2 * size + 64, hmc::MemoryType::CPU);
  hmc::Communicator communicator(buffer);
  require(communicator.initServer(ip, mine, hmc::ConnType::UCX), "initServer");
  auto* const bytes = static_cast<volatile unsigned char*>(buffer->ptr);
  volatile unsigned char& mark = bytes[size - 1];
  volatile unsigned char& received = bytes[2 * size - 1];
  const auto put = [&] { require(communicator.put(ip, theirs, 0, size, size, hmc::ConnType::UCX), "put"); };
  if (connects) {
    while (communicator.connectTo(ip, theirs, hmc::ConnType::UCX) != status_t::SUCCESS)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } else {
    while (communicator.checkConn(ip, theirs, hmc::ConnType::UCX) != status_t::SUCCESS)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const long warm = std::max(1L, count / 10);
  auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < warm + count; ++i) {
    if (i == warm) start = std::chrono::steady_clock::now();
    const auto number = static_cast<unsigned char>(i % 250 + 1);
    const bool last = i + 1 == warm + count;
    if (latency) {
      if (!connects)
        while (received != number) {
        }
      mark = number;
      put();
      if (connects)
        while (received != number) {
        }
    } else if (connects) {
      mark = last ? 255 : 0;
      put();
    } else {
      while (received != 255) std::this_thread::sleep_for(std::chrono::microseconds(100));
      break;
    }
  }
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (connects) std::printf("%g\n", us / static_cast<double>(count) / (latency ? 2 : 1));
  // The other side ends at its own pace: it may still read this side's buffer.
  require(communicator.disConnect(ip, theirs, hmc::ConnType::UCX), "disConnect");
}
