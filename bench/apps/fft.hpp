// Complex FFT in 2 or 3 dimensions by transposition: each rank transforms whole lines, then an alltoall turns the next
// dimension into whole lines. In 3-D the ranks form a grid, and the alltoalls run on its rows and columns (split
// teams).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "bench/apps/common/decomposition.hpp"
#include "bench/apps/common/job.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/kit/pattern.hpp"

namespace apps {

using Complex = std::complex<double>;

/// Transforms lines of a length that is a power of two.
class LineTransform {
 public:
  explicit LineTransform(std::size_t length) : length_(length), roots_(length / 2), reversed_(length) {
    if ((length & (length - 1)) != 0) throw std::invalid_argument("fft: the size isn't a power of two");
    for (std::size_t i = 0; i < roots_.size(); ++i)
      roots_[i] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length));
    for (std::size_t i = 1; i < length; ++i) reversed_[i] = reversed_[i / 2] / 2 + (i % 2 != 0 ? length / 2 : 0);
  }

  [[gnu::noinline]] void transform(Complex* lines, std::size_t count) const {
    for (std::size_t line = 0; line < count; ++line) one(lines + line * length_);
  }

 private:
  void one(Complex* line) const {
    for (std::size_t i = 0; i < length_; ++i)
      if (i < reversed_[i]) std::swap(line[i], line[reversed_[i]]);
    for (std::size_t half = 1; half < length_; half *= 2) {
      const std::size_t stride = length_ / (2 * half);
      for (std::size_t begin = 0; begin < length_; begin += 2 * half) {
        for (std::size_t i = 0; i < half; ++i) {
          const Complex root = roots_[i * stride], other = line[begin + half + i];
          const Complex turned(root.real() * other.real() - root.imag() * other.imag(),
                               root.real() * other.imag() + root.imag() * other.real());
          line[begin + half + i] = line[begin + i] - turned;
          line[begin + i] += turned;
        }
      }
    }
  }

  std::size_t length_;
  std::vector<Complex> roots_;
  std::vector<std::size_t> reversed_;
};

/// in[outer][middle][parts * inner] -> out[part][outer][inner][middle]
[[gnu::noinline]] inline void pack_blocks(const Complex* in, Complex* out, std::size_t outer, std::size_t middle,
                                          std::size_t parts, std::size_t inner) {
  const std::size_t length = parts * inner;
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t i = 0; i < outer; ++i)
      for (std::size_t k = 0; k < inner; ++k)
        for (std::size_t j = 0; j < middle; ++j) *out++ = in[(i * middle + j) * length + part * inner + k];
}
/// in[part][lines][middle] -> out[lines][part * middle]
[[gnu::noinline]] inline void unpack_blocks(const Complex* in, Complex* out, std::size_t lines, std::size_t middle,
                                            std::size_t parts) {
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t line = 0; line < lines; ++line, in += middle)
      std::copy(in, in + middle, out + (line * parts + part) * middle);
}

