// Members that die or stop, and a store that ends: pool_failure_test [PROCESSES]. The first process observes the
// others.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "members.hpp"

namespace hmc::test {
namespace {

using spmd::Pattern;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t part_bytes = std::size_t{8} << 20;

PoolOptions options_for(const std::string& name, int size) {
  PoolOptions options;
  options.name = name;
  options.most_members = size;
  options.host_bytes = part_bytes;
  if (name == "lost") options.device_bytes = part_bytes;
  return options;
}

std::uint64_t call_of(PoolPart part) { return part == PoolPart::host ? 1 : 2; }

/// A process that joins, fills its parts and sleeps until it is killed.
pid_t start_member(const std::string& name, int size, int node) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("HMC_NODE", fmt::format("node{}", node).c_str(), 1);
  try {
    PoolOptions options = options_for(name, size);
    Pool pool = Pool::create(Store::connect(), options);
    const int rank = pool.join();
    Pattern{rank, 1}.fill({static_cast<std::byte*>(pool.address(rank, PoolPart::host)), part_bytes});
    if (options.device_bytes > 0) {
      std::vector<std::byte> data(part_bytes);
      Pattern{rank, call_of(PoolPart::device)}.fill(data);
      pool.copy(pool.address(rank, PoolPart::device), data.data(), part_bytes);
    }
    pool.store().set(fmt::format("filled{}", ::getpid()), std::to_string(rank));
    for (;;) ::pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member: %s\n", error.what());
    std::_Exit(1);
  }
}

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

/// The members are forked before the observer has threads.
struct Scene {
  Scene(const std::string& name, int size, int nodes) : options(options_for(name, size)) {
    for (int i = 1; i < size; ++i) children.push_back(start_member(name, size, i * nodes / size));
    ::setenv("HMC_NODE", "node0", 1);
  }
  ~Scene() {
    for (const pid_t each : children) end(each);
  }
  /// Joins after all the others. Returns the ranks of the children.
  std::vector<int> observe() {
    store = std::make_unique<Store>(Store::connect());
    pool = Pool::create(*store, options);
    std::vector<int> ranks;
    for (const pid_t each : children) ranks.push_back(std::stoi(pool.store().get(fmt::format("filled{}", each), 60s)));
    (void)pool.join();
    return ranks;
  }
  PoolOptions options;
  std::vector<pid_t> children;
  std::unique_ptr<Store> store;
  Pool pool;
};

void copies_to_a_dead_member_end_with_an_error(int size, int nodes) {
  Scene scene("death", size, nodes);
  const auto ranks = scene.observe();
  Pool& pool = scene.pool;
  std::atomic<std::int64_t> noticed_us{-1};
  pool.on_change([&](const PoolChange& change) {
    if (change.died && !change.joined) noticed_us = Clock::now().time_since_epoch() / 1us;
  });
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    void* const there = pool.address(ranks[i], PoolPart::host);
    std::vector<std::byte> data(part_bytes);
    pool.copy(data.data(), there, part_bytes);
    check_pattern({ranks[i], 1}, data.data(), part_bytes);
    noticed_us = -1;
    const std::uint64_t before = pool.version();
    // A thread copies during the death.
    std::atomic<bool> failed{false};
    std::thread copier([&] {
      std::vector<std::byte> mine(part_bytes);
      while (!failed) {
        const Code code = code_of([&] { pool.copy(mine.data(), there, part_bytes); });
        if (code == Code::success) {
          check_pattern({ranks[i], 1}, mine.data(), part_bytes);
        } else {
          HMC_CHECK(code == Code::peer_failed);
          failed = true;
        }
      }
    });
    const std::int64_t killed_us = Clock::now().time_since_epoch() / 1us;
    ::kill(scene.children[i], SIGKILL);
    copier.join();
    pool.wait_version(before + 1, 60s);
    wait_until([&] { return noticed_us >= 0; });
    std::printf("%d processes, %d nodes: notice of a death after %.1f ms\n", size, nodes,
                static_cast<double>(noticed_us - killed_us) / 1e3);
    HMC_CHECK_THROWS(Code::peer_failed, pool.copy(data.data(), there, 1));
    HMC_CHECK(pool.pointer(ranks[i], PoolPart::host) == nullptr);
    HMC_CHECK_EQ(static_cast<int>(pool.members().size()), size - 1 - static_cast<int>(i));
  }
  pool.on_change(nullptr);
}

void the_end_of_the_store_is_an_error_and_copies_continue(pid_t store, int size) {
  Scene scene("store", size, 1);
  const auto ranks = scene.observe();
  Pool& pool = scene.pool;
  std::thread waiter([&] { HMC_CHECK_THROWS(Code::peer_failed, pool.wait_version(pool.version() + 1)); });
  std::thread caller([&] { HMC_CHECK_THROWS(Code::peer_failed, pool.store().barrier("b", 2, 0)); });
  end(store);
  waiter.join();
  caller.join();
  std::vector<std::byte> data(part_bytes);
  pool.copy(data.data(), pool.address(ranks[0], PoolPart::host), part_bytes);
  check_pattern({ranks[0], 1}, data.data(), part_bytes);
  HMC_CHECK_THROWS(Code::peer_failed, pool.leave());
  Pool other;
  HMC_CHECK_THROWS(Code::peer_failed, other = Pool::create(*scene.store, scene.options));
}

