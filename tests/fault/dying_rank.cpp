// One rank dies (or aborts) while the others wait in HMC. Each survivor reports its error and the delay.
//   hmcrun -np N dying_rank HOW WHERE
//   HOW:   kill | kill_unreaped | exit0 | exit3 | abort | segv
//          kill_unreaped: its parent is stopped, so hmcrun is told of the death late
//   WHERE: barrier | wait_until | allreduce | flush | get | request | create | test | test_until | recv | recv_any |
//          send | irecv | recv_part (the victim dies after the first pieces of its message)
// A survivor prints "survivor R code CODE peer P after US us: TEXT" and exits with 0.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "runtime/base/deadline.hpp"

namespace {

using hmc::Runtime;
using hmc::Window;

constexpr std::uint64_t moment_at = 0;  ///< time of the victim's death, CLOCK_MONOTONIC
constexpr std::uint64_t data_at = 4096;
constexpr std::size_t data_bytes = std::size_t{1} << 20;
/// Of a message that is on its way when its sender dies: its transfer takes far longer than its start.
constexpr std::size_t long_bytes = std::size_t{1} << 30;

/// Memory of which only the pages that are written take room.
std::span<std::byte> untouched(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return {static_cast<std::byte*>(memory), bytes};
}

[[noreturn]] void die(Runtime& runtime, const std::string& how) {
  if (how == "kill_unreaped") ::kill(::getppid(), SIGSTOP);
  if (how.starts_with("kill")) ::kill(::getpid(), SIGKILL);
  if (how == "segv") {
    ::signal(SIGSEGV, SIG_DFL);
    ::kill(::getpid(), SIGSEGV);
  }
  if (how == "abort") {
    runtime.abort(7, "rank " + std::to_string(runtime.rank()) + " has had enough");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::_Exit(7);
  }
  std::_Exit(how == "exit3" ? 3 : 0);
}

/// Doesn't return while all ranks live: a call waits for the victim, or is repeated forever.
void wait_in(Runtime& runtime, Window& win, const std::string& where, int victim, std::vector<std::byte>& memory) {
  const auto forever = [&](auto&& call) {
    for (;;) call();
  };
  if (where == "barrier") runtime.world().barrier();
  if (where == "wait_until") win.wait_until(data_at, hmc::Cmp::eq, 12345);
  if (where == "allreduce")
    runtime.world().allreduce(memory.data(), memory.data(), data_bytes / 4, hmc::DType::f32, hmc::sum);
  if (where == "test_until") forever([&] { win.test_until(data_at, hmc::Cmp::eq, 12345); });
  if (where == "test") {
    hmc::Request request = runtime.world().ibarrier();
    forever([&] { request.test(); });
  }
  if (where == "recv") runtime.world().recv_bytes(memory.data(), 8, victim, 1);
  if (where == "recv_part") runtime.world().recv_bytes(untouched(long_bytes).data(), long_bytes, victim, 1);
  if (where == "recv_any") runtime.world().recv_bytes(memory.data(), 8);
  if (where == "send") runtime.world().send_bytes(memory.data(), data_bytes, victim, 1);
  if (where == "irecv") runtime.world().irecv_bytes(memory.data(), 8, victim, 1).wait();
  if (where == "create") Window::create(runtime.world(), 4096);
  if (where == "get") forever([&] { win.get(victim, data_at, memory.data(), data_bytes); });
  if (where == "flush") {
    forever([&] {
      win.put(victim, data_at, memory.data(), data_bytes);
      win.flush(victim);
    });
  }
  if (where == "request") {
    forever([&] { win.get_nb(victim, data_at, memory.data(), data_bytes).wait(); });
  }
}

int survive(Runtime& runtime, Window& win, const std::string& where, int victim) {
  std::vector<std::byte> memory(data_bytes);
  try {
    wait_in(runtime, win, where, victim, memory);
    std::printf("survivor %d code none: %s came back\n", runtime.rank(), where.c_str());
  } catch (const hmc::Error& error) {
    const std::int64_t now = hmc::base::now_ns();
    const std::int64_t died = *win.local<std::int64_t>(moment_at);
    std::printf("survivor %d code %s peer %d after %lld us: %s\n", runtime.rank(), name_of(error.code()), error.peer(),
                static_cast<long long>((now - died) / 1000), error.what());
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string how = argv[1];
  const std::string where = argv[2];
  ::signal(SIGTERM, SIG_IGN);  // hmcrun terminates the survivors: they report first
  Runtime runtime = Runtime::init();
  // The victim is the last rank; rank 0 for an abort.
  const int victim = how == "abort" ? 0 : runtime.size() - 1;
  Window win = Window::create(runtime.world(), data_at + data_bytes);
  runtime.world().barrier();
  if (runtime.rank() != victim) {
    const int code = survive(runtime, win, where, victim);
    std::fflush(nullptr);
    std::_Exit(code);  // no destructors: the job has ended
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::int64_t now = hmc::base::now_ns();
  for (int peer = 0; peer < runtime.size(); ++peer) win.put(peer, moment_at, &now, 8);
  win.flush();
  std::vector<hmc::Request> sent;
  if (where == "recv_part") {
    const std::span<const std::byte> message = untouched(long_bytes);
    for (int peer = 0; peer < runtime.size(); ++peer)
      if (peer != victim) sent.push_back(runtime.world().isend(message, peer, 1));
  }
  die(runtime, how);
}
