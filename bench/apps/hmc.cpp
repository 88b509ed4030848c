// The programs with HMC, started by hmcrun.
#include <cstdio>
#include <cstring>
#include <hmc/hmc.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/apps/run.hpp"
#include "bench/kit/pattern.hpp"

namespace {

// A program's data is in a window (--window) or in malloc's memory.
class Hmc {
 public:
  explicit Hmc(const apps::Arguments& arguments)
      : runtime_(hmc::Runtime::init()), world_(runtime_.world()), in_window_(arguments.setup.window_buffers) {}

  int rank() const { return runtime_.rank(); }
  int size() const { return runtime_.size(); }
  std::string version() const { return "HMC " HMC_VERSION_STRING; }
  std::string settings() const {
    return "wire " + runtime_.path(size() > 1 ? 1 : 0).wire + "; " + (in_window_ ? "window" : "private") +
           " buffers; " + std::to_string(runtime_.node_count()) + " node(s)";
  }
  static std::string lacks(const apps::Job&) { return ""; }

  void reserve(std::size_t bytes) {
    if (in_window_) window_ = hmc::Window::create(world_, bytes);
  }
  template <typename T> T* allocate(std::size_t count) {
    if (in_window_) return window_.local<T>(window_.alloc(count * sizeof(T), bench::page_bytes));
    memory_.emplace_back(count * sizeof(T));
    return reinterpret_cast<T*>(memory_.back().data());
  }
  void release() {
    if (window_.is_open()) window_.close();
    memory_.clear();
  }

  void barrier() { world_.barrier(); }
  void broadcast(void* data, std::size_t bytes) { world_.broadcast(data, bytes, 0); }
  void gather(const void* in, void* out, std::size_t bytes) { world_.gather(in, out, bytes, 0); }
  void allgather(const void* in, void* out, std::size_t bytes) { world_.allgather(in, out, bytes); }
  void allreduce(float* data, std::size_t count) { world_.allreduce(data, data, count, hmc::DType::f32, hmc::sum); }
  void alltoallv(const void* in, const std::vector<std::size_t>& counts, const std::vector<std::size_t>& begins,
                 void* out, const std::vector<std::size_t>& receive_counts,
                 const std::vector<std::size_t>& receive_begins, std::size_t element) {
    world_.alltoallv(in, counts, begins, out, receive_counts, receive_begins, element);
  }

  using Team = hmc::Team;
  Team split(int colour) { return world_.split(colour); }
  void alltoall(const void* in, void* out, std::size_t bytes, Team* team = nullptr) {
    (team == nullptr ? world_ : *team).alltoall(in, out, bytes);
  }

  /// Modes:
  ///  - signal: put_signal into the neighbour's halo if the data is in a window, else into a window of the exchange,
  ///  from
  ///    where the neighbour copies the face
  ///  - message: irecv and isend
  class Halo {
   public:
    Halo(Hmc& library, const std::array<apps::Face, 6>& faces, const std::string& mode)
        : world_(library.world_), faces_(faces), in_place_(library.in_window_), signals_them_(mode == "signal") {
      if (!signals_them_) return;
      if (!in_place_) {
        std::size_t bytes = faces.size() * line + line;
        for (const apps::Face& face : faces) bytes += 2 * (face.count * sizeof(double) + line);
        own_ = hmc::Window::create(library.world_, bytes);
      }
      window_ = in_place_ ? &library.window_ : &own_;
      signals_ = window_->alloc(faces.size() * line, line);
      for (std::size_t i = 0; i < faces.size(); ++i) {
        if (faces[i].count == 0) continue;
        for (std::size_t grid = 0; grid < 2; ++grid)
          halos_[i][grid] =
              in_place_
                  ? static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(faces[i].receive[grid]) - window_->data())
                  : own_.alloc(faces[i].count * sizeof(double), line);
      }
    }
    Halo(const Halo&) = delete;
    Halo& operator=(const Halo&) = delete;

    template <typename Pack, typename Unpack> void exchange(std::size_t grid, Pack pack, Unpack unpack) {
      if (signals_them_)
        put(grid, pack, unpack);
      else
        send(grid, pack, unpack);
    }

   private:
    static constexpr std::size_t line = 64;