void a_stopped_member_delays_no_copy(int size) {
  Scene scene("stopped", size, 1);
  const auto ranks = scene.observe();
  ::kill(scene.children[0], SIGSTOP);
  std::vector<std::byte> data(part_bytes);
  for (int i = 0; i < 10; ++i) scene.pool.copy(data.data(), scene.pool.address(ranks[0], PoolPart::host), part_bytes);
  check_pattern({ranks[0], 1}, data.data(), part_bytes);
  // A join needs all members: it ends at its timeout, and the candidate leaves nothing.
  const std::uint64_t version = scene.pool.version();
  scene.pool.leave();
  HMC_CHECK_THROWS(Code::timeout, (void)scene.pool.join(500ms));
  ::kill(scene.children[0], SIGCONT);
  HMC_CHECK(scene.pool.join() >= 0);
  HMC_CHECK_EQ(scene.pool.version(), version + 2);
  scene.pool.copy(data.data(), scene.pool.address(ranks[0], PoolPart::host), part_bytes);
}

/// A member ends the permission to copy its memory, by the kernel's own means.
void observe_a_refused_process_copy() {
  // The kernel asks only users without special rights.
  if (::geteuid() == 0) HMC_CHECK_EQ(::setresuid(65534, 65534, 65534), 0);
  ::prctl(PR_SET_DUMPABLE, 1);
  PoolOptions options = options_for("refused", 2);
  options.rules = "*:process:*";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Pool pool = Pool::create(Store::connect(), options);
    const int rank = pool.join();
    const auto* const own = static_cast<const std::byte*>(pool.address(rank, PoolPart::host));
    const Store& store = pool.store();
    store.set("joined", std::to_string(rank));
    for (std::uint64_t call = 1; call <= 2; ++call) {
      (void)store.get(fmt::format("written{}", call), 60s);
      const std::string wrong = Pattern{1, call}.verify({own, part_bytes});
      if (call == 1) ::prctl(PR_SET_DUMPABLE, 0);
      store.set(fmt::format("verified{}", call), wrong);
    }
    for (;;) ::pause();
  }
  const Store store = Store::connect();
  Pool pool = Pool::create(store, options);
  const int rank = std::stoi(pool.store().get("joined", 60s));
  (void)pool.join();
  PoolPath path = pool.path(rank, PoolPart::host);
  if (path.way != PoolWay::process_copy) {
    std::printf("skipped: %s\n", path.why.c_str());
    return end(pid);
  }
  std::vector<std::byte> data(part_bytes), back(part_bytes);
  for (std::uint64_t call = 1; call <= 2; ++call) {
    Pattern{1, call}.fill(data);
    pool.copy(pool.address(rank, PoolPart::host), data.data(), part_bytes);
    path = pool.path(rank, PoolPart::host);
    HMC_CHECK_MSG(path.way == (call == 1 ? PoolWay::process_copy : PoolWay::load_store), "{}", path.why);
    pool.store().set(fmt::format("written{}", call), "");
    HMC_CHECK_EQ(pool.store().get(fmt::format("verified{}", call), 60s), std::string());
    pool.copy(back.data(), pool.address(rank, PoolPart::host), part_bytes);
    HMC_CHECK(back == data);
  }
  path = pool.path(rank, PoolPart::host);
  HMC_CHECK_MSG(path.why.find("process failed: ") != std::string::npos, "{}", path.why);
  std::printf("%s: %s\n", name_of(path.way), path.why.c_str());
  end(pid);
}

/// In a process of another user: its death must not be that of the store's parent.
void a_refused_process_copy_continues_by_the_next_way() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      observe_a_refused_process_copy();
      std::fflush(stdout);
      std::_Exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "observer: %s\n", error.what());
      std::_Exit(1);
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  HMC_CHECK_EQ(status, 0);
}

/// Ends this process's TCP connections, other than that to the store.
int shut_down_connections(const std::string& store) {
  int count = 0;
  const int store_port = std::stoi(store.substr(store.rfind(':') + 1));
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.sin_family != AF_INET && peer.sin_family != AF_INET6) continue;  // the ports have the same place
    if (ntohs(peer.sin_port) != store_port && ::shutdown(fd, SHUT_RDWR) == 0) ++count;
  }
  return count;
}

