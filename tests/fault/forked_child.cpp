// Each rank forks a child. The child's HMC calls fail, and it returns from main as the parent does, with a window, a
// plan, a request in flight and a team in scope. The parent's job must then work as before.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <hmc/hmc.hpp>
#include <memory>
#include <string>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  ++failures;
}

/// The call must throw Error{closed} and state the reason.
void expect_refused(const char* name, const std::function<void()>& call) {
  try {
    call();
    expect(false, std::string(name) + " was not refused in the child");
  } catch (const hmc::Error& error) {
    const std::string text = error.what();
    expect(error.code() == hmc::Code::closed && text.find("forked from a rank") != std::string::npos,
           std::string(name) + ": " + text);
  }
}

/// The word that `from` puts to `to` in round `round`.
std::uint64_t word_of(int from, int to, int round) {
  return static_cast<std::uint64_t>(from * 1000 + to) << 32 | static_cast<std::uint64_t>(round + 1);
}

/// Puts to every rank, a barrier and an allreduce. The owner of the words verifies them.
void use(hmc::Runtime& runtime, hmc::Team& team, hmc::Window& window, int round) {
  const int rank = runtime.rank();
  const int size = runtime.size();
  for (int to = 0; to < size; ++to) {
    const std::uint64_t word = word_of(rank, to, round);
    window.put(to, static_cast<std::uint64_t>(rank) * 8, &word, 8);
  }
  team.barrier();
  for (int from = 0; from < size; ++from)
    expect(window.local<std::uint64_t>()[from] == word_of(from, rank, round), "a put after the fork");
  const double mine = rank + 1.5 * round;
  double sum = 0;
  team.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  expect(sum == size * (size - 1) / 2.0 + 1.5 * round * size, "an allreduce after the fork");
  team.barrier();
}

void act_as_child(hmc::Runtime& runtime, hmc::Team& team, hmc::Window& window, hmc::Plan& plan, hmc::Request& request,
                  bool has_request) {
  std::vector<std::byte> bytes(65536, std::byte{0xee});
  double value = 1;
  for (int rank = 0; rank < runtime.size(); ++rank) {
    expect_refused("put of 8 bytes", [&] { window.put(rank, 8, bytes.data(), 8); });
    expect_refused("put of no bytes", [&] { window.put_nb(rank, 0, bytes.data(), 0).wait(); });
    expect_refused("put", [&] { window.put(rank, 0, bytes.data(), 4096); });
    expect_refused("get", [&] { window.get(rank, 0, bytes.data(), 8); });
    expect_refused("put_nb", [&] { window.put_nb(rank, 0, bytes.data(), 4096).wait(); });
    expect_refused("put_signal", [&] { window.put_signal(rank, 0, bytes.data(), 8, 64, 1); });
    expect_refused("fetch_add", [&] { window.fetch_add<std::uint64_t>(rank, 64, 1); });
    expect_refused("flush", [&] {
      window.flush(rank);
      window.flush();
    });
  }
  expect_refused("fence", [&] { window.fence(); });
  expect_refused("wait_until", [&] { window.wait_until(64, hmc::Cmp::eq, 77); });
  expect_refused("test_until", [&] { window.test_until(64, hmc::Cmp::eq, 77); });
  expect_refused("data", [&] { (void)window.data(); });
  expect_refused("alloc", [&] { (void)window.alloc(64); });
  expect_refused("barrier", [&] { team.barrier(); });
  expect_refused("allreduce", [&] { team.allreduce(std::span(&value, 1), std::span(&value, 1), hmc::sum); });
  expect_refused("duplicate", [&] { (void)team.duplicate(); });
  expect_refused("barrier of the world", [&] { runtime.world().barrier(); });
  expect_refused("Window::create", [&] { (void)hmc::Window::create(team, 4096); });
  expect_refused("Plan::start", [&] { plan.start(); });
  if (has_request) expect_refused("Request::wait", [&] { request.wait(); });
  expect_refused("Team::close", [&] { team.close(); });
  expect_refused("Window::close", [&] { window.close(); });
  expect_refused("Runtime::close", [&] { runtime.close(); });
  expect_refused("Runtime::init", [&] { (void)hmc::Runtime::init(); });
  runtime.abort(9, "a child can't abort its parent's job");
}

}  // namespace

int main(int argc, char** argv) {
  const bool exits = argc > 1 && std::string(argv[1]) == "exit";  // end by exit(), which destroys static objects
  hmc::Runtime runtime = hmc::Runtime::init();
  const auto heap = std::make_unique<hmc::Runtime>(std::move(runtime));  // on the heap: exit() doesn't destroy it, as
                                                                         // in Fortran and C
  hmc::Team team = heap->world().duplicate();
  hmc::Window window = hmc::Window::create(team, 65536);
  use(*heap, team, window, 0);
  const int last = heap->size() - 1;
  double in = heap->rank();
  double out = 0;
  hmc::Plan plan = team.plan_allreduce(&in, &out, 1, hmc::DType::f64, hmc::sum);
  // In flight during the fork: the last rank starts its part afterwards.
  const bool begins_later = heap->rank() == last;
  double total = 0;
  hmc::Request request;
  if (!begins_later) request = team.iallreduce(&in, &total, 1, hmc::DType::f64, hmc::sum);

  const pid_t child = ::fork();
  if (child == 0) {
    act_as_child(*heap, team, window, plan, request, !begins_later);
    if (exits) std::exit(failures == 0 ? 0 : 1);
    return failures == 0 ? 0 : 1;
  }
  int status = -1;
  expect(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's end");

  if (begins_later) request = team.iallreduce(&in, &total, 1, hmc::DType::f64, hmc::sum);
  request.wait();
  expect(total == last * (last + 1) / 2.0, "an allreduce that was under way at the fork");
  for (int round = 1; round < 4; ++round) use(*heap, team, window, round);
  plan.start();
  plan.wait();
  expect(out == last * (last + 1) / 2.0, "a plan after the fork");
  window.close();
  team.close();
  heap->close();
  if (failures == 0) std::printf("rank %d went on\n", heap->rank());
  return failures == 0 ? 0 : 1;
}
