// Two connected Communicators in this process, and data whose bytes depend on side, call and offset.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <hmc/communicator.hpp>

namespace hmc::test {

inline std::uint8_t pattern(int side, std::uint64_t call, std::uint64_t at) {
  return static_cast<std::uint8_t>(at * 7 + at / 251 + at / 65537 + static_cast<std::uint64_t>(side) * 31 + call * 101);
}
inline void fill(void* to, int side, std::uint64_t call, std::size_t offset, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(to)[i] = pattern(side, call, offset + i);
}
/// The first byte that differs from the pattern; `bytes` if none does.
inline std::size_t mismatch(const void* in, int side, std::uint64_t call, std::size_t offset, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (static_cast<const std::uint8_t*>(in)[i] != pattern(side, call, offset + i)) return i;
  return bytes;
}

/// Sets a variable of this process until its end of life.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    if (const char* old = ::getenv(name)) {
      old_ = old;
      was_set_ = true;
    }
    if (value.empty())
      ::unsetenv(name);
    else
      ::setenv(name, value.c_str(), 1);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  ~ScopedEnv() {
    if (was_set_)
      ::setenv(name_, old_.c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

inline constexpr const char* loopback = "127.0.0.1";

/// The kind with which all tests connect: HMC_TEST_CONN_TYPE is RDMA or UCX (default).
inline ConnType conn_type() {
  const char* const name = ::getenv("HMC_TEST_CONN_TYPE");
  return name != nullptr && std::string(name) == "RDMA" ? ConnType::RDMA : ConnType::UCX;
}

struct Side {
  explicit Side(std::size_t bytes, std::size_t channels = 1, MemoryType type = MemoryType::CPU)
      : buffer(std::make_shared<ConnBuffer>(0, bytes, type)),
        communicator(std::make_unique<Communicator>(buffer, channels)) {}
  std::uint8_t* at(std::size_t offset) const { return static_cast<std::uint8_t*>(buffer->ptr) + offset; }
  /// Starts a server at a port of this process's own.
  void serve(ConnType type = conn_type()) {
    for (int tries = 0; tries < 200; ++tries) {
      port = next_port();
      if (communicator->initServer(loopback, port, type) == status_t::SUCCESS) return;
    }
    ADD_FAILURE() << "no port is free";
  }
  static std::uint16_t next_port() {
    static unsigned next = static_cast<unsigned>(::getpid()) * 61;
    return static_cast<std::uint16_t>(20000 + next++ % 12000);  // below the kernel's ports for clients
  }
  std::shared_ptr<ConnBuffer> buffer;
  std::unique_ptr<Communicator> communicator;
  std::uint16_t port = 0;
};

/// For ByWire: the value of HMC_TRANSPORT, or all wires that need no device. Evaluated before any test changes it.
inline std::vector<std::string> tested_wires() {
  static const char* const given = ::getenv("HMC_TRANSPORT");
  return given != nullptr ? std::vector<std::string>{given} : std::vector<std::string>{"", "tcp", "ucx"};
}
inline std::string wire_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.empty() ? "shm" : info.param;
}

/// By the value of HMC_TRANSPORT; "": shared memory, because both are on one node.
class ByWire : public ::testing::TestWithParam<std::string> {
 protected:
  ScopedEnv transport{"HMC_TRANSPORT", GetParam()};
  ScopedEnv timeout{"HMC_TIMEOUT_S", "60"};
};

/// `client` names the server (loopback, port()); the server names the client by loopback and any port.
struct Pair {
  explicit Pair(std::size_t server_bytes = 1 << 20, std::size_t client_bytes = 0)
      : server(server_bytes), client(client_bytes > 0 ? client_bytes : server_bytes) {
    server.serve();
    EXPECT_EQ(client.communicator->connectTo(loopback, server.port, conn_type()), status_t::SUCCESS);
  }
  std::uint16_t port() const { return server.port; }
  Communicator& s() const { return *server.communicator; }
  Communicator& c() const { return *client.communicator; }
  Side server, client;
};

}  // namespace hmc::test
