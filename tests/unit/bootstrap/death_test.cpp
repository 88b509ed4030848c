// Ranks, as processes, that die: the delay and the text of the failure on the other ranks.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "bootstrap/inproc.hpp"
#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "runtime/control/connection.hpp"
#include "runtime/control/socket.hpp"
#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

/// Called once, when this thread has received all that has arrived at a socket.
thread_local std::function<void()> on_empty_socket;

}  // namespace

// The linker redirects this program's calls of recvmsg (--wrap).
extern "C" ssize_t __real_recvmsg(int socket, msghdr* message, int flags);
extern "C" ssize_t __wrap_recvmsg(int socket, msghdr* message, int flags);
ssize_t __wrap_recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t bytes = __real_recvmsg(socket, message, flags);
  if (bytes < 0 && errno == EAGAIN && on_empty_socket) {
    std::exchange(on_empty_socket, nullptr)();
    errno = EAGAIN;
  }
  return bytes;
}

namespace {

using Clock = base::Clock;

/// Communication between the processes of a test outside the job.
struct Board {
  std::atomic<bool> servers_up{false};
  std::atomic<int> ready{0};
  std::atomic<std::int64_t> killed_at{0};
  std::atomic<std::int64_t> seen_at[8]{};
  std::atomic<int> seen_peer[8]{};
};

class Processes {
 public:
  Processes()
      : board_(new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board) {}
  ~Processes() {
    for (const pid_t each : pids_) ::kill(each, SIGKILL);
    for (const pid_t each : pids_) ::waitpid(each, nullptr, 0);
    ::munmap(board_, sizeof(Board));
  }
  Board& board() { return *board_; }
  pid_t pid(std::size_t rank) const { return pids_[rank]; }

