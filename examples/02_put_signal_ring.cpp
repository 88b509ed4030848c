// A message travels around a ring of ranks. Each hop is one put_signal: the bytes, then a signal word that the target
// waits for. There is no matching receive.
#include <cstdio>
#include <cstring>
#include <string>

#include <hmc/hmc.hpp>

namespace {
constexpr int rounds = 1000;
constexpr std::uint64_t message_offset = 0;
constexpr std::uint64_t signal_offset = 4096;  // in another cache line than the message
constexpr std::size_t message_bytes = 256;
}  // namespace

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  hmc::Window win = hmc::Window::create(rt.world(), 8192);
  const int right = (rt.rank() + 1) % rt.size();
  char* const inbox = win.local<char>(message_offset);

  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::string expected = "round " + std::to_string(round);
    char message[message_bytes] = {};
    std::strncpy(message, expected.c_str(), sizeof message - 1);

    // Rank 0 starts and ends each round. The other ranks forward the message.
    if (rt.rank() == 0) win.put_signal(right, message_offset, message, sizeof message, signal_offset, round);
    win.wait_until(signal_offset, hmc::Cmp::ge, round);
    if (expected != inbox) {
      std::fprintf(stderr, "rank %d: got '%s' instead of '%s'\n", rt.rank(), inbox, expected.c_str());
      rt.abort(1, "a message was wrong");
      return 1;
    }
    if (rt.rank() != 0) win.put_signal(right, message_offset, inbox, sizeof message, signal_offset, round);
  }

  if (rt.rank() == 0) std::printf("%d rounds over %d ranks; the last message: '%s'\n", rounds, rt.size(), inbox);
  win.close();
  rt.close();
  return 0;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
