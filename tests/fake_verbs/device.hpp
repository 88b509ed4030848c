// The device in memory: its objects, and the thread that executes the requests of all queue pairs of this process.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_verbs/control.hpp"

namespace fake_verbs {

inline constexpr std::size_t most_inline = 512;
inline constexpr std::size_t network_header = 40;

struct Queue : ibv_cq {
  std::deque<ibv_wc> completions;
  std::deque<std::pair<struct Pair*, std::uint64_t>> retires;  // per completion: the requests that it retires
  std::uint64_t polls = 0;
  bool is_armed = false;
  int unacknowledged = 0;
  int users = 0;
};

struct Channel : ibv_comp_channel {
  std::deque<Queue*> events;
};

struct Memory : ibv_mr {
  int access = 0;
};

struct Route : ibv_ah {
  ibv_ah_attr attributes{};
};

struct Request {
  enum class State { waiting, deferred, executed };
  ibv_send_wr request{};
  ibv_sge part{};
  bool has_part = false;
  State state = State::waiting;
  std::uint64_t posted_at = 0;  // polls of the completion queue
  std::uint64_t number = 0;
  std::array<std::byte, most_inline> bytes{};
};

struct Pair : ibv_qp {
  ibv_qp_cap cap{};
  bool signals_all = false;
  int order = 0;  // of creation; reliable connections only
  int access = 0;
  std::uint32_t key = 0;
  ibv_qp_attr remote{};
  std::deque<Request> requests;  // not yet completed
  std::deque<std::pair<std::uint64_t, ibv_sge>> receives;
  std::uint64_t posted = 0;
  std::uint64_t retired = 0;
};

struct Refusal {
  int after = 0;
  int count = 0;
  int error = 0;
};
struct Failure {
  int pair = 0;
  int after = 0;
  ibv_wc_status status{};
};

bool is_read(ibv_wr_opcode opcode);

/// Under `lock`, except the constructor.
class Fabric {
 public:
  std::mutex lock;
  std::map<std::string, int> settings;
  std::map<std::string, Refusal> refusals;
  std::map<std::string, long> counts;
  std::map<std::string, long> live;
  std::map<int, int> delays;
  std::vector<Failure> failures;
  std::string violations;
  std::map<std::uint32_t, Memory*> local_keys;
  std::map<std::uint32_t, Memory*> remote_keys;
  std::map<std::uint32_t, Pair*> pairs;
  FakeVerbsObserver observer = nullptr;
  void* observer_context = nullptr;
  std::uint32_t next_number = 0x100;
  int created = 0;

  Fabric() { restore(); }

  void restore();
  void violate(const std::string& what) { violations += what + "\n"; }
  /// Whether the call succeeds; otherwise errno is set.
  bool permits(const char* function);
  void open();
  void close(std::unique_lock<std::mutex>& guard);
  void wake() { changed_.notify_all(); }

  Memory* find(std::map<std::uint32_t, Memory*>& keys, std::uint32_t key, ibv_pd* domain, std::uint64_t address,
               std::uint64_t bytes, int access);

  void complete(Queue& queue, const ibv_wc& completion, Pair* pair, std::uint64_t retires);

  /// All requests of the queue pair end: the oldest that hasn't executed with `status`, the others flushed.
  void break_pair(Pair& pair, ibv_wc_status status);

 private:
  void run(std::uint64_t generation);

  std::uint32_t choose(std::size_t count);

  bool has_waited(const Pair& pair, const Request& request, int polls) const {
    return static_cast<const Queue*>(pair.send_cq)->polls >= request.posted_at + static_cast<std::uint64_t>(polls);
  }

  /// The requests that may execute now, by index.
  std::vector<std::size_t> ready(Pair& pair);

  /// Executes one request. False: none can be executed.
  bool step();

  ibv_wc_status execute(Pair& pair, Request& request);

  std::condition_variable changed_;
  std::thread thread_;
  std::uint64_t generation_ = 0;  // of the thread
  std::uint64_t random_ = 1;
};

Fabric& fabric();

}  // namespace fake_verbs
