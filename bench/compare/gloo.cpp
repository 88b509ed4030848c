// Gloo: TCP between all ranks, also on one machine; it has nothing else for host memory. It starts
// its ranks itself, which meet through files in --scratch.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/loop.hpp"
#include "common/spawn.hpp"

namespace {

class Gloo {
 public:
  Gloo(const compare::Setup& setup, int rank) : rank_(rank), size_(setup.ranks) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(address);
    auto store = gloo::rendezvous::FileStore(setup.scratch);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    context->setTimeout(std::chrono::seconds(120));
    context->connectFullMesh(store, device);
    context_ = context;
    source_.resize(setup.source_bytes() / sizeof(float));
    result_.resize(setup.result_bytes(size_) / sizeof(float));
    barrier_.emplace(context_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
           std::to_string(GLOO_VERSION_PATCH);
  }
  std::string settings() const { return "private buffers; TCP over 127.0.0.1; its default algorithms"; }
  static std::string lacks(compare::Operation operation) {
    const bool one_sided = operation == compare::Operation::put || operation == compare::Operation::get;
    return one_sided ? "Gloo of this version has no one-sided transfers" : "";
  }

  std::byte* source() { return reinterpret_cast<std::byte*>(source_.data()); }
  std::byte* result() { return reinterpret_cast<std::byte*>(result_.data()); }
  std::byte* target() { return source(); }

  void put(int, std::size_t) {}
  void get(int, std::size_t) {}
  void barrier() { gloo::barrier(*barrier_); }

  // Options register buffers; they are made once per size, which is the fast way to use them.
  void broadcast(std::size_t bytes) {
    if (broadcast_bytes_ != bytes) {
      broadcast_.emplace(context_);
      broadcast_->setOutput(source_.data(), bytes / sizeof(float));
      broadcast_->setRoot(0);
      broadcast_bytes_ = bytes;
    }
    gloo::broadcast(*broadcast_);
  }
  void allgather(std::size_t bytes) {
    if (allgather_bytes_ != bytes) {
      allgather_.emplace(context_);
      const std::size_t count = bytes / sizeof(float);
      allgather_->setInput(source_.data(), count);
      allgather_->setOutput(result_.data(), count * static_cast<std::size_t>(size_));
      allgather_bytes_ = bytes;
    }
    gloo::allgather(*allgather_);
  }
  void allreduce(std::size_t bytes) {
    if (allreduce_bytes_ != bytes) {
      allreduce_.emplace(context_);
      allreduce_->setInput(source_.data(), bytes / sizeof(float));
      allreduce_->setOutput(result_.data(), bytes / sizeof(float));
      allreduce_->setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
      allreduce_bytes_ = bytes;
    }
    gloo::allreduce(*allreduce_);
  }
  void expose() {}
  // A rank that leaves early would break the others' connections.
  void close() { barrier(); }

 private:
  int rank_;
  int size_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<float> source_, result_;
  std::optional<gloo::BarrierOptions> barrier_;
  std::optional<gloo::BroadcastOptions> broadcast_;
  std::optional<gloo::AllgatherOptions> allgather_;
  std::optional<gloo::AllreduceOptions> allreduce_;
  std::size_t broadcast_bytes_ = 0, allgather_bytes_ = 0, allreduce_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  const compare::Setup setup = compare::setup_of(argc, argv);
  return compare::run_ranks(setup.ranks, setup.pin, [&](int rank) {
    Gloo contestant(setup, rank);
    return compare::run_rank(contestant, setup);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
