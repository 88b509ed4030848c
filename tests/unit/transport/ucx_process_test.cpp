// Loading UCX has no lasting side effect on the user's process.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/ucx/ucx_wire.hpp"

extern char** environ;

namespace hmc::transport {
namespace {

constexpr std::array signals{SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGHUP, SIGALRM, SIGINT, SIGTERM, SIGPIPE};
constexpr std::array functions{"mmap", "munmap", "mremap", "madvise", "brk", "shmat", "malloc", "free"};

struct Process {
  std::vector<void*> handlers;
  std::vector<std::string> environment;
  std::vector<std::array<unsigned char, 16>> code;

  Process() {
    for (const int signal : signals) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      handlers.push_back(reinterpret_cast<void*>(action.sa_handler));
    }
    for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
    for (const char* name : functions) std::memcpy(code.emplace_back().data(), ::dlsym(RTLD_DEFAULT, name), 16);
  }
};

TEST(UcxProcess, signals_environment_and_allocator_are_unchanged) {
  ::signal(SIGHUP, [](int) {});
  ::signal(SIGFPE, [](int) {});
  const Process before;
  {
    const auto wire = make_ucx_wire(am::Options(), "tcp");
    wire->set_peer_addresses({wire->address()});
    std::array<std::byte, 64> memory{};
    Region region;
    region.base = memory.data();
    region.bytes = memory.size();
    (void)wire->register_region(region);
    const Process during;
    EXPECT_EQ(during.handlers, before.handlers);
    EXPECT_EQ(during.environment, before.environment);
    EXPECT_EQ(during.code, before.code) << "its code was patched";
    wire->deregister_region(region);
  }
  const Process after;
  EXPECT_EQ(after.handlers, before.handlers);
  EXPECT_EQ(after.code, before.code);
}

TEST(UcxProcess, version_is_reported) { EXPECT_TRUE(ucx_description().starts_with("1.")) << ucx_description(); }

TEST(UcxProcess, impossible_transport_is_an_error_with_a_hint) {
  try {
    const auto wire = make_ucx_wire(am::Options(), "nonesuch");
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_NE(std::string(error.what()).find("nonesuch"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hmc::transport
