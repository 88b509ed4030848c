// Gloo: TCP between all ranks, also on one machine, since it has no other transport for host memory. This program
// starts its ranks itself. They rendezvous through files in --scratch.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare/loop.hpp"

namespace {

class Gloo {
 public:
  Gloo(const bench::Setup& setup, int rank) : rank_(rank), size_(setup.ranks) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(address);
    auto store = gloo::rendezvous::FileStore(setup.scratch);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    context->setTimeout(std::chrono::seconds(120));
    context->connectFullMesh(store, device);
    context_ = context;
    source_ = bench::Memory(setup.source_bytes(size_));
    result_ = bench::Memory(setup.result_bytes(size_));
    barrier_.emplace(context_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
           std::to_string(GLOO_VERSION_PATCH);
  }
  std::string settings() const { return "private buffers; TCP over 127.0.0.1; its default algorithms"; }
  static std::string lacks(bench::Operation operation) {
    switch (operation) {
      case bench::Operation::put:
      case bench::Operation::get: return "this version of Gloo has no one-sided transfers";
      case bench::Operation::reduce_scatter: return "this version of Gloo has reduce_scatter only in its older form";
      case bench::Operation::scan:
      case bench::Operation::exscan: return "Gloo has no scan";
      case bench::Operation::allgatherv:
      case bench::Operation::alltoallv: return "only alltoall is compared";
      default: return "";
    }
  }

  std::byte* source() { return source_.data(); }
  std::byte* result() { return result_.data(); }
  std::byte* target() { return source(); }

  void put(int, std::size_t) {}
  void get(int, std::size_t) {}
  void barrier() { gloo::barrier(*barrier_); }

  // Options register buffers. Making them once per size is the fastest use.
  void broadcast(std::size_t bytes) {
    const auto [found, added] = broadcasts_.try_emplace(bytes, context_);
    if (added) {
      found->second.setOutput(floats(source_), bytes / sizeof(float));
      found->second.setRoot(0);
    }
    gloo::broadcast(found->second);
  }
  void allgather(std::size_t bytes) {
    const auto [found, added] = allgathers_.try_emplace(bytes, context_);
    if (added) {
      const std::size_t count = bytes / sizeof(float);
      found->second.setInput(floats(source_), count);
      found->second.setOutput(floats(result_), count * static_cast<std::size_t>(size_));
    }
    gloo::allgather(found->second);
  }
  void allreduce(std::size_t bytes) {
    const auto [found, added] = allreduces_.try_emplace(bytes, context_);
    if (added) {
      found->second.setInput(floats(source_), bytes / sizeof(float));
      found->second.setOutput(floats(result_), bytes / sizeof(float));
      found->second.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    }
    gloo::allreduce(found->second);
  }
  void gather(std::size_t bytes) {
    const auto [found, added] = gathers_.try_emplace(bytes, context_);
    if (added) {
      found->second.setInput(floats(source_), bytes / sizeof(float));
      if (rank_ == 0) found->second.setOutput(floats(result_), bytes / sizeof(float) * static_cast<std::size_t>(size_));
      found->second.setRoot(0);
    }
    gloo::gather(found->second);
  }
  void scatter(std::size_t bytes) {
    const auto [found, added] = scatters_.try_emplace(bytes, context_);
    if (added) {
      const std::size_t count = bytes / sizeof(float);
      std::vector<float*> blocks;
      for (int r = 0; r < size_ && rank_ == 0; ++r)
        blocks.push_back(floats(source_) + count * static_cast<std::size_t>(r));
      found->second.setInputs(blocks, count);
      found->second.setOutput(floats(result_), count);
      found->second.setRoot(0);
    }
    gloo::scatter(found->second);
  }
  void alltoall(std::size_t bytes) {
    const auto [found, added] = alltoalls_.try_emplace(bytes, context_);
    if (added) {
      const std::size_t count = bytes / sizeof(float) * static_cast<std::size_t>(size_);
      found->second.setInput(floats(source_), count);
      found->second.setOutput(floats(result_), count);
    }
    gloo::alltoall(found->second);
  }
  void reduce(std::size_t bytes) {
    const auto [found, added] = reduces_.try_emplace(bytes, context_);
    if (added) {
      found->second.setInput(floats(source_), bytes / sizeof(float));
      found->second.setOutput(floats(result_), bytes / sizeof(float));
      found->second.setRoot(0);
      found->second.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    }
    gloo::reduce(found->second);
  }
  void reduce_scatter(std::size_t) {}
  void scan(std::size_t) {}
  void exscan(std::size_t) {}
  void allgatherv(std::size_t) {}
  void alltoallv(std::size_t) {}
  void expose() {}
  // A rank that leaves early would break the others' connections.
  void close() { barrier(); }

 private:
  static float* floats(const bench::Memory& memory) { return reinterpret_cast<float*>(memory.data()); }

  int rank_;
  int size_;
  std::shared_ptr<gloo::Context> context_;
  bench::Memory source_, result_;
  std::optional<gloo::BarrierOptions> barrier_;
  std::map<std::size_t, gloo::BroadcastOptions> broadcasts_;  // by size
  std::map<std::size_t, gloo::AllgatherOptions> allgathers_;
  std::map<std::size_t, gloo::AllreduceOptions> allreduces_;
  std::map<std::size_t, gloo::GatherOptions> gathers_;
  std::map<std::size_t, gloo::ScatterOptions> scatters_;
  std::map<std::size_t, gloo::AlltoallOptions> alltoalls_;
  std::map<std::size_t, gloo::ReduceOptions> reduces_;
};

int run_as(int rank, const bench::Setup& setup) {
  Gloo contestant(setup, rank);
  return bench::run_rank(contestant, setup);
}

// A start includes a launcher's work: each rank is a process that executes the program.
int execute_as(int rank, int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  std::string mine = "--rank=" + std::to_string(rank);
  words.push_back(mine.data());
  words.push_back(nullptr);
  return execv("/proc/self/exe", words.data());
}

}  // namespace

int main(int argc, char** argv) try {
  const bench::Setup setup = bench::setup_of(argc, argv);
  if (setup.rank >= 0) return run_as(setup.rank, setup);
  return bench::run_ranks(setup.ranks, setup.cpus,
                          [&](int rank) { return setup.hello ? execute_as(rank, argc, argv) : run_as(rank, setup); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
