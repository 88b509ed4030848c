// The programs with Open MPI, MPICH or Intel MPI: this source is compiled once with each, and started by its mpirun.
#include "bench/kit/mpi.hpp"
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define APPS_ALLREDUCE_INIT MPI_Allreduce_init
#elif defined(OPEN_MPI)
#include <mpi-ext.h>
#define APPS_ALLREDUCE_INIT MPIX_Allreduce_init
#endif

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "bench/apps/run.hpp"
#include "bench/kit/pattern.hpp"

namespace {

using bench::check;

class Mpi {
 public:
  Mpi(int* argc, char*** argv, const apps::Arguments& arguments) : own_target_(arguments.setup.own_target) {
    check(MPI_Init(argc, argv), "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const { return bench::mpi_version(); }
  std::string settings() const {
    return std::string("private buffers; table: ") + (own_target_ ? "MPI_Win_create" : "MPI_Win_allocate") +
           ", lock_all";
  }
  static std::string lacks(const apps::Job& job) {
#ifndef APPS_ALLREDUCE_INIT
    if (job.program == "training" && job.mode == "persistent") return "no persistent allreduce in this version";
#endif
    return job.mode == "signal" ? "MPI has no put with a signal" : "";
  }

  void reserve(std::size_t) {}
  template <typename T> T* allocate(std::size_t count) {
    memory_.emplace_back(count * sizeof(T));
    return reinterpret_cast<T*>(memory_.back().data());
  }
  void release() { memory_.clear(); }

  void barrier() { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  void broadcast(void* data, std::size_t bytes) {
    check(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }
  void gather(const void* in, void* out, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Gather(in, count, MPI_BYTE, out, count, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Gather");
  }
  void allgather(const void* in, void* out, std::size_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather");
  }
  void allreduce(float* data, std::size_t count) {
    check(MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
          "MPI_Allreduce");
  }
  void alltoallv(const void* in, const std::vector<std::size_t>& counts, const std::vector<std::size_t>& begins,
                 void* out, const std::vector<std::size_t>& receive_counts,
                 const std::vector<std::size_t>& receive_begins, std::size_t element) {
    const std::vector<const std::vector<std::size_t>*> given{&counts, &begins, &receive_counts, &receive_begins};
    for (std::size_t i = 0; i < given.size(); ++i) {
      ints_[i].clear();
      for (const std::size_t number : *given[i]) ints_[i].push_back(static_cast<int>(number * element));
    }
    check(MPI_Alltoallv(in, ints_[0].data(), ints_[1].data(), MPI_BYTE, out, ints_[2].data(), ints_[3].data(), MPI_BYTE,
                        MPI_COMM_WORLD),
          "MPI_Alltoallv");
  }

  using Team = MPI_Comm;
  Team split(int colour) {
    MPI_Comm team = MPI_COMM_NULL;
    check(MPI_Comm_split(MPI_COMM_WORLD, colour, rank_, &team), "MPI_Comm_split");
    return team;
  }
  void alltoall(const void* in, void* out, std::size_t bytes, const Team* team = nullptr) {
    const int count = static_cast<int>(bytes);
    check(MPI_Alltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, team == nullptr ? MPI_COMM_WORLD : *team),
          "MPI_Alltoall");
  }

  /// Modes: isend (MPI_Irecv and MPI_Isend), persistent (MPI_Recv_init and MPI_Send_init).
  class Halo {
   public:
    Halo(Mpi&, const std::array<apps::Face, 6>& faces, const std::string& mode)
        : faces_(faces), persistent_(mode == "persistent") {
      for (std::size_t grid = 0; persistent_ && grid < 2; ++grid) {
        for (std::size_t i = 0; i < faces.size(); ++i) {
          const apps::Face& face = faces[i];
          if (face.peer < 0) continue;
          const int count = static_cast<int>(face.count), tag = static_cast<int>(i);
          MPI_Recv_init(face.receive[grid], count, MPI_DOUBLE, face.peer, tag, MPI_COMM_WORLD,
                        &requests_[grid].emplace_back());
          MPI_Send_init(face.send[grid], count, MPI_DOUBLE, face.peer, tag ^ 1, MPI_COMM_WORLD,
                        &requests_[grid].emplace_back());
        }
      }
    }
    Halo(const Halo&) = delete;
    Halo& operator=(const Halo&) = delete;
    ~Halo() {
      if (!persistent_) return;
      for (auto& of_grid : requests_)
        for (MPI_Request& request : of_grid) MPI_Request_free(&request);
    }

    template <typename Pack, typename Unpack> void exchange(std::size_t grid, Pack pack, Unpack unpack) {
      std::vector<MPI_Request>& requests = requests_[grid];
      if (!persistent_) {
        requests.clear();
        for (std::size_t i = 0; i < faces_.size(); ++i) {
          const apps::Face& face = faces_[i];
          if (face.peer >= 0)
            MPI_Irecv(face.receive[grid], static_cast<int>(face.count), MPI_DOUBLE, face.peer, static_cast<int>(i),
                      MPI_COMM_WORLD, &requests.emplace_back());
        }
      }
      for (std::size_t i = 0; i < faces_.size(); ++i) {
        const apps::Face& face = faces_[i];
        if (face.peer < 0) continue;
        if (face.packed) pack(static_cast<int>(i));
        if (!persistent_)
          MPI_Isend(face.send[grid], static_cast<int>(face.count), MPI_DOUBLE, face.peer, static_cast<int>(i) ^ 1,
                    MPI_COMM_WORLD, &requests.emplace_back());
      }
      if (requests.empty()) return;
      const int count = static_cast<int>(requests.size());
      if (persistent_) check(MPI_Startall(count, requests.data()), "MPI_Startall");
      check(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
      for (std::size_t i = 0; i < faces_.size(); ++i)
        if (faces_[i].peer >= 0 && faces_[i].packed) unpack(static_cast<int>(i));
    }

   private:
    const std::array<apps::Face, 6>& faces_;
    bool persistent_;
    std::array<std::vector<MPI_Request>, 2> requests_;
  };

  /// One non-blocking or persistent allreduce per layer.
  class Buckets {
   public:
    Buckets(Mpi&, std::vector<std::span<float>> layers, const std::string& mode)
        : layers_(std::move(layers)), requests_(layers_.size(), MPI_REQUEST_NULL), persistent_(mode == "persistent") {
#ifdef APPS_ALLREDUCE_INIT
      for (std::size_t i = 0; persistent_ && i < layers_.size(); ++i)
        check(APPS_ALLREDUCE_INIT(MPI_IN_PLACE, layers_[i].data(), static_cast<int>(layers_[i].size()), MPI_FLOAT,
                                  MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests_[i]),
              "MPI_Allreduce_init");
#endif
    }
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;
    ~Buckets() {
      if (!persistent_) return;
      for (MPI_Request& request : requests_) MPI_Request_free(&request);
    }
    void start(std::size_t layer) {
      if (persistent_)
        check(MPI_Start(&requests_[layer]), "MPI_Start");
      else
        check(MPI_Iallreduce(MPI_IN_PLACE, layers_[layer].data(), static_cast<int>(layers_[layer].size()), MPI_FLOAT,
                             MPI_SUM, MPI_COMM_WORLD, &requests_[layer]),
              "MPI_Iallreduce");
    }
    void finish() {
      check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    }

   private:
    std::vector<std::span<float>> layers_;
    std::vector<MPI_Request> requests_;
    bool persistent_;
  };

  /// Passive target: the window is locked from creation on.
  class Atomics {
   public:
    Atomics(Mpi& library, std::size_t bytes) {
      const auto length = static_cast<MPI_Aint>(bytes);
      if (library.own_target_) {
        memory_ = bench::Memory(bytes);
        part_ = memory_.data();
        check(MPI_Win_create(part_, length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_), "MPI_Win_create");
      } else {
        check(MPI_Win_allocate(length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part_, &window_), "MPI_Win_allocate");
      }
      check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    }
    Atomics(const Atomics&) = delete;
    Atomics& operator=(const Atomics&) = delete;
    ~Atomics() {
      MPI_Win_unlock_all(window_);
      MPI_Win_free(&window_);
    }
    std::byte* part() {
      MPI_Win_sync(window_);
      return part_;
    }
    std::uint64_t compare_swap(int rank, std::uint64_t offset, const std::uint64_t& expected,
                               const std::uint64_t& desired) {
      std::uint64_t old = 0;
      check(MPI_Compare_and_swap(&desired, &expected, &old, MPI_UINT64_T, rank, static_cast<MPI_Aint>(offset), window_),
            "MPI_Compare_and_swap");
      check(MPI_Win_flush(rank, window_), "MPI_Win_flush");
      return old;
    }
    void start_compare_swap(int rank, std::uint64_t offset, const std::uint64_t& expected, const std::uint64_t& desired,
                            std::uint64_t* old) {
      check(MPI_Compare_and_swap(&desired, &expected, old, MPI_UINT64_T, rank, static_cast<MPI_Aint>(offset), window_),
            "MPI_Compare_and_swap");
    }
    void finish() { flush(); }
    void add(int rank, std::uint64_t offset, const std::uint64_t& value) {
      check(MPI_Accumulate(&value, 1, MPI_UINT64_T, rank, static_cast<MPI_Aint>(offset), 1, MPI_UINT64_T, MPI_SUM,
                           window_),
            "MPI_Accumulate");
    }
    void flush() { check(MPI_Win_flush_all(window_), "MPI_Win_flush_all"); }

   private:
    bench::Memory memory_;
    std::byte* part_ = nullptr;
    MPI_Win window_ = MPI_WIN_NULL;
  };

  void close() { check(MPI_Finalize(), "MPI_Finalize"); }

 private:
  int rank_ = 0, size_ = 1;
  bool own_target_;
  std::vector<bench::Memory> memory_;
  std::array<std::vector<int>, 4> ints_;
};

}  // namespace

int main(int argc, char** argv) try {
  const apps::Arguments arguments = apps::arguments_of(argc, argv);
  bench::bind_launched(arguments.setup);
  Mpi library(&argc, &argv, arguments);
  apps::Run<Mpi>(library, arguments).run();
  library.close();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::fflush(stderr);
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}
