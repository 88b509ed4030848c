// Who may connect to a StoreService, a Communicator and a CtrlSocketManager without HMC_SECRET. Needs root.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include <hmc.h>
#include <hmc/store.hpp>

#include "tests/compat/pair.hpp"
#include "tests/compat/processes.hpp"
#include "tests/support/code_of.hpp"

namespace hmc::test {
namespace {

using compat::Child;
using compat::Pipe;
using testing::HasSubstr;

constexpr unsigned other_user = 65534;
const std::string one_secret(64, 'a');

struct Access : testing::Test {
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can run processes of two users";
  }
  ScopedEnv secret{"HMC_SECRET", ""}, timeout{"HMC_TIMEOUT_S", "60"};
};

bool become_other_user() {
  return ::setgroups(0, nullptr) == 0 && ::setgid(other_user) == 0 && ::setuid(other_user) == 0;
}

/// True if this process sees none of its former folders.
bool enter_mount_namespace() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/tmp", "tmpfs", 0, nullptr) == 0 && ::mount("none", "/run", "tmpfs", 0, nullptr) == 0;
}

std::string at(int port) { return "127.0.0.1:" + std::to_string(port); }
int port_of(const StoreService& service) {
  const std::string& address = service.address();
  return std::stoi(address.substr(address.rfind(':') + 1));
}

/// The store refuses this process, with an error that names the variable.
bool is_refused(int port) {
  try {
    (void)Store::connect(at(port));
    return false;
  } catch (const Error& error) {
    return error.code() == Code::refused && std::string(error.what()).find("HMC_SECRET") != std::string::npos;
  }
}

TEST_F(Access, store_refuses_another_user) {
  const Pipe port;
  Child client([&] { return become_other_user() && is_refused(port.get()); });
  const StoreService service("127.0.0.1:0");
  port.put(port_of(service));
  EXPECT_TRUE(client.join());
  EXPECT_EQ(service.refused_connections(), 1U);
  EXPECT_EQ(code_of([&] { Store::connect(service.address()).set("key", "value"); }), Code::success);
}

TEST_F(Access, client_refuses_the_store_of_another_user) {
  const Pipe port, end;
  Child server([&] {
    if (!become_other_user()) return false;
    const StoreService service("127.0.0.1:0");
    port.put(port_of(service));
    return end.get() == 0;
  });
  EXPECT_TRUE(is_refused(port.get()));
  end.put(0);
  EXPECT_TRUE(server.join());
}

TEST_F(Access, store_refuses_another_mount_namespace) {
  const Pipe port, can_mount;
  Child client([&] {
    const bool has_mounted = enter_mount_namespace();
    can_mount.put(has_mounted ? 1 : 0);
    return !has_mounted || is_refused(port.get());
  });
  if (can_mount.get() == 0) GTEST_SKIP() << "this container can't mount";
  const StoreService service("127.0.0.1:0");
  port.put(port_of(service));
  EXPECT_TRUE(client.join());
}

TEST_F(Access, users_with_the_same_secret_share_a_store) {
  const ScopedEnv same("HMC_SECRET", one_secret);
  const Pipe port;
  Child client([&] {
    return become_other_user() && code_of([&] { Store::connect(at(port.get())).set("key", "value"); }) == Code::success;
  });
  const StoreService service("127.0.0.1:0");
  port.put(port_of(service));
  EXPECT_TRUE(client.join());
  EXPECT_EQ(Store::connect(service.address()).get("key", Timeout::zero()), "value");
}

TEST_F(Access, communicator_refuses_another_user) {
  const Pipe port;
  Child client([&] {
    if (!become_other_user()) return false;
    Side me(4096);
    std::memset(me.buffer->ptr, 1, 4096);
    const auto server = static_cast<std::uint16_t>(port.get());
    return me.communicator->connectTo(loopback, server, conn_type()) == status_t::ERROR &&
           me.communicator->put(loopback, server, 0, 0, 4096) != status_t::SUCCESS;
  });
  Side server(4096);
  server.serve();
  port.put(server.port);
  EXPECT_TRUE(client.join());
  EXPECT_EQ(*server.at(0), 0);
  Side mine(4096);
  EXPECT_EQ(mine.communicator->connectTo(loopback, server.port, conn_type()), status_t::SUCCESS);
}

TEST_F(Access, control_plane_refuses_another_user_by_tcp) {
  const ScopedEnv tcp("CTRL_TRANSPORT", "tcp");
  const Pipe port;
  Child client([&] {
    const auto server = static_cast<std::uint16_t>(port.get());
    return become_other_user() && !CtrlSocketManager::instance().connectTcp(1, loopback, server, 2);
  });
  auto& control = CtrlSocketManager::instance();
  std::uint16_t server = Side::next_port();
  while (!control.start(loopback, server)) server = Side::next_port();
  port.put(server);
  EXPECT_TRUE(client.join());
  control.stop();
}

}  // namespace
}  // namespace hmc::test
