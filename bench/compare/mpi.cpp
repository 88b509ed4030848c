// Open MPI, MPICH and Intel MPI: this source is compiled once with each, and started by its own mpirun.
#include "bench/kit/mpi.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/compare/loop.hpp"

namespace {

using bench::check;

// Buffers of collectives come from malloc, as in most programs; MPI-3 has no registered collectives. The target of put
// and get is memory that MPI allocated, which is the fastest.
class Mpi {
 public:
  Mpi(int* argc, char*** argv, const bench::Setup& setup) {
    check(MPI_Init(argc, argv), "MPI_Init");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    if (setup.hello) return;
    source_ = bench::Memory(setup.source_bytes(size_));
    result_ = bench::Memory(setup.result_bytes(size_));
    const std::size_t target = bench::whole_pages(setup.target_bytes());
    const auto length = static_cast<MPI_Aint>(target);
    if (setup.own_target) {
      own_target_ = bench::Memory(target);
      target_ = own_target_.data();
      check(MPI_Win_create(target_, length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_), "MPI_Win_create");
    } else {
      check(MPI_Win_allocate(length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &target_, &window_), "MPI_Win_allocate");
    }
    check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const { return bench::mpi_version(); }
  std::string settings() const {
    return std::string("private buffers; put and get: ") +
           (own_target_.data() != nullptr ? "MPI_Win_create" : "MPI_Win_allocate") + ", lock_all, flush";
  }
  static std::string lacks(bench::Operation) { return ""; }

  std::byte* source() { return source_.data(); }
  std::byte* result() { return result_.data(); }
  std::byte* target() { return target_; }

  void put(int peer, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Put(source(), count, MPI_BYTE, peer, 0, count, MPI_BYTE, window_), "MPI_Put");
    check(MPI_Win_flush(peer, window_), "MPI_Win_flush");
  }
  void get(int peer, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Get(result(), count, MPI_BYTE, peer, 0, count, MPI_BYTE, window_), "MPI_Get");
    check(MPI_Win_flush(peer, window_), "MPI_Win_flush");
  }
  void barrier() { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  void broadcast(std::size_t bytes) {
    check(MPI_Bcast(source(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }
  void allgather(std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Allgather(source(), count, MPI_BYTE, result(), count, MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather");
  }
  void allreduce(std::size_t bytes) {
    check(MPI_Allreduce(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  void gather(std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Gather(source(), count, MPI_BYTE, result(), count, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Gather");
  }
  void scatter(std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Scatter(source(), count, MPI_BYTE, result(), count, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Scatter");
  }
  void alltoall(std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Alltoall(source(), count, MPI_BYTE, result(), count, MPI_BYTE, MPI_COMM_WORLD), "MPI_Alltoall");
  }
  void reduce(std::size_t bytes) {
    check(MPI_Reduce(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce");
  }
  void reduce_scatter(std::size_t bytes) {
    check(MPI_Reduce_scatter_block(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
          "MPI_Reduce_scatter_block");
  }
  void scan(std::size_t bytes) {
    check(MPI_Scan(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Scan");
  }
  void exscan(std::size_t bytes) {
    check(MPI_Exscan(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan");
  }
  void allgatherv(std::size_t bytes) {
    lay_out(bytes);
    check(MPI_Allgatherv(source(), counts_[0], MPI_BYTE, result(), counts_.data(), begins_.data(), MPI_BYTE,
                         MPI_COMM_WORLD),
          "MPI_Allgatherv");
  }
  void alltoallv(std::size_t bytes) {
    lay_out(bytes);
    check(MPI_Alltoallv(source(), counts_.data(), begins_.data(), MPI_BYTE, result(), counts_.data(), begins_.data(),
                        MPI_BYTE, MPI_COMM_WORLD),
          "MPI_Alltoallv");
  }
  void begin(bench::Operation operation, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    switch (operation) {
      case bench::Operation::broadcast:
        return check(MPI_Ibcast(source(), count, MPI_BYTE, 0, MPI_COMM_WORLD, &request_), "MPI_Ibcast");
      case bench::Operation::allgather:
        return check(MPI_Iallgather(source(), count, MPI_BYTE, result(), count, MPI_BYTE, MPI_COMM_WORLD, &request_),
                     "MPI_Iallgather");
      case bench::Operation::alltoall:
        return check(MPI_Ialltoall(source(), count, MPI_BYTE, result(), count, MPI_BYTE, MPI_COMM_WORLD, &request_),
                     "MPI_Ialltoall");
      default:
        return check(MPI_Iallreduce(source(), result(), floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request_),
                     "MPI_Iallreduce");
    }
  }
  void wait() { check(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait"); }
  void expose() { check(MPI_Win_sync(window_), "MPI_Win_sync"); }
  void close() {
    if (window_ != MPI_WIN_NULL) {
      check(MPI_Win_unlock_all(window_), "MPI_Win_unlock_all");
      check(MPI_Win_free(&window_), "MPI_Win_free");
    }
    check(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  static int floats(std::size_t bytes) { return static_cast<int>(bytes / sizeof(float)); }

  /// Equal counts, and the displacements of the blocks.
  void lay_out(std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    if (!counts_.empty() && counts_[0] == count) return;
    counts_.assign(static_cast<std::size_t>(size_), count);
    begins_.clear();
    for (int rank = 0; rank < size_; ++rank) begins_.push_back(rank * count);
  }

  int rank_ = 0;
  int size_ = 1;
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::byte* target_ = nullptr;
  bench::Memory source_, result_, own_target_;
  std::vector<int> counts_, begins_;
};

}  // namespace

int main(int argc, char** argv) try {
  const bench::Setup setup = bench::setup_of(argc, argv);
  bench::bind_launched(setup);
  Mpi contestant(&argc, &argv, setup);
  return bench::run_rank(contestant, setup);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