    template <typename Pack, typename Unpack> void put(std::size_t grid, Pack pack, Unpack unpack) {
      ++round_;
      for (std::size_t i = 0; i < faces_.size(); ++i) {
        const apps::Face& face = faces_[i];
        if (face.peer < 0) continue;
        if (face.packed) pack(static_cast<int>(i));
        const std::size_t there = i ^ 1;
        window_->put_signal(face.peer, halos_[there][grid], face.send[grid], face.count * sizeof(double),
                            signals_ + there * line, round_);
      }
      for (std::size_t i = 0; i < faces_.size(); ++i) {
        const apps::Face& face = faces_[i];
        if (face.peer < 0) continue;
        window_->wait_until(signals_ + i * line, hmc::Cmp::ge, round_);
        if (!in_place_) std::memcpy(face.receive[grid], own_.data() + halos_[i][grid], face.count * sizeof(double));
        if (face.packed) unpack(static_cast<int>(i));
      }
    }

    template <typename Pack, typename Unpack> void send(std::size_t grid, Pack pack, Unpack unpack) {
      requests_.clear();
      for (std::size_t i = 0; i < faces_.size(); ++i)
        if (const apps::Face& face = faces_[i]; face.peer >= 0)
          requests_.push_back(
              world_.irecv_bytes(face.receive[grid], face.count * sizeof(double), face.peer, static_cast<int>(i)));
      for (std::size_t i = 0; i < faces_.size(); ++i) {
        const apps::Face& face = faces_[i];
        if (face.peer < 0) continue;
        if (face.packed) pack(static_cast<int>(i));
        requests_.push_back(
            world_.isend_bytes(face.send[grid], face.count * sizeof(double), face.peer, static_cast<int>(i ^ 1)));
      }
      hmc::Request::wait_all(requests_);
      for (std::size_t i = 0; i < faces_.size(); ++i)
        if (faces_[i].peer >= 0 && faces_[i].packed) unpack(static_cast<int>(i));
    }

    hmc::Team world_;
    const std::array<apps::Face, 6>& faces_;
    bool in_place_, signals_them_;
    hmc::Window own_;
    hmc::Window* window_ = nullptr;
    std::uint64_t signals_ = 0, round_ = 0;
    std::array<std::array<std::uint64_t, 2>, 6> halos_{};  // offsets of the faces' destinations, by face and grid
    std::vector<hmc::Request> requests_;
  };

  /// One non-blocking or persistent allreduce per layer.
  class Buckets {
   public:
    Buckets(Hmc& library, std::vector<std::span<float>> layers, const std::string& mode)
        : world_(library.world_), layers_(std::move(layers)), requests_(layers_.size()) {
      if (mode != "persistent") return;
      for (const std::span<float> layer : layers_) plans_.push_back(world_.plan_allreduce(layer, layer, hmc::sum));
    }
    void start(std::size_t layer) {
      if (!plans_.empty()) return plans_[layer].start();
      const std::span<float> data = layers_[layer];
      requests_[layer] = world_.iallreduce(data.data(), data.data(), data.size(), hmc::DType::f32, hmc::sum);
    }
    void finish() {
      hmc::Request::wait_all(requests_);
      for (hmc::Plan& plan : plans_) plan.wait();
    }

   private:
    hmc::Team world_;
    std::vector<std::span<float>> layers_;
    std::vector<hmc::Request> requests_;
    std::vector<hmc::Plan> plans_;
  };

  class Atomics {
   public:
    Atomics(Hmc& library, std::size_t bytes) : window_(hmc::Window::create(library.world_, bytes)) {}
    std::byte* part() { return window_.data(); }
    std::uint64_t compare_swap(int rank, std::uint64_t offset, std::uint64_t expected, std::uint64_t desired) {
      return window_.compare_swap<std::uint64_t>(rank, offset, expected, desired);
    }
    void start_compare_swap(int rank, std::uint64_t offset, std::uint64_t expected, std::uint64_t desired,
                            std::uint64_t* old) {
      requests_.push_back(window_.compare_swap_nb(rank, offset, expected, desired, old));
    }
    void finish() {
      hmc::Request::wait_all(requests_);
      requests_.clear();
    }
    void add(int rank, std::uint64_t offset, std::uint64_t value) { window_.add<std::uint64_t>(rank, offset, value); }
    void flush() { window_.flush(); }

   private:
    hmc::Window window_;
    std::vector<hmc::Request> requests_;
  };

  void close() { runtime_.close(); }

 private:
  hmc::Runtime runtime_;
  hmc::Team world_;
  bool in_window_;
  hmc::Window window_;  // of the job's data
  std::vector<bench::Memory> memory_;
};

}  // namespace

int main(int argc, char** argv) try {
  const apps::Arguments arguments = apps::arguments_of(argc, argv);
  bench::bind_launched(arguments.setup);
  Hmc library(arguments);
  apps::Run<Hmc>(library, arguments).run();
  library.close();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
