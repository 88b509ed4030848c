// A halo exchange: heat conduction on a plate, with one block of columns per rank. Each rank puts its edge columns into
// the halos of its neighbours. A column of a row-major grid is one strided put.
#include <cmath>
#include <cstdio>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

constexpr std::size_t rows = 32;
constexpr std::size_t columns = 24;         // of one rank
constexpr std::size_t pitch = columns + 2;  // with a halo column at each side
constexpr int steps = 200;

// One relaxation step of the columns first to last; a row has `width` inner columns. The boundary doesn't change.
void relax(const double* from, double* to, std::size_t width, std::size_t first, std::size_t last) {
  const std::size_t stride = width + 2;
  for (std::size_t y = 1; y + 1 < rows; ++y) {
    for (std::size_t x = first; x <= last; ++x) {
      const std::size_t at = y * stride + x;
      to[at] = 0.25 * (from[at - 1] + from[at + 1] + from[at - stride] + from[at + stride]);
    }
  }
}

double start_value(std::size_t y, std::size_t x) { return y == 0 ? 100.0 + static_cast<double>(x % 7) : 0.0; }

// Computes the whole plate on one rank, as the reference.
std::vector<double> solve_alone(std::size_t width) {
  std::vector<double> now(rows * (width + 2));
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < width + 2; ++x) now[y * (width + 2) + x] = start_value(y, x);
  }
  std::vector<double> next = now;
  for (int step = 0; step < steps; ++step) {
    relax(now.data(), next.data(), width, 1, width);
    now.swap(next);
  }
  return now;
}

struct Plate {
  hmc::Runtime& rt;
  hmc::Window& win;
  std::uint64_t grids[2];  // the offsets of two grids; a step reads one and writes the other

  double* grid(int which) const { return win.local<double>(grids[which]); }
  static std::uint64_t cell(std::uint64_t grid, std::size_t x) { return grid + (pitch + x) * sizeof(double); }

  // Puts this rank's first and last columns into the neighbours' halos (rows 1 to rows - 2; the boundary is constant).
  void send_edges(int which) const {
    const hmc::Strides column{rows - 2, sizeof(double), pitch * sizeof(double), pitch * sizeof(double)};
    const double* mine = grid(which) + pitch;
    const int left = rt.rank() - 1, right = rt.rank() + 1;
    if (left >= 0) win.put_strided(left, cell(grids[which], columns + 1), mine + 1, column);
    if (right < rt.size()) win.put_strided(right, cell(grids[which], 0), mine + columns, column);
    rt.world().barrier();  // completes the puts of all ranks: every halo is up to date
  }
};

}  // namespace

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  hmc::Window win = hmc::Window::create(rt.world(), 1 << 20);
  constexpr std::size_t bytes = rows * pitch * sizeof(double);
  const Plate plate{rt, win, {win.alloc(bytes), win.alloc(bytes)}};  // the same offsets on every rank

  const std::size_t begin = static_cast<std::size_t>(rt.rank()) * columns;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < pitch; ++x) {
      plate.grid(0)[y * pitch + x] = plate.grid(1)[y * pitch + x] = start_value(y, begin + x);
    }
  }
  rt.world().barrier();  // all grids are initialised before the first put
  for (int step = 0; step < steps; ++step) {
    relax(plate.grid(step % 2), plate.grid((step + 1) % 2), columns, 1, columns);
    plate.send_edges((step + 1) % 2);
  }

  const std::size_t width = columns * static_cast<std::size_t>(rt.size());
  const std::vector<double> expected = solve_alone(width);
  double worst = 0;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 1; x <= columns; ++x) {
      const double here = plate.grid(steps % 2)[y * pitch + x];
      worst = std::fmax(worst, std::fabs(here - expected[y * (width + 2) + begin + x]));
    }
  }
  rt.world().allreduce(&worst, &worst, 1, hmc::DType::f64, hmc::max);
  if (rt.rank() == 0) {
    std::printf("%d steps on %zu x %zu cells over %d ranks; largest difference from the serial result: %g\n", steps,
                rows, width, rt.size(), worst);
  }
  for (const std::uint64_t grid : plate.grids) win.free(grid);
  win.close();
  rt.close();
  return worst == 0 ? 0 : 1;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
