// <hmc.h>: two programs without a launcher. The client puts bytes into the server's buffer and notifies the server by a
// control message. The server changes the bytes, and the client reads them back.
//
//   terminal 1:  06_two_terminals server 0.0.0.0
//   terminal 2:  06_two_terminals client 10.0.0.1        the server's address
//
// On two machines, or as two users, set the same secret first: export HMC_SECRET=<64 hex digits, made by
// `openssl rand -hex 32`>
#include <hmc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

constexpr std::uint16_t data_port = 18515, control_port = 18516;
constexpr std::uint32_t server_id = 0, client_id = 1;
constexpr std::size_t bytes = 1 << 20;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}
void require(hmc::status_t status, const char* what) {
  if (status != hmc::status_t::SUCCESS) std::fprintf(stderr, "%s\n", hmc::status_to_string(status));
  require(status == hmc::status_t::SUCCESS, what);
}

unsigned char byte_at(std::size_t i) { return static_cast<unsigned char>(i * 7 + i / 251); }

void serve(hmc::Communicator& communicator, unsigned char* buffer, const std::string& ip) {
  require(communicator.initServer(ip, data_port, control_port, "", hmc::ConnType::RDMA), "initServer");
  std::printf("server: waiting on %s\n", ip.c_str());
  std::uint64_t tag = 0;
  require(communicator.ctrlRecv(client_id, &tag), "ctrlRecv");
  for (std::size_t i = 0; i < bytes; ++i) require(buffer[i] == byte_at(i), "the client's bytes");
  for (std::size_t i = 0; i < bytes; ++i) buffer[i] = static_cast<unsigned char>(buffer[i] + 1);
  require(communicator.ctrlSend(client_id, tag + 1), "ctrlSend");
  require(communicator.ctrlRecv(client_id, &tag), "ctrlRecv");  // the client has read the bytes
  std::printf("server: received and answered %zu bytes\n", bytes);
}

void connect(hmc::Communicator& communicator, unsigned char* buffer, const std::string& ip) {
  hmc::Communicator::CtrlLink link;
  link.ip = ip;
  link.port = control_port;
  require(communicator.connectTo(server_id, client_id, ip, data_port, link, hmc::ConnType::RDMA), "connectTo");
  for (std::size_t i = 0; i < bytes; ++i) buffer[i] = byte_at(i);
  require(communicator.put(ip, data_port, 0, 0, bytes), "put");  // the bytes are visible at the server
  std::uint64_t tag = 41;
  require(communicator.ctrlSend(server_id, tag), "ctrlSend");
  require(communicator.ctrlRecv(server_id, &tag), "ctrlRecv");
  require(tag == 42, "the server's tag");
  require(communicator.get(ip, data_port, 0, 0, bytes), "get");
  for (std::size_t i = 0; i < bytes; ++i)
    require(buffer[i] == static_cast<unsigned char>(byte_at(i) + 1), "the server's bytes");
  require(communicator.ctrlSend(server_id, 0), "ctrlSend");
  std::printf("client: put and read back %zu bytes\n", bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role != "server" && role != "client") {
    std::fprintf(stderr, "usage: %s server|client ADDRESS\n", argv[0]);
    return 2;
  }
  auto buffer = std::make_shared<hmc::ConnBuffer>(0, bytes, hmc::MemoryType::CPU);
  auto* const data = static_cast<unsigned char*>(buffer->ptr);
  hmc::Communicator communicator(buffer);
  role == "server" ? serve(communicator, data, argv[2]) : connect(communicator, data, argv[2]);
  require(communicator.closeCtrl(), "closeCtrl");
}