template <typename Library> class Fft {
 public:
  Fft(Library& library, const Job& job, int dimensions)
      : library_(library), dimensions_(dimensions), length_(static_cast<std::size_t>(job.size)), transform_(length_) {
    const std::array<int, 3> grid = rank_grid(library.size(), dimensions == 2 ? 1 : 2);
    ranks_ = {static_cast<std::size_t>(grid[0]), static_cast<std::size_t>(grid[1])};
    const auto rank = static_cast<std::size_t>(library.rank());
    me_ = {rank / ranks_[1], rank % ranks_[1]};
    for (std::size_t i = 0; i < 2; ++i) local_[i] = static_cast<std::size_t>(divided(job.size, grid[i], "fft"));
    if (dimensions == 2) local_[1] = 1;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t other = 0; other < ranks_[i]; ++other)
        masks_[i] |= bit(static_cast<int>(i == 0 ? other * ranks_[1] + me_[1] : me_[0] * ranks_[1] + other));
    }
    teams_.push_back(library.split(static_cast<int>(me_[1])));
    if (dimensions == 3) teams_.push_back(library.split(static_cast<int>(me_[0])));
    const std::size_t values = local_[1] * local_[0] * length_;
    input_.resize(values);
    for (std::size_t i = 0; i < local_[1]; ++i)
      for (std::size_t j = 0; j < local_[0]; ++j)
        for (std::size_t k = 0; k < length_; ++k)
          input_[(i * local_[0] + j) * length_ + k] =
              value((me_[1] * local_[1] + i) * length_ + me_[0] * local_[0] + j, k);
    library.reserve(3 * values * sizeof(Complex) + (64 << 10));
    for (Complex** const array : {&lines_, &packed_, &received_}) *array = library.template allocate<Complex>(values);
    library.barrier();
  }

  void reset() {}

  // lines_: [z part 1][y part 0][x], then [z part 1][x part 0][y], then [x part 0][y part 1][z].
  void step(Stamps* stamps) {
    std::copy(input_.begin(), input_.end(), lines_);
    transform_.transform(lines_, local_[1] * local_[0]);
    pack_blocks(lines_, packed_, local_[1], local_[0], ranks_[0], local_[0]);
    exchange(stamps, 0);
    unpack_blocks(received_, lines_, local_[1] * local_[0], local_[0], ranks_[0]);
    transform_.transform(lines_, local_[1] * local_[0]);
    if (dimensions_ == 2) return;
    pack_planes();
    exchange(stamps, 1);
    unpack_blocks(received_, lines_, local_[0] * local_[1], local_[1], ranks_[1]);
    transform_.transform(lines_, local_[0] * local_[1]);
  }

  /// Compares this rank's lines with a serial transform, and one value of that with the definition.
  bool is_right(int) const {
    const std::size_t n = length_, planes = dimensions_ == 2 ? 1 : n;
    std::vector<Complex> whole(planes * n * n), turned(whole.size());
    for (std::size_t line = 0; line < planes * n; ++line)
      for (std::size_t k = 0; k < n; ++k) whole[line * n + k] = value(line, k);
    const Complex defined = by_definition(whole, planes);
    transform_.transform(whole.data(), planes * n);
    for (std::size_t i = 0; i < planes; ++i)  // [z][y][x] -> [z][x][y]
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < n; ++k) turned[(i * n + k) * n + j] = whole[(i * n + j) * n + k];
    transform_.transform(turned.data(), planes * n);
    if (dimensions_ == 2) {
      whole = turned;
    } else {
      for (std::size_t i = 0; i < n; ++i)  // [z][x][y] -> [x][y][z]
        for (std::size_t j = 0; j < n * n; ++j) whole[j * n + i] = turned[i * n * n + j];
      transform_.transform(whole.data(), n * n);
    }
    const std::size_t at = dimensions_ == 2 ? 3 * n + 1 : (3 * n + 1) * n + 2;  // x = 3, y = 1, z = 2
    if (std::abs(whole[at] - defined) > 1e-9 * static_cast<double>(whole.size())) return false;
    for (std::size_t x = 0; x < local_[0]; ++x) {
      for (std::size_t y = 0; y < (dimensions_ == 2 ? 1 : local_[1]); ++y) {
        const std::size_t mine = (x * local_[1] + y) * n;
        const std::size_t line =
            dimensions_ == 2 ? me_[0] * local_[0] + x : (me_[0] * local_[0] + x) * n + me_[1] * local_[1] + y;
        for (std::size_t k = 0; k < n; ++k)
          if (lines_[mine + k] != whole[line * n + k]) return false;
      }
    }
    return true;
  }

 private:
  Complex value(std::size_t line, std::size_t k) const {
    const std::uint64_t position = 2 * (line * length_ + k);
    return {bench::fraction(position) - 0.5, bench::fraction(position + 1) - 0.5};
  }

  // The value at the frequency x = 3, y = 1, z = 2.
  Complex by_definition(const std::vector<Complex>& whole, std::size_t planes) const {
    Complex sum = 0;
    for (std::size_t i = 0; i < planes; ++i)
      for (std::size_t j = 0; j < length_; ++j)
        for (std::size_t k = 0; k < length_; ++k)
          sum += whole[(i * length_ + j) * length_ + k] *
                 std::polar(1.0, -2 * std::numbers::pi * static_cast<double>((2 * i + j + 3 * k) % length_) /
                                     static_cast<double>(length_));
    return sum;
  }

  // [z part 1][x part 0][y] -> [part of y][x part 0][y part 1][z part 1]
  void pack_planes() {
    Complex* out = packed_;
    for (std::size_t part = 0; part < ranks_[1]; ++part)
      for (std::size_t x = 0; x < local_[0]; ++x)
        for (std::size_t y = 0; y < local_[1]; ++y)
          for (std::size_t z = 0; z < local_[1]; ++z)
            *out++ = lines_[(z * local_[0] + x) * length_ + part * local_[1] + y];
  }

  void exchange(Stamps* stamps, std::size_t team) {
    if (stamps == nullptr) return;
    const std::size_t bytes = local_[0] * local_[1] * length_ / ranks_[team] * sizeof(Complex);
    stamps->call(masks_[team], [&] { library_.alltoall(packed_, received_, bytes, &teams_[team]); });
  }

  Library& library_;
  int dimensions_;
  std::size_t length_;
  LineTransform transform_;
  std::array<std::size_t, 2> ranks_{}, me_{}, local_{};  // local_: the lengths of a divided dimension
  std::array<std::uint64_t, 2> masks_{};
  std::vector<typename Library::Team> teams_;
  std::vector<Complex> input_;
  Complex* lines_ = nullptr;
  Complex* packed_ = nullptr;
  Complex* received_ = nullptr;
};

}  // namespace apps
