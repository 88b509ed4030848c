// <hmc.h>: a message of any length between any two memories. sendDataTo and recvDataFrom move it through the two halves
// of the receiver's ConnBuffer, so that the copy to a device overlaps the transfer.
//
//   terminal 1:  07_any_memory receive 10.0.0.1 10.0.0.2      the receiver's and the sender's address
//   terminal 2:  07_any_memory send 10.0.0.1                  the receiver's address
//
// The memory is the accelerator's, if this machine has one, else the host's.
#include <hmc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint16_t port = 18517;
constexpr std::size_t message_bytes = (std::size_t{10} << 20) + 12345;  // ten and a half times the halves
constexpr std::size_t buffer_bytes = std::size_t{2} << 20;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}
void require(hmc::status_t status, const char* what) {
  if (status != hmc::status_t::SUCCESS) std::fprintf(stderr, "%s\n", hmc::status_to_string(status));
  require(status == hmc::status_t::SUCCESS, what);
}

unsigned char byte_at(std::size_t i) { return static_cast<unsigned char>(i * 13 + i / 65521); }

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "", ip = argc > 2 ? argv[2] : "";
  if (!(role == "receive" && argc == 4) && !(role == "send" && argc == 3)) {
    std::fprintf(stderr, "usage: %s receive ADDRESS SENDER | send ADDRESS\n", argv[0]);
    return 2;
  }
  hmc::Memory memory(0);  // DEFAULT: the accelerator's, else the host's
  require(memory.getInitStatus(), "Memory");
  const hmc::MemoryType type = memory.getMemoryType();
  void* message = nullptr;
  require(memory.allocateBuffer(&message, message_bytes), "allocateBuffer");
  hmc::Communicator communicator(std::make_shared<hmc::ConnBuffer>(0, buffer_bytes, hmc::MemoryType::CPU));

  std::vector<unsigned char> host(message_bytes);
  if (role == "receive") {
    require(communicator.initServer(ip, port, hmc::ConnType::UCX), "initServer");
    const std::string sender = argv[3];
    while (communicator.checkConn(sender, hmc::ConnType::UCX) == hmc::status_t::NOT_FOUND)  // not connected yet
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::size_t received = 0;
    const hmc::status_t status =
        communicator.recvDataFrom(sender, message, message_bytes, type, &received, hmc::ConnType::UCX);
    require(status, "recvDataFrom");
    require(received == message_bytes, "the message's length");
    require(memory.copyDeviceToHost(host.data(), message, message_bytes), "copyDeviceToHost");
    for (std::size_t i = 0; i < message_bytes; ++i) require(host[i] == byte_at(i), "the sender's bytes");
  } else {
    for (std::size_t i = 0; i < message_bytes; ++i) host[i] = byte_at(i);
    require(memory.copyHostToDevice(message, host.data(), message_bytes), "copyHostToDevice");
    require(communicator.connectTo(ip, port, hmc::ConnType::UCX), "connectTo");
    require(communicator.sendDataTo(ip, port, message, message_bytes, type, hmc::ConnType::UCX), "sendDataTo");
  }
  std::printf("%s: %zu bytes of %s memory\n", role.c_str(), message_bytes,
              type == hmc::MemoryType::CPU ? "host" : "device");
  require(memory.freeBuffer(message), "freeBuffer");
}
