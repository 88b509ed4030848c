#include "bench/osu/kit/buffers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

namespace bench {

namespace {

std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

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

template <typename T> void store(std::int64_t value, std::byte* to) {
  const T typed = static_cast<T>(value);
  std::memcpy(to, &typed, sizeof typed);
}
template <typename T> void store_narrow(std::int64_t value, std::byte* to) {
  const T typed(static_cast<float>(value));
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
    case hmc::DType::f16: return store_narrow<hmc::float16>(value, to);
    case hmc::DType::bf16: return store_narrow<hmc::bfloat16>(value, to);
    case hmc::DType::f32: return store<float>(value, to);
    case hmc::DType::f64: return store<double>(value, to);
    case hmc::DType::e4m3: return store_narrow<hmc::float8_e4m3>(value, to);
    case hmc::DType::e5m2: return store_narrow<hmc::float8_e5m2>(value, to);
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

Pattern::Pattern(std::size_t element, const std::vector<std::byte>& one_period)
    : element_(element), twice_(one_period) {
  twice_.insert(twice_.end(), one_period.begin(), one_period.end());
}

Pattern Pattern::bytes(std::uint64_t seed) {
  std::vector<std::byte> one(period);
  for (std::size_t i = 0; i < period; ++i) one[i] = static_cast<std::byte>(hash(seed, i) & 0xff);
  return {1, one};
}

const std::byte* Pattern::start(int iteration) const {
  return &twice_[static_cast<std::size_t>(iteration) * 37 % period * element_];
}

void Pattern::write(void* to, std::size_t bytes, int iteration) const {
  const std::byte* const from = start(iteration);
  auto* const at = static_cast<std::byte*>(to);
  const std::size_t length = period * element_;
  for (std::size_t done = 0; done < bytes; done += length) std::memcpy(at + done, from, std::min(length, bytes - done));
}

bool Pattern::matches(const void* data, std::size_t bytes, int iteration) const {
  const std::byte* const expected = start(iteration);
  const auto* const at = static_cast<const std::byte*>(data);
  const std::size_t length = period * element_;
  bool same = true;  // reads all bytes, also after a difference, so that the time doesn't depend on the result
  for (std::size_t done = 0; done < bytes; done += length)
    same &= std::memcmp(at + done, expected, std::min(length, bytes - done)) == 0;
  return same;
}

Pattern contribution(hmc::Op op, hmc::DType type, int rank, int ranks) {
  return pattern_of(type, [=](std::int64_t index) { return given(op, type, rank, ranks, index); });
}

namespace {

std::int64_t combined(hmc::Op op, hmc::DType type, int count, int ranks, std::int64_t index) {
  std::int64_t result = given(op, type, 0, ranks, index);
  for (int rank = 1; rank < count; ++rank) result = combine(op, result, given(op, type, rank, ranks, index));
  return result;
}

}  // namespace

Pattern reduction(hmc::Op op, hmc::DType type, int ranks) {
  return pattern_of(type, [=](std::int64_t index) {
    const std::int64_t result = combined(op, type, ranks, ranks, index);
    return op == hmc::Op::avg ? result / ranks : result;
  });
}

Pattern prefix(hmc::Op op, hmc::DType type, int count, int ranks) {
  return pattern_of(type, [=](std::int64_t index) { return combined(op, type, count, ranks, index); });
}

namespace {

constexpr std::size_t page = 4096;
std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

void Buffers::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffers::Buffers(hmc::Team& team, Place place, std::size_t local, std::size_t remote) {
  const std::size_t reached = remote_offset + whole_pages(remote);
  const bool in_window = place == Place::window;
  window_ = hmc::Window::create(team, reached + (in_window ? whole_pages(local) : 0));
  if (in_window) {
    local_ = window_.data() + reached;
  } else {
    private_.reset(static_cast<std::byte*>(std::aligned_alloc(page, whole_pages(local) + page)));
    if (!private_) throw hmc::Error(hmc::Code::out_of_memory, "bench", "no memory for the private buffers");
    local_ = private_.get();
  }
  std::memset(local_, 0, local);
}

}  // namespace bench
