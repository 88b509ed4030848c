#include "bench/osu/data.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace bench {

namespace {

// All values, including the results of up to 120 ranks, are in 0..127: exact in i8 and bf16. 8-bit floats get 0..8,
// which they represent exactly; their results are rounded once, here as in the library.
std::int64_t given(hmc::Op op, hmc::DType type, std::int64_t rank, std::int64_t ranks, std::int64_t index) {
  const auto random =
      static_cast<std::int64_t>(hash(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)) >> 8);
  const std::int64_t turn = index % ranks;
  switch (op) {
    case hmc::Op::sum: return random % (std::clamp<std::int64_t>(120 / ranks, 1, 7) + 1);
    case hmc::Op::prod: return turn == rank ? 2 : (turn + 1) % ranks == rank ? 3 : 1;
    case hmc::Op::min:
    case hmc::Op::max: return random % (hmc::is_float(type) && hmc::size_of(type) == 1 ? 8 : 100);
    case hmc::Op::avg: {
      // Pairs of ranks differ from the average by +1 and -1, so that the average is a whole number.
      const std::int64_t average = 1 + index % std::clamp<std::int64_t>(100 / ranks, 1, 7);
      if (rank % 2 == 1) return average - 1;
      return rank + 1 < ranks ? average + 1 : average;
    }
    case hmc::Op::band: return 127 & ~(std::int64_t{1} << random % 7);
    case hmc::Op::bor: return std::int64_t{1} << random % 7;
    case hmc::Op::bxor: return random % 128;
    case hmc::Op::land: return index % (ranks + 1) != rank ? 1 : 0;
    case hmc::Op::lor: return index % (ranks + 1) == rank ? 1 : 0;
    default: return 0;  // maxloc, minloc: not for single numbers
  }
  return 0;
}

std::int64_t combine(hmc::Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case hmc::Op::sum:
    case hmc::Op::avg: return a + b;
    case hmc::Op::prod: return a * b;
    case hmc::Op::min: return std::min(a, b);
    case hmc::Op::max: return std::max(a, b);
    case hmc::Op::band:
    case hmc::Op::land: return a & b;
    case hmc::Op::bor:
    case hmc::Op::lor: return a | b;
    case hmc::Op::bxor: return a ^ b;
    default: return a;
  }
  return 0;
}

// By way of a float, which holds all of these values.
template <typename T> void store(std::int64_t value, std::byte* to) {
  const T typed = static_cast<T>(static_cast<float>(value));
  std::memcpy(to, &typed, sizeof typed);
}

void store(hmc::DType type, std::int64_t value, std::byte* to) {
  switch (type) {
    case hmc::DType::i8: return store<std::int8_t>(value, to);
    case hmc::DType::u8: return store<std::uint8_t>(value, to);
    case hmc::DType::i16: return store<std::int16_t>(value, to);
    case hmc::DType::u16: return store<std::uint16_t>(value, to);
    case hmc::DType::i32: return store<std::int32_t>(value, to);
    case hmc::DType::u32: return store<std::uint32_t>(value, to);
    case hmc::DType::i64: return store<std::int64_t>(value, to);
    case hmc::DType::u64: return store<std::uint64_t>(value, to);
    case hmc::DType::f16: return store<hmc::float16>(value, to);
    case hmc::DType::bf16: return store<hmc::bfloat16>(value, to);
    case hmc::DType::f32: return store<float>(value, to);
    case hmc::DType::f64: return store<double>(value, to);
    case hmc::DType::e4m3: return store<hmc::float8_e4m3>(value, to);
    case hmc::DType::e5m2: return store<hmc::float8_e5m2>(value, to);
    default: return;
  }
}

template <typename Value> Pattern pattern_of(hmc::DType type, Value&& value) {
  const std::size_t element = hmc::size_of(type);
  std::vector<std::byte> one(Pattern::period * element);
  for (std::size_t i = 0; i < Pattern::period; ++i) store(type, value(static_cast<std::int64_t>(i)), &one[i * element]);
  return {element, one};
}

}  // namespace

Pattern contribution(hmc::Op op, hmc::DType type, int rank, int ranks) {
  return pattern_of(type, [=](std::int64_t index) { return given(op, type, rank, ranks, index); });
}

Pattern reduction(hmc::Op op, hmc::DType type, int count, int ranks) {
  return pattern_of(type, [=](std::int64_t index) {
    std::int64_t result = given(op, type, 0, ranks, index);
    for (int rank = 1; rank < count; ++rank) result = combine(op, result, given(op, type, rank, ranks, index));
    return op == hmc::Op::avg ? result / ranks : result;
  });
}

Buffers::Buffers(hmc::Team& team, Place place, std::size_t local, std::size_t remote) {
  const std::size_t reached = remote_offset + whole_pages(remote);
  const bool in_window = place == Place::window;
  window_ = hmc::Window::create(team, reached + (in_window ? whole_pages(local) : 0));
  if (!in_window) private_ = Memory(local);
  local_ = in_window ? window_.data() + reached : private_.data();
  std::memset(local_, 0, local);
}

}  // namespace bench
