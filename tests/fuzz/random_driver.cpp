// Calls a fuzz target with seeded random inputs, for compilers without libFuzzer. The same seed gives the same inputs,
// so a failure can be repeated.
//
//   decoder_fuzz [seconds] [seed]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

std::uint32_t below(Random& random, std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); }

/// Uniform noise rarely passes a header. Most inputs have small numbers, zeros, and lengths that nearly fit.
Input make_input(Random& random) {
  Input input(below(random, 8) == 0 ? below(random, 4096) : below(random, 120));
  const std::uint32_t style = below(random, 4);
  for (std::uint8_t& byte : input) {
    const auto noise = static_cast<std::uint8_t>(random());
    byte = style == 0 ? noise : below(random, 4) == 0 ? static_cast<std::uint8_t>(noise & 7) : std::uint8_t{0};
  }
  constexpr std::uint8_t header[] = {'H', 'M', 'C', '1', 1, 0};
  if (style == 3 && input.size() >= 16) {
    for (std::size_t i = 0; i < sizeof header; ++i) input[i] = header[i];
    input[6] = static_cast<std::uint8_t>(1 + below(random, 22));
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t runs = 0;
  // Each input has its own seed. The position is printed at intervals, so that the input of a crash is found quickly.
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    if (runs % 10000 == 0)
      std::fprintf(stderr, "seed %llu, input %llu\n", static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(runs));
    Random random(seed * 0x9e3779b97f4a7c15ULL + runs);
    const Input input = make_input(random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return 0;
}
