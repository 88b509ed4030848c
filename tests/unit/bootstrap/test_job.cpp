#include "test_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "bootstrap/inproc.hpp"
#include "bootstrap/launchers/join_over.hpp"
#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap::test {

const char* name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::inproc: return "inproc";
    case Kind::tcp: return "tcp";
    case Kind::tcp6: return "tcp6";
    case Kind::by_hand: return "by_hand";
    case Kind::over_store: return "over_store";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << name_of(shape.kind) << "_" << shape.size << "_ranks_" << shape.nodes << "_nodes";
}

std::vector<Shape> all_shapes(int least_size) {
  std::vector<Shape> shapes;
  for (const Kind kind : {Kind::inproc, Kind::tcp, Kind::tcp6, Kind::by_hand, Kind::over_store}) {
    if (kind == Kind::tcp6 && !has_ipv6()) continue;
    for (const int size : {1, 2, 3, 4, 5, 8}) {
      if (size < least_size) continue;
      for (const int nodes : std::set<int>{1, std::min(2, size), std::min(3, size), size}) {
        if (kind == Kind::over_store && nodes != 1 && nodes != size) continue;  // it only affects the start
        if (kind == Kind::tcp6 && size > 3) continue;  // the address family only affects the sockets
        shapes.push_back({kind, size, nodes});
      }
    }
  }
  return shapes;
}

std::vector<Shape> some_shapes() {
  std::vector<Shape> shapes = all_shapes(2);
  std::erase_if(shapes, [](const Shape& shape) {
    const std::pair pair(shape.size, shape.nodes);
    return pair != std::pair(2, 1) && pair != std::pair(2, 2) && pair != std::pair(5, 3) && pair != std::pair(8, 1) &&
           pair != std::pair(8, 8);
  });
  return shapes;
}

std::string free_address() {
  // A loopback address of this process: tests that run in parallel can't take its port before it is used.
  const auto pid = static_cast<unsigned>(::getpid());
  return control::address_of(
      control::listen_tcp(fmt::format("127.{}.{}.{}:0", 1 + (pid >> 16 & 0x7fU), pid >> 8 & 0xffU, pid & 0xffU)).get());
}

bool has_ipv6() {
  try {
    (void)control::listen_tcp("[::1]:0");
    return true;
  } catch (const Error&) {
    return false;
  }
}

TestServers::TestServers(const Shape& shape, control::Secret secret) : shape_(shape), secret_(secret) {
  const std::string bind = shape.kind == Kind::tcp6 ? "[::1]:0" : "127.0.0.1:0";
  store_ = std::make_unique<StoreServer>(secret_, shape.size, bind, StoreServer::Events{});
  for (int node = 0; node < shape.nodes; ++node) {
    agents_.push_back(NodeAgent::start(secret_, store_->address(), fmt::format("{}", node), shape.size, {}, soon()));
  }
}

base::Env TestServers::env(int rank) const {
  base::Env env;
  env.rank = rank;
  env.size = shape_.size;
  env.store = store_->address();
  env.secret = secret_.hex();
  env.node = fmt::format("{}", shape_.node_of(rank));
  env.launcher = "hmcrun";
  env.timeout = std::chrono::seconds(20);
  return env;
}

KeyValueStore MemoryStore::store() {
  KeyValueStore store;
  store.set = [this](const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  };
  store.get = [this](const std::string& key, Timeout timeout) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
      throw Error(Code::timeout, "get", "no such key");
    return values_[key];
  };
  store.compare_set = [this](const std::string& key, const std::string& expected, const std::string& desired) {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    if (value == expected) value = desired;
    return value;
  };
  return store;
}

namespace {

void run_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([rank, &body] {
      try {
        body(rank);
      } catch (const Gone&) {  // its Bootstrap is already destroyed
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace

void run_ranks(const Shape& shape, const std::function<base::Env(int)>& env, const Program& program) {
  run_threads(shape.size, [&](int rank) {
    const auto bootstrap = join_tcp(env(rank), base::Deadline::after(env(rank).timeout));
    program(*bootstrap);
    bootstrap->leave();
  });
}

void run_job(const Shape& shape, const Program& program) {
  if (shape.kind == Kind::inproc) {
    auto all = make_inproc(shape.size, shape.nodes);
    run_threads(shape.size, [&](int rank) {
      const auto mine = std::move(all[static_cast<std::size_t>(rank)]);
      program(*mine);
      mine->leave();
    });
  } else if (shape.kind == Kind::by_hand) {
    const std::string store = free_address();
    const auto env = [&](int rank) {
      base::Env by_hand;
      by_hand.rank = rank;
      by_hand.size = shape.size;
      by_hand.store = store;
      by_hand.node = fmt::format("{}", shape.node_of(rank));
      by_hand.timeout = std::chrono::seconds(20);
      return by_hand;
    };
    run_ranks(shape, env, program);
  } else if (shape.kind == Kind::over_store) {
    MemoryStore memory;
    const KeyValueStore store = memory.store();
    run_threads(shape.size, [&](int rank) {
      base::Env env;
      env.node = fmt::format("{}", shape.node_of(rank));
      env.timeout = std::chrono::seconds(20);
      const auto bootstrap = join_over(store, rank, shape.size, env);
      program(*bootstrap);
      bootstrap->leave();
    });
  } else {
    TestServers servers(shape);
    run_ranks(
        shape, [&](int rank) { return servers.env(rank); }, program);
    EXPECT_EQ(servers.store().unknown_connections(), 0U);
  }
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::success, "", "");
}

}  // namespace hmc::bootstrap::test