void a_lost_connection_continues_by_the_next_way(int size) {
  Scene scene("lost", size, 2);
  const auto ranks = scene.observe();
  Pool& pool = scene.pool;
  const int rank = ranks.back();  // on the other node
  void* const there = pool.address(rank, PoolPart::host);
  std::atomic<bool> ends{false};
  // Before, during and after the loss. Two threads share the place for the device part.
  struct Copier {
    PoolPart part;
    std::atomic<int> copied;
    std::thread thread;
  };
  Copier copiers[] = {{PoolPart::host, {}, {}}, {PoolPart::device, {}, {}}, {PoolPart::device, {}, {}}};
  for (Copier& each : copiers) {
    HMC_CHECK(pool.path(rank, each.part).way == PoolWay::tcp);
    each.thread = std::thread([&] {
      std::vector<std::byte> data(part_bytes);
      for (; !ends; ++each.copied) {
        std::fill(data.begin(), data.end(), std::byte{0});
        pool.copy(data.data(), pool.address(rank, each.part), part_bytes);
        check_pattern({rank, call_of(each.part)}, data.data(), part_bytes);
      }
    });
  }
  const auto await_copies = [&] {
    for (Copier& each : copiers) wait_until([&, wanted = each.copied + 3] { return each.copied >= wanted; });
  };
  await_copies();
  HMC_CHECK(shut_down_connections(std::getenv("HMC_STORE")) > 0);
  await_copies();
  ends = true;
  for (Copier& each : copiers) each.thread.join();
  for (const PoolPart part : {PoolPart::host, PoolPart::device}) {
    const PoolPath path = pool.path(rank, part);
    const std::size_t reason = path.why.find("tcp failed: ");
    HMC_CHECK_MSG(path.way == PoolWay::staged && reason != std::string::npos, "{}", path.why);
    HMC_CHECK_MSG(path.why.find("an earlier transfer") == std::string::npos, "{}", path.why);
    std::printf("%s: %s\n", name_of(path.way), path.why.c_str());
  }
  // A batch with members of both nodes.
  std::vector<std::byte> data(part_bytes), back(part_bytes);
  std::vector<PoolCopy> puts, gets;
  const std::size_t piece = part_bytes / ranks.size() / 4096 * 4096;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::byte* const at = static_cast<std::byte*>(pool.address(ranks[i], PoolPart::host, i * 4096));
    puts.push_back({at, data.data() + i * piece, piece - i * 4096});
    gets.push_back({back.data() + i * piece, at, piece - i * 4096});
  }
  Pattern{7, 7}.fill(data);
  back = data;
  for (const PoolCopy& each : gets) std::memset(each.destination, 0, each.bytes);
  pool.copy_batch(puts);
  pool.copy_batch(gets);
  HMC_CHECK(back == data);
  // The member's end is still an error.
  ::kill(scene.children.back(), SIGKILL);
  Code code = Code::success;
  wait_until([&] { return (code = code_of([&] { pool.copy(data.data(), there, part_bytes); })) != Code::success; });
  HMC_CHECK(code == Code::peer_failed);
}

/// A global exit runs the handler of every process of the store's prefix.
void a_global_exit_runs_every_handler(int size) {
  auto* const statuses =
      static_cast<std::atomic<int>*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<pid_t> children;
  for (int i = 0; i < size; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const Store store = Store::connect();
    store.on_exit([&](int status) {
      statuses[i] = status;
      std::_Exit(status);
    });
    store.barrier("ready", size, i);
    if (i == size - 1) store.global_exit(7);
    for (;;) ::pause();
  }
  for (int i = 0; i < size; ++i) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(i)], &status, 0);
    HMC_CHECK(WIFEXITED(status));
    HMC_CHECK_EQ(WEXITSTATUS(status), 7);
    HMC_CHECK_EQ(statuses[i].load(), 7);
  }
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  using namespace hmc::test;
  const int size = argc > 1 ? std::atoi(argv[1]) : 4;
  // Each case is a process of its own, because it forks.
  const std::vector<std::pair<const char*, std::function<void(pid_t)>>> cases = {
      {"copies_to_a_dead_member_end_with_an_error", [&](pid_t) { copies_to_a_dead_member_end_with_an_error(size, 1); }},
      {"copies_to_a_dead_member_of_another_node_end_with_an_error",
       [&](pid_t) { copies_to_a_dead_member_end_with_an_error(size, 2); }},
      {"the_end_of_the_store_is_an_error_and_copies_continue",
       [&](pid_t store) { the_end_of_the_store_is_an_error_and_copies_continue(store, size); }},
      {"a_stopped_member_delays_no_copy", [&](pid_t) { a_stopped_member_delays_no_copy(size); }},
      {"a_refused_process_copy_continues_by_the_next_way",
       [&](pid_t) { a_refused_process_copy_continues_by_the_next_way(); }},
      {"a_lost_connection_continues_by_the_next_way",
       [&](pid_t) { a_lost_connection_continues_by_the_next_way(size); }},
      {"a_global_exit_runs_every_handler", [&](pid_t) { a_global_exit_runs_every_handler(size); }}};
  int failed = 0;
  for (const auto& [name, run] : cases) {
    std::printf("%s\n", name);
    std::fflush(stdout);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      pid_t store = 0;
      try {
        // Its processes belong to two users.
        if (std::string_view(name) == "a_refused_process_copy_continues_by_the_next_way")
          ::setenv("HMC_SECRET", std::string(64, '5').c_str(), 1);
        ::setenv("HMC_STORE", fork_store(store).c_str(), 1);
        run(store);
        std::fflush(stdout);
        std::exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        std::_Exit(1);
      }
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) std::printf("FAILED: %s\n", name), failed = 1;
  }
  return failed;
}
