// Runs a fuzz target with random inputs, for compilers without libFuzzer. The same seed gives the same inputs, so a
// failure can be repeated.
//
//   TARGET [seconds] [seed]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

using namespace hmc;

namespace {

using Random = std::mt19937_64;

std::uint32_t below(Random& random, std::size_t limit) { return static_cast<std::uint32_t>(random() % limit); }

/// Uniform noise rarely passes a header. Most of these have small numbers, zeros, and lengths that nearly fit.
base::Bytes make_input(Random& random) {
  base::Bytes input(below(random, 8) == 0 ? below(random, 4096) : below(random, 120));
  const bool noisy = below(random, 4) == 0;
  for (std::byte& byte : input) {
    const auto noise = static_cast<std::byte>(random());
    byte = noisy ? noise : below(random, 4) == 0 ? noise & std::byte{7} : std::byte{0};
  }
  return input;
}

/// A valid input with a few changes: bytes replaced, a part repeated or removed, the end cut off.
base::Bytes change(base::Bytes input, Random& random) {
  for (std::uint32_t changes = below(random, 5); changes > 0 && !input.empty(); --changes) {
    const auto at = static_cast<std::ptrdiff_t>(below(random, input.size()));
    const auto count = static_cast<std::ptrdiff_t>(below(random, input.size() - static_cast<std::size_t>(at)) + 1);
    switch (below(random, 5)) {
      case 0: input.resize(static_cast<std::size_t>(at)); break;
      case 1: input.erase(input.begin() + at, input.begin() + at + count); break;
      case 2: {
        const base::Bytes part(input.begin() + at, input.begin() + at + count);
        input.insert(input.begin() + at, part.begin(), part.end());
        break;
      }
      default: input[static_cast<std::size_t>(at)] = static_cast<std::byte>(random());
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
  std::vector<base::Bytes> seeds;
  fuzz::add_seeds([&](base::ByteView bytes) {
    fuzz::run(bytes);
    seeds.emplace_back(bytes.begin(), bytes.end());
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t runs = 0;
  // Each input has its own seed. The position is printed at intervals, so that the input of a crash is found quickly.
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    if (runs % 10000 == 0)
      std::fprintf(stderr, "seed %llu, input %llu\n", static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(runs));
    Random random(seed * 0x9e3779b97f4a7c15ULL + runs);
    const bool from_seed = !seeds.empty() && below(random, 4) != 0;
    fuzz::run(from_seed ? change(seeds[below(random, seeds.size())], random) : make_input(random));
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return 0;
}
