// Heat equation on a 2-D or 3-D grid of doubles. The ranks divide the grid; each step exchanges the faces between
// neighbours, then computes a new grid from the old one. Two grids alternate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "bench/apps/common/decomposition.hpp"
#include "bench/apps/common/job.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/kit/pattern.hpp"

namespace apps {

/// The part of a grid: `planes` x `rows` x `columns` cells and one layer of halo cells on each side. In 2-D there is
/// one plane, without a halo before and after it.
struct Shape {
  int dimensions, planes, rows, columns;

  std::size_t pitch() const { return static_cast<std::size_t>(columns) + 2; }
  std::size_t plane() const { return (static_cast<std::size_t>(rows) + 2) * pitch(); }
  std::size_t cells() const { return (static_cast<std::size_t>(planes) + (dimensions == 3 ? 2 : 0)) * plane(); }
  /// -1 and the number of planes, rows or columns are the halo.
  std::size_t at(int plane_index, int row, int column) const {
    return static_cast<std::size_t>(plane_index + (dimensions == 3 ? 1 : 0)) * plane() +
           static_cast<std::size_t>(row + 1) * pitch() + static_cast<std::size_t>(column + 1);
  }
};

[[gnu::noinline]] inline void heat_step(const Shape& shape, const double* from, double* to) {
  const auto pitch = static_cast<std::ptrdiff_t>(shape.pitch()), plane = static_cast<std::ptrdiff_t>(shape.plane());
  for (int i = 0; i < shape.planes; ++i) {
    for (int j = 0; j < shape.rows; ++j) {
      const double* const in = from + shape.at(i, j, 0);
      double* const out = to + shape.at(i, j, 0);
      if (shape.dimensions == 2) {
        for (std::ptrdiff_t k = 0; k < shape.columns; ++k)
          out[k] = 0.5 * in[k] + 0.125 * (in[k - 1] + in[k + 1] + in[k - pitch] + in[k + pitch]);
      } else {
        for (std::ptrdiff_t k = 0; k < shape.columns; ++k)
          out[k] = 0.25 * in[k] +
                   0.125 * (in[k - 1] + in[k + 1] + in[k - pitch] + in[k + pitch] + in[k - plane] + in[k + plane]);
      }
    }
  }
}

/// A face of this rank's part. Face 2d is the first one of dimension d, face 2d + 1 the last one; the neighbour at face
/// f has this rank at its face f ^ 1. If the cells aren't contiguous, they are packed for the exchange.
struct Face {
  int peer = -1;  ///< -1: the edge of the whole grid
  std::size_t count = 0;
  bool packed = false;
  std::array<double*, 2> send{};     ///< by grid: in the grid, or the packed cells
  std::array<double*, 2> receive{};  ///< by grid: the halo in the grid, or packed cells; the same offset on every rank
};

template <typename Library> class Stencil {
 public:
  Stencil(Library& library, const Job& job, int dimensions) : library_(library), edge_(job.size) {
    ranks_ = rank_grid(library.size(), dimensions);
    if (dimensions == 2) ranks_ = {1, ranks_[0], ranks_[1]};
    me_ = {library.rank() / (ranks_[1] * ranks_[2]), library.rank() / ranks_[2] % ranks_[1],
           library.rank() % ranks_[2]};
    shape_ = {dimensions, dimensions == 2 ? 1 : divided(edge_, ranks_[0], "stencil"),
              divided(edge_, ranks_[1], "stencil"), divided(edge_, ranks_[2], "stencil")};
    const std::size_t rows = static_cast<std::size_t>(shape_.planes) * static_cast<std::size_t>(shape_.columns);
    const std::size_t columns = static_cast<std::size_t>(shape_.planes) * static_cast<std::size_t>(shape_.rows);
    library.reserve(2 * shape_.cells() * sizeof(double) + 6 * (rows + columns) * sizeof(double) + (64 << 10));
    for (double*& grid : grids_) grid = library.template allocate<double>(shape_.cells());
    for (int face = dimensions == 2 ? 2 : 0; face < 6; ++face) describe(face);
    halo_.emplace(library, faces_, job.mode);
    reset();
  }

  void reset() {
    for (double* const grid : grids_) std::memset(grid, 0, shape_.cells() * sizeof(double));
    fill(shape_, grids_[0], me_[0] * shape_.planes, me_[1] * shape_.rows, me_[2] * shape_.columns);
    now_ = 0;
    library_.barrier();
  }

  void step(Stamps* stamps) {
    if (stamps != nullptr) {
      stamps->call(neighbours_, [&] {
        halo_->exchange(
            now_, [&](int face) { pack(face); }, [&](int face) { unpack(face); });
      });
    }
    heat_step(shape_, grids_[now_], grids_[1 - now_]);
    now_ = 1 - now_;
  }

  /// Compares this rank's part with a serial computation of the whole grid.
  bool is_right(int steps) const {
    const Shape whole{shape_.dimensions, shape_.dimensions == 2 ? 1 : edge_, edge_, edge_};
    std::vector<double> now(whole.cells()), next(whole.cells());
    fill(whole, now.data(), 0, 0, 0);
    for (int i = 0; i < steps; ++i) {
      heat_step(whole, now.data(), next.data());
      now.swap(next);
    }
    for (int i = 0; i < shape_.planes; ++i) {
      for (int j = 0; j < shape_.rows; ++j) {
        const double* const mine = grids_[now_] + shape_.at(i, j, 0);
        const double* const right =
            now.data() + whole.at(me_[0] * shape_.planes + i, me_[1] * shape_.rows + j, me_[2] * shape_.columns);
        if (std::memcmp(mine, right, static_cast<std::size_t>(shape_.columns) * sizeof(double)) != 0) return false;
      }
    }
    return true;
  }

 private:
  void fill(const Shape& shape, double* grid, int first_plane, int first_row, int first_column) const {
    const auto edge = static_cast<std::uint64_t>(edge_);
    for (int i = 0; i < shape.planes; ++i)
      for (int j = 0; j < shape.rows; ++j)
        for (int k = 0; k < shape.columns; ++k)
          grid[shape.at(i, j, k)] = bench::fraction(
              (static_cast<std::uint64_t>(first_plane + i) * edge + static_cast<std::uint64_t>(first_row + j)) * edge +
              static_cast<std::uint64_t>(first_column + k));
  }

  void describe(int index) {
    Face& face = faces_[static_cast<std::size_t>(index)];
    const int dimension = index / 2, side = index % 2;
    std::array<int, 3> there = me_;
    there[static_cast<std::size_t>(dimension)] += side == 0 ? -1 : 1;
    const int coordinate = there[static_cast<std::size_t>(dimension)];
    if (coordinate >= 0 && coordinate < ranks_[static_cast<std::size_t>(dimension)]) {
      face.peer = (there[0] * ranks_[1] + there[1]) * ranks_[2] + there[2];
      neighbours_ |= bit(face.peer);
    }
    const std::array<int, 3> cells{shape_.planes, shape_.rows, shape_.columns};
    const int last = cells[static_cast<std::size_t>(dimension)] - 1;
    const int edge = side == 0 ? 0 : last, beyond = side == 0 ? -1 : last + 1;
    if (dimension == 2) {
      face.packed = true;
      face.count = static_cast<std::size_t>(shape_.planes) * static_cast<std::size_t>(shape_.rows);
    } else if (dimension == 1) {
      face.packed = shape_.planes > 1;
      face.count = static_cast<std::size_t>(shape_.planes) * static_cast<std::size_t>(shape_.columns);
    } else {
      // A whole plane with the halo cells between its rows, which no neighbour uses.
      face.count =
          static_cast<std::size_t>(shape_.rows - 1) * shape_.pitch() + static_cast<std::size_t>(shape_.columns);
    }
    if (face.packed) {
      face.send[0] = face.send[1] = library_.template allocate<double>(face.count);
      for (double*& receive : face.receive) receive = library_.template allocate<double>(face.count);
      return;
    }
    for (std::size_t grid = 0; grid < 2; ++grid) {
      face.send[grid] = grids_[grid] + (dimension == 0 ? shape_.at(edge, 0, 0) : shape_.at(0, edge, 0));
      face.receive[grid] = grids_[grid] + (dimension == 0 ? shape_.at(beyond, 0, 0) : shape_.at(0, beyond, 0));
    }
  }

  void pack(int index) {
    const Face& face = faces_[static_cast<std::size_t>(index)];
    double* out = face.send[now_];
    const double* const grid = grids_[now_];
    if (index / 2 == 1) {
      const int row = index % 2 == 0 ? 0 : shape_.rows - 1;
      for (int i = 0; i < shape_.planes; ++i, out += shape_.columns)
        std::memcpy(out, grid + shape_.at(i, row, 0), static_cast<std::size_t>(shape_.columns) * sizeof(double));
    } else {
      const int column = index % 2 == 0 ? 0 : shape_.columns - 1;
      for (int i = 0; i < shape_.planes; ++i)
        for (int j = 0; j < shape_.rows; ++j) *out++ = grid[shape_.at(i, j, column)];
    }
  }

  void unpack(int index) {
    const Face& face = faces_[static_cast<std::size_t>(index)];
    const double* in = face.receive[now_];
    double* const grid = grids_[now_];
    if (index / 2 == 1) {
      const int row = index % 2 == 0 ? -1 : shape_.rows;
      for (int i = 0; i < shape_.planes; ++i, in += shape_.columns)
        std::memcpy(grid + shape_.at(i, row, 0), in, static_cast<std::size_t>(shape_.columns) * sizeof(double));
    } else {
      const int column = index % 2 == 0 ? -1 : shape_.columns;
      for (int i = 0; i < shape_.planes; ++i)
        for (int j = 0; j < shape_.rows; ++j) grid[shape_.at(i, j, column)] = *in++;
    }
  }

  Library& library_;
  int edge_;
  std::array<int, 3> ranks_{}, me_{};
  Shape shape_{};
  std::array<double*, 2> grids_{};
  std::array<Face, 6> faces_{};
  std::uint64_t neighbours_ = 0;
  std::size_t now_ = 0;
  std::optional<typename Library::Halo> halo_;
};

}  // namespace apps
