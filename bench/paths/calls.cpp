// The warm calls whose functions bench/paths/run counts. Both ranks of a job of two run it: on one node, or on two.
// Built with -finstrument-functions: the compiler calls __cyg_profile_func_enter at the entry of each function.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include <hmc/request.hpp>
#include <hmc/runtime.hpp>
#include <hmc/team.hpp>
#include <hmc/window.hpp>

namespace {

/// The distinct functions that this thread enters between start() and stop(), in the order of first entry.
class Entered {
 public:
  void start() {
    slots_ = {};
    count_ = 0;
    recording_ = true;
  }
  void stop() { recording_ = false; }

  // Allocates nothing and calls no function of the repository. 8192 slots: a call enters some hundred functions.
  [[gnu::no_instrument_function]] void enter(void* function) {
    if (!recording_) return;
    std::size_t slot = (reinterpret_cast<std::uintptr_t>(function) >> 4) % slots_.size();
    while (slots_.data()[slot] != nullptr && slots_.data()[slot] != function) slot = (slot + 1) % slots_.size();
    if (slots_.data()[slot] == function || count_ == order_.size()) return;
    slots_.data()[slot] = order_.data()[count_++] = function;
  }

  /// One line: the file and the offset in it of each function, each behind a tab.
  void print() const {
    for (std::size_t i = 0; i < count_; ++i) {
      Dl_info info{};
      if (::dladdr(order_.data()[i], &info) == 0) continue;
      const auto offset = static_cast<char*>(order_.data()[i]) - static_cast<char*>(info.dli_fbase);
      std::printf("\t%s+0x%tx", info.dli_fname, offset);
    }
    std::printf("\n");
  }

 private:
  bool recording_ = false;
  std::size_t count_ = 0;
  std::array<void*, 8192> slots_{};
  std::array<void*, 4096> order_{};
};

constinit thread_local Entered entered;

constexpr int warm_up = 8;
constexpr int recorded = 21;  // an odd number: the reader of the output takes the functions of most calls
constexpr std::size_t large = std::size_t{1} << 20;

/// `call` runs in all ranks at the same time; rank 0 prints what it enters.
void measure(hmc::Team& team, const char* name, const std::function<void()>& call) {
  if (team.rank() == 0) std::printf("call %s\n", name);
  for (int i = 0; i < warm_up + recorded; ++i) {
    team.barrier();
    entered.start();
    call();
    entered.stop();
    if (team.rank() == 0 && i >= warm_up) entered.print();
  }
}

}  // namespace

extern "C" {
[[gnu::no_instrument_function]] void __cyg_profile_func_enter(void* function, void*) { entered.enter(function); }
[[gnu::no_instrument_function]] void __cyg_profile_func_exit(void*, void*) {}
}

int main(int argc, char** argv) {
  hmc::Runtime runtime = hmc::Runtime::init();
  hmc::Team& world = runtime.world();
  const bool first = world.rank() == 0;
  const int peer = 1 - world.rank();
  std::vector<float> in(large / sizeof(float), 1.0F);
  std::vector<float> out(in.size());
  const auto allreduce = [&](std::size_t count) {
    world.allreduce(in.data(), out.data(), count, hmc::DType::f32, hmc::Op::sum);
  };
  hmc::Window window = hmc::Window::create(world, large);
  const auto put = [&](std::size_t bytes) {
    if (first) window.put(peer, 0, in.data(), bytes);
  };
  if (argc > 1 && std::string_view(argv[1]) == "node") {
    measure(world, "put 8 B on a node", [&] { put(8); });
    measure(world, "allreduce 8 B on a node", [&] { allreduce(2); });
    measure(world, "allreduce 1 MiB on a node", [&] { allreduce(in.size()); });
    const std::span message(in.data(), 65536 / sizeof(float));
    measure(world, "send 64 KiB on a node", [&] {
      if (first)
        world.send(message, peer);
      else
        world.recv(std::span(out.data(), message.size()), peer);
    });
  } else {
    measure(world, "put 1 MiB over tcp", [&] { put(large); });
    measure(world, "iallreduce 1 MiB over tcp",
            [&] { world.iallreduce(in.data(), out.data(), in.size(), hmc::DType::f32, hmc::Op::sum).wait(); });
  }
  window.close();
  runtime.close();
}
