// HMC. Started by hmcrun.
#include <cstdio>
#include <hmc/hmc.hpp>
#include <vector>

#include "bench/compare/loop.hpp"

namespace {

class Hmc {
 public:
  explicit Hmc(const bench::Setup& setup)
      : runtime_(hmc::Runtime::init()), world_(runtime_.world()), window_buffers_(setup.window_buffers) {
    if (setup.hello) return;
    const std::size_t source = setup.source_bytes(size());
    const std::size_t result = setup.result_bytes(size());
    const std::size_t target = setup.target_bytes();
    constexpr std::size_t page = bench::page_bytes;
    window_ = hmc::Window::create(world_, target + source + result + 4 * page);
    target_offset_ = window_.alloc(target, page);
    if (window_buffers_) {
      source_ = window_.data() + window_.alloc(source, page);
      result_ = window_.data() + window_.alloc(result, page);
    } else {
      private_source_ = bench::Memory(source);
      private_result_ = bench::Memory(result);
      source_ = private_source_.data();
      result_ = private_result_.data();
    }
  }

  int rank() const { return runtime_.rank(); }
  int size() const { return runtime_.size(); }
  std::string version() const { return "HMC " HMC_VERSION_STRING; }
  std::string settings() const {
    const hmc::Path path = runtime_.path(size() > 1 ? 1 : 0);
    return "wire " + path.wire + "; " + (window_buffers_ ? "window" : "private") + " buffers; " +
           std::to_string(runtime_.node_count()) + " node(s)";
  }
  static std::string lacks(bench::Operation) { return ""; }

  std::byte* source() { return source_; }
  std::byte* result() { return result_; }
  std::byte* target() { return window_.data() + target_offset_; }

  void put(int peer, std::size_t bytes) {
    window_.put(peer, target_offset_, source_, bytes);
    window_.flush(peer);
  }
  void get(int peer, std::size_t bytes) { window_.get(peer, target_offset_, result_, bytes); }
  void barrier() { world_.barrier(); }
  void broadcast(std::size_t bytes) { world_.broadcast(source_, bytes, 0); }
  void allgather(std::size_t bytes) { world_.allgather(source_, result_, bytes); }
  void allreduce(std::size_t bytes) {
    world_.allreduce(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum);
  }
  void gather(std::size_t bytes) { world_.gather(source_, result_, bytes, 0); }
  void scatter(std::size_t bytes) { world_.scatter(source_, result_, bytes, 0); }
  void alltoall(std::size_t bytes) { world_.alltoall(source_, result_, bytes); }
  void reduce(std::size_t bytes) {
    world_.reduce(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum, 0);
  }
  void reduce_scatter(std::size_t bytes) {
    world_.reduce_scatter(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum);
  }
  void scan(std::size_t bytes) { world_.scan(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum); }
  void exscan(std::size_t bytes) { world_.exscan(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum); }
  void allgatherv(std::size_t bytes) { world_.allgatherv(source_, result_, counts(bytes)); }
  void alltoallv(std::size_t bytes) { world_.alltoallv(source_, counts(bytes), {}, result_, counts(bytes), {}); }
  void begin(bench::Operation operation, std::size_t bytes) {
    switch (operation) {
      case bench::Operation::broadcast: request_ = world_.ibroadcast(source_, bytes, 0); return;
      case bench::Operation::allgather: request_ = world_.iallgather(source_, result_, bytes); return;
      case bench::Operation::alltoall: request_ = world_.ialltoall(source_, result_, bytes); return;
      default: request_ = world_.iallreduce(source_, result_, bytes / sizeof(float), hmc::DType::f32, hmc::sum);
    }
  }
  void wait() { request_.wait(); }
  void expose() {}
  void close() {
    if (window_.is_open()) window_.close();
    runtime_.close();
  }

 private:
  const std::vector<std::size_t>& counts(std::size_t bytes) {
    if (counts_.empty() || counts_[0] != bytes) counts_.assign(static_cast<std::size_t>(size()), bytes);
    return counts_;
  }

  hmc::Runtime runtime_;
  hmc::Team world_;
  hmc::Window window_;
  hmc::Request request_;
  bool window_buffers_;
  std::uint64_t target_offset_ = 0;
  bench::Memory private_source_, private_result_;
  std::byte* source_ = nullptr;
  std::byte* result_ = nullptr;
  std::vector<std::size_t> counts_;
};

}  // namespace

int main(int argc, char** argv) try {
  const bench::Setup setup = bench::setup_of(argc, argv);
  bench::bind_launched(setup);
  Hmc contestant(setup);
  return bench::run_rank(contestant, setup);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
