// Ranks as processes that make different calls: `mismatch_app CASE ...` under hmcrun. A mismatch ends its team and no
// other, so each case has a team of its own, except `end`, which closes the Runtime and so is the last case. A rank
// exits with 0 if the error of each case names the other call, long before the deadline.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "runtime/rma/team_core.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// `odd`: the call of the last rank; else the call of the other ranks.
void call(hmc::Runtime& runtime, hmc::Team& team, hmc::Window& window, const std::string& which, bool odd) {
  std::vector<std::uint64_t> in(20'000, 1), out(20'000);
  if (which == "counts") {
    team.allreduce(in.data(), out.data(), odd ? 7 : 5, hmc::DType::u64, hmc::sum);
  } else if (which == "large_counts") {
    team.allreduce(in.data(), out.data(), odd ? 20'000 : 19'999, hmc::DType::u64, hmc::sum);
  } else if (which == "types") {
    team.allreduce(in.data(), out.data(), 5, odd ? hmc::DType::i64 : hmc::DType::u64, hmc::sum);
  } else if (which == "collectives") {
    if (odd) {
      team.barrier();
    } else {
      team.gatherv(in.data(), out.data(), std::vector<std::size_t>(static_cast<std::size_t>(team.size()), 3), {}, 0);
    }
  } else if (which == "requests") {
    team.iallreduce(in.data(), out.data(), 5, hmc::DType::u64, odd ? hmc::max : hmc::sum).wait();
  } else if (which == "window" && odd) {
    static_cast<void>(hmc::Window::create(team, 4096));
  } else if (which == "window_close" && odd) {
    window.close();
  } else if (which == "end" && odd) {
    runtime.close();
  } else if (which == "team" && odd) {
    static_cast<void>(team.duplicate());
  } else if (which == "two_constructions") {
    odd ? window.close() : static_cast<void>(hmc::Window::create(team, 4096));
  } else if (which == "roots") {
    team.broadcast(in.data(), 80, odd ? 0 : team.size() - 1);
  } else {
    team.allreduce(in.data(), out.data(), 5, hmc::DType::u64, hmc::sum);
  }
  team.barrier();
}

/// The text that every error must contain.
const char* other_call(const std::string& which) {
  if (which == "counts") return "allreduce(7 x u64, sum)";
  if (which == "large_counts") return "allreduce(20000 x u64, sum)";
  if (which == "types") return "allreduce(5 x i64, sum)";
  if (which == "collectives") return "called barrier";
  if (which == "requests") return "iallreduce(5 x u64, max)";
  if (which == "window") return "called Window::create";
  if (which == "window_close" || which == "two_constructions") return "called Window::close";
  if (which == "end") return "called Runtime::close";
  if (which == "team") return "called creation of a team";
  return "broadcast(80 bytes, root 0)";
}

/// Returns false, and prints the reason, if this rank doesn't get the expected error.
bool reports(hmc::Runtime& runtime, const std::string& which) {
  hmc::Team team = which == "end" ? runtime.world() : runtime.world().duplicate();
  hmc::Window window = hmc::Window::create(team, 4096);
  const auto start = Clock::now();
  std::string text = "no error";
  bool good = false;
  try {
    team.barrier();  // some ranks get the mismatch while they are still in barrier
    call(runtime, team, window, which, runtime.rank() == runtime.size() - 1);
  } catch (const hmc::Error& error) {
    text = error.what();
    good = error.code() == hmc::Code::mismatch && text.find(other_call(which)) != std::string::npos &&
           Clock::now() - start < runtime.timeout() / 2;
  }
  if (!good) std::fprintf(stderr, "rank %d, %s: %s\n", runtime.rank(), which.c_str(), text.c_str());
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  hmc::Runtime runtime = hmc::Runtime::init();
  bool good = true;
  for (int i = 1; i < argc; ++i) good = reports(runtime, argv[i]) && good;
  // The other ranks report a rank that exits earlier as failed. That may happen in this allgather, too: a rank that has
  // got all contributions may exit before the others have.
  const hmc::rma::Fabric& fabric = runtime.world().core()->fabric();
  try {
    static_cast<void>(fabric.exchange->allgather({}, fabric.deadline()));
  } catch (const hmc::Error& error) {
    good = good && error.code() == hmc::Code::peer_failed;
  }
  std::fflush(stderr);
  std::_Exit(good ? 0 : 1);
}