  /// Must be called before the test creates a thread, because it forks. The rank joins and then polls only its node's
  /// page, as a rank that spins in a collective does.
  void start(const base::Env& env) {
    const pid_t child = ::fork();
    if (child == 0) {
      watch_page(env, *board_);
      ::_exit(0);
    }
    pids_.push_back(child);
  }
  void wait_until_ready(int count) {
    board_->servers_up = true;
    const auto deadline = soon();
    while (board_->ready < count && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(board_->ready, count);
  }
  /// Kills `victim` and waits until every other rank has seen the failure. Returns the largest delay.
  std::chrono::nanoseconds kill_and_wait(int victim, int count) {
    board_->killed_at = base::now_ns();
    ::kill(pids_[static_cast<std::size_t>(victim)], SIGKILL);
    return wait_for_news(victim, count);
  }
  std::chrono::nanoseconds wait_for_news(int victim, int count) {
    const auto deadline = soon();
    std::int64_t last = 0;
    for (int rank = 0; rank < count; ++rank) {
      if (rank == victim) continue;
      while (board_->seen_at[rank] == 0 && !deadline.expired())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_NE(board_->seen_at[rank], 0) << "rank " << rank << " got no error";
      EXPECT_EQ(board_->seen_peer[rank], victim) << "rank " << rank;
      last = std::max(last, board_->seen_at[rank].load());
    }
    return std::chrono::nanoseconds(last - board_->killed_at);
  }

 private:
  static void watch_page(const base::Env& env, Board& board) {
    try {
      // A rank that is faster than its agent would become the agent.
      while (!env.launcher.empty() && !board.servers_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto me = join_tcp(env, soon());
      me->barrier(soon());
      ++board.ready;
      const auto deadline = soon();
      while (me->node_page().aborted().ok() && !deadline.expired())
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      board.seen_peer[*env.rank] = me->node_page().aborted().peer;
      board.seen_at[*env.rank] = base::now_ns();
      std::this_thread::sleep_for(std::chrono::seconds(20));  // so that no failure is caused by the end of this process
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", *env.rank, error.what());
    }
  }

  Board* board_;
  std::vector<pid_t> pids_;
};

base::Env by_hand(int rank, int size, const std::string& store, int node) {
  base::Env env;
  env.rank = rank;
  env.size = size;
  env.store = store;
  env.node = fmt::format("{}", node);
  env.timeout = std::chrono::seconds(20);
  return env;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::milliseconds quick{1000};  // still far below every deadline and every polling period
#else
constexpr std::chrono::milliseconds quick{5};
#endif

/// The minimum of several attempts: a busy machine may delay some of them, a slow mechanism delays all.
template <typename Try> void expect_quick_news(Try&& attempt) {
  std::chrono::nanoseconds best = std::chrono::hours(1);
  for (int i = 0; i < 40 && best > quick && !testing::Test::HasFailure(); ++i) {
    best = std::min<std::chrono::nanoseconds>(best, attempt());
  }
  EXPECT_LE(best, quick);
}

void expect_by_hand(int victim, const std::vector<int>& nodes) {
  expect_quick_news([&] {
    Processes processes;
    const std::string store = free_address();
    const int size = static_cast<int>(nodes.size());
    for (int rank = 0; rank < size; ++rank) {
      processes.start(by_hand(rank, size, store, nodes[static_cast<std::size_t>(rank)]));
    }
    processes.wait_until_ready(size);
    return processes.kill_and_wait(victim, size);
  });
}

TEST(RankDeath, death_without_a_launcher_reaches_its_node) { expect_by_hand(2, {0, 0, 0}); }
TEST(RankDeath, death_without_a_launcher_reaches_other_nodes) { expect_by_hand(3, {0, 0, 1, 1}); }
TEST(RankDeath, death_of_the_serving_rank_is_detected) { expect_by_hand(0, {0, 0, 0}); }
TEST(RankDeath, death_of_the_store_rank_reaches_other_nodes) { expect_by_hand(0, {0, 1, 1}); }

base::Env launched(int rank, const Shape& shape, const std::string& store, const control::Secret& secret) {
  base::Env env = by_hand(rank, shape.size, store, shape.node_of(rank));
  env.secret = secret.hex();
  env.launcher = "test";
  return env;
}

struct Servers {
  Servers(const Shape& shape, const std::string& address, const control::Secret& secret)
      : store(secret, shape.size, address, {}) {
    for (int node = 0; node < shape.nodes; ++node) {
      NodeAgent::Events events;
      events.on_rank_lost = [this](int rank, std::string_view) {
        const std::lock_guard lock(mutex);
        lost.push_back(rank);
        changed.notify_all();
      };
      agents.push_back(
          NodeAgent::start(secret, address, fmt::format("{}", node), shape.size, std::move(events), soon()));
    }
  }
  /// The first lost ranks that an agent has reported. The other ranks may know of them earlier.
  std::vector<int> await_loss() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [this] { return !lost.empty(); });
    return lost;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> lost;
  StoreServer store;
  std::vector<std::unique_ptr<NodeAgent>> agents;
};

TEST(RankDeath, death_of_a_launched_rank_is_detected_by_its_socket) {
  expect_quick_news([] {
    const Shape shape{Kind::tcp, 4, 2};
    const control::Secret secret = control::Secret::random();
    const std::string address = free_address();
    Processes processes;
    for (int rank = 0; rank < 4; ++rank) processes.start(launched(rank, shape, address, secret));
    Servers servers(shape, address, secret);
    processes.wait_until_ready(4);
    const auto delay = processes.kill_and_wait(1, 4);
    EXPECT_EQ(servers.await_loss(), std::vector<int>{1});
    return delay;
  });
}

TEST(RankDeath, death_reported_by_the_launcher_reaches_all_ranks) {
  expect_quick_news([] {
    const Shape shape{Kind::tcp, 4, 2};
    const control::Secret secret = control::Secret::random();
    const std::string address = free_address();
    Processes processes;
    for (int rank = 0; rank < 4; ++rank) processes.start(launched(rank, shape, address, secret));
    Servers servers(shape, address, secret);
    processes.wait_until_ready(4);
    processes.board().killed_at = base::now_ns();
    servers.agents[1]->report_death(3, "rank 3 was killed by signal 11");
    const auto delay = processes.wait_for_news(3, 4);
    EXPECT_THAT(servers.agents[0]->page().abort_text(), testing::HasSubstr("signal 11"));
    EXPECT_THAT(servers.agents[1]->page().abort_text(), testing::HasSubstr("signal 11"));
    return delay;
  });
}

TEST(RankDeath, end_that_a_failure_has_caused_is_reported_as_the_failure) {
  const Shape shape{Kind::tcp, 3, 2};  // rank 2 is alone on its node
  TestServers servers(shape);
  run_ranks(
      shape, [&](int rank) { return servers.env(rank); },
      [&](Bootstrap& me) {
        me.barrier(soon());
        if (me.rank() == 1) {
          me.node_page().raise_abort(Code::peer_failed, 0, "rank 0 lost its memory");
          servers.agent(0).report_death(1, "rank 1 was killed by signal 6");
          throw Gone{};
        }
        const Error error = error_of([&] { (void)me.lookup("never", soon()); });
        EXPECT_EQ(error.code(), Code::peer_failed);
        EXPECT_EQ(error.peer(), 0) << "on rank " << me.rank();
        EXPECT_THAT(error.what(), testing::HasSubstr("lost its memory"));
      });
}

TEST(RankDeath, death_before_joining_ends_the_waits_of_others) {
  const Shape shape{Kind::tcp, 2, 1};
  TestServers servers(shape);
  std::thread launcher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    servers.agent(0).report_death(1, "rank 1 exited with code 3");
  });
  const Error error = error_of([&] { (void)join_tcp(servers.env(0), soon()); });
  launcher.join();
  EXPECT_EQ(error.code(), Code::peer_failed);
  EXPECT_EQ(error.peer(), 1);
  EXPECT_THAT(error.what(), testing::HasSubstr("code 3"));
}

TEST(RankDeath, first_deadline_of_a_join_ends_the_waits_of_its_node) {
  const Shape shape{Kind::tcp, 3, 1};
  TestServers servers(shape);
  std::thread hasty([&] {
    const Error error = error_of([&] { (void)join_tcp(servers.env(0), in_ms(300)); });
    EXPECT_EQ(error.code(), Code::timeout);
  });
  const std::int64_t start = base::now_ns();
  const Error error = error_of([&] { (void)join_tcp(servers.env(1), in_ms(60'000)); });
  hasty.join();
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_THAT(error.what(), testing::ContainsRegex("waiting for rank.* 2"));
  EXPECT_LT(base::now_ns() - start, std::int64_t{40'000'000'000});
}

TEST(RankDeath, end_after_a_goodbye_is_no_death) {
  const Shape shape{Kind::tcp, 2, 2};
  TestServers servers(shape);
  run_ranks(
      shape, [&](int rank) { return servers.env(rank); },
      [&](Bootstrap& me) {
        me.barrier(soon());
        if (me.rank() == 0) {
          me.leave();
          servers.agent(0).report_death(0, "it exited");  // as a launcher does for every rank that exits
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_TRUE(me.node_page().aborted().ok()) << me.node_page().abort_text();
      });
  EXPECT_TRUE(servers.agent(0).page().aborted().ok());
}

TEST(RankDeath, abort_is_reported_to_the_launcher) {
  const Shape shape{Kind::tcp, 2, 2};
  std::mutex mutex;
  std::vector<std::tuple<int, int, std::string>> aborts;
  const control::Secret secret = control::Secret::random();
  StoreServer::Events events;
  events.on_abort = [&](int rank, int exit_code, std::string text) {
    const std::lock_guard lock(mutex);
    aborts.emplace_back(rank, exit_code, std::move(text));
  };
  StoreServer store(secret, 2, "127.0.0.1:0", std::move(events));
  std::vector<std::unique_ptr<NodeAgent>> agents;
  for (const char* node : {"0", "1"}) agents.push_back(NodeAgent::start(secret, store.address(), node, 2, {}, soon()));
  run_ranks(
      shape, [&](int rank) { return launched(rank, shape, store.address(), secret); },
      [](Bootstrap& me) {
        me.barrier(soon());
        if (me.rank() == 1) me.abort(77, "no more disk");
        EXPECT_EQ(error_of([&] { (void)me.lookup("never", soon()); }).code(), Code::aborted);
      });
  const std::lock_guard lock(mutex);
  ASSERT_EQ(aborts.size(), 1U);
  EXPECT_EQ(aborts[0], std::make_tuple(1, 77, std::string("no more disk")));
}

/// The node's agent, on the thread of its only rank.
class OwnAgent {
 public:
  explicit OwnAgent(const control::Secret& secret)
      : secret_(secret),
        listener_(control::listen_unix(NodeAgent::socket_name(secret, "0"))),
        page_(base::NodePage::create(2)),
        page_fd_(std::make_shared<base::UniqueFd>(::fcntl(page_.segment()->fd(), F_DUPFD_CLOEXEC, 0))) {}

  void serve() {
    bool exhausted = false;
    if (!rank_) {
      base::UniqueFd socket = control::accept_one(listener_.get(), exhausted);
      if (!socket) return;
      rank_.emplace(std::move(socket), secret_, control::Connection::Side::server, &payload_limit);
    }
    rank_->read();
    std::vector<base::UniqueFd> none;
    while (const std::optional<control::Frame> frame = rank_->next(none)) {
      const std::optional<Join> join = decode<Join>(*frame);
      if (!join) continue;
      rank_->send(Page{page_.nonce(), 0}, {page_fd_});
      Table table{{join->ranks.at(0), {}}};
      table.ranks[1].rank = 1;
      table.ranks[1].node = 1;
      table.ranks[0].node = table.ranks[0].local_index = table.ranks[1].local_index = 0;
      rank_->send(table);
    }
    rank_->write();
  }
  void send_result(std::uint64_t round) {
    rank_->send(Result{round, {}});
    rank_->write();
    EXPECT_FALSE(rank_->wants_write());
  }
  const base::NodePage& page() const { return page_; }

 private:
  const control::Secret secret_;
  base::UniqueFd listener_;
  base::NodePage page_;
  control::SharedFd page_fd_;
  std::optional<control::Connection> rank_;
};

TEST(Failure, does_not_hide_a_result_that_was_sent_before_it) {
  const Shape shape{Kind::tcp, 2, 2};
  const control::Secret secret = control::Secret::random();
  OwnAgent agent(secret);
  const base::Env env = launched(0, shape, "127.0.0.1:1", secret);
  const auto me = join_tcp(env, std::make_unique<HostedServices>(env), soon(), [&] { agent.serve(); });
  // The rank has looked for messages and found none. Then both arrive before it looks at the page.
  on_empty_socket = [&] {
    agent.send_result(0);
    agent.page().raise_abort(Code::peer_failed, 1, "rank 1 has ended");
  };
  EXPECT_EQ(error_of([&] { me->barrier(soon()); }).code(), Code::success);
  EXPECT_FALSE(on_empty_socket) << "the rank didn't wait";
  EXPECT_EQ(error_of([&] { me->barrier(soon()); }).code(), Code::peer_failed);
}

TEST(Goodbye, servers_end_after_all_goodbyes) {
  const Shape shape{Kind::tcp, 2, 2};
  TestServers servers(shape);
  run_ranks(
      shape, [&](int rank) { return servers.env(rank); },
      [&](Bootstrap& me) {
        me.barrier(soon());
        EXPECT_FALSE(servers.store().wait_for_goodbyes(in_ms(1)));
        me.barrier(soon());
      });
  EXPECT_TRUE(servers.agent(0).wait_for_goodbyes(soon()));
  EXPECT_TRUE(servers.store().wait_for_goodbyes(soon()));
}

TEST(Inproc, impossible_shapes_are_rejected) {
  EXPECT_EQ(error_of([] { (void)make_inproc(0); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([] { (void)make_inproc(2, 3); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace hmc::bootstrap::test
