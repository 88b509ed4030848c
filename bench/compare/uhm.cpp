// From the device memory of rank 0 to that of rank 1, by each of the five modes in turn. Two ranks, started by hmcrun
// (driver/uhm.py). In each round the modes have a new random order, and rank 1 checks every byte that arrives.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <hmc/hmc.hpp>
#include <random>
#include <stdexcept>
#include <string>

#include "bench/kit/figures.hpp"
#include "bench/kit/pattern.hpp"

namespace {

struct Options {
  std::size_t bytes = 64 << 10;
  std::size_t chunk = 4 << 20;
  std::size_t in_flight = 64;
  int rounds = 5;
  unsigned seed = 1;
  bool opencl = false;
  std::string output;
};

enum class Mode { uhm, serial, g2h2g, pipeline, rdma_cpu };
constexpr std::array<const char*, 5> mode_names = {"uhm", "serial", "g2h2g", "pipeline", "rdma_cpu"};

/// One buffer of device memory; each rank has a device of its own if there are two.
hmc::ConnBuffer device_memory(const Options& options, int rank) {
  const hmc::MemoryType type = options.opencl ? hmc::MemoryType::OPENCL : hmc::MemoryType::DEFAULT;
  try {
    return {rank, options.bytes, type};
  } catch (const hmc::Error& error) {
    if (rank == 0 || error.code() == hmc::Code::out_of_memory) throw;
    return {0, options.bytes, type};
  }
}

/// One rank's memory and its side of each mode. The host window has the data, then the slots of the chunks, then two
/// counters: of chunks that have arrived (at the receiver) and that have been consumed (at the sender).
class Side {
 public:
  Side(hmc::Team& team, const Options& options)
      : options_(options), is_sender_(team.rank() == 0), peer_(1 - team.rank()) {
    const hmc::ConnBuffer memory = device_memory(options, team.rank());
    memory_ = hmc::name_of(memory.mem_type);
    device_ = hmc::Window::create(team, memory);
    host_ = hmc::Window::create(team, counters() + 2 * line);
  }

  void run(Mode mode) {
    switch (mode) {
      case Mode::uhm: return put_only(device_);
      case Mode::rdma_cpu: return put_only(host_);
      case Mode::serial: return through_host(options_.bytes, 1, 0);
      case Mode::g2h2g: return through_host(options_.chunk, 1, options_.bytes);
      case Mode::pipeline: return through_host(options_.chunk, slots(), options_.bytes);
    }
  }

  /// The sender's data, in both memories. The receiver's are overwritten, so that no earlier call's data is accepted.
  void prepare(int call) {
    if (is_sender_)
      data_.write(host_.data(), options_.bytes, call);
    else
      std::memset(host_.data(), 0xa5, options_.bytes);
    hmc::copy(device_.data(), host_.data(), options_.bytes);
  }
  bool has_data(Mode mode, int call) {
    if (mode != Mode::rdma_cpu) {
      std::memset(host_.data(), 0, options_.bytes);
      hmc::copy(host_.data(), device_.data(), options_.bytes);
    }
    return data_.matches(host_.data(), options_.bytes, call);
  }

  const std::string& memory() const { return memory_; }
  std::string device_path() const { return device_.path(peer_).wire; }
  std::string host_path() const { return host_.path(peer_).wire; }
  void close() {
    host_.close();
    device_.close();
  }

 private:
  static constexpr std::uint64_t line = 64;

  std::size_t chunks() const { return (options_.bytes + options_.chunk - 1) / options_.chunk; }
  std::size_t slots() const { return std::min(options_.in_flight, chunks()); }
  std::uint64_t counters() const {
    return (options_.bytes + slots() * std::min(options_.chunk, options_.bytes) + line - 1) / line * line;
  }
  std::uint64_t arrived() const { return counters(); }
  std::uint64_t consumed() const { return counters() + line; }

  /// The data is in the receiver's memory when the sender's flush returns.
  void put_only(hmc::Window& window) {
    if (!is_sender_) return;
    window.put(peer_, 0, window.data(), options_.bytes);
    window.flush(peer_);
  }

  /// Each chunk goes to host memory, from there to the peer's host memory, and from there to the peer's device. At most
  /// `most` chunks are in flight; chunk i uses slot i modulo `most`, the slots start at byte `first_slot`.
  void through_host(std::size_t chunk, std::size_t most, std::uint64_t first_slot) {
    for (std::uint64_t at = 0, i = 0; at < options_.bytes; at += chunk, ++i) {
      const std::size_t bytes = std::min<std::size_t>(chunk, options_.bytes - at);
      const std::uint64_t slot = first_slot + i % most * chunk;
      if (is_sender_) {
        if (i >= most) host_.wait_until(consumed(), hmc::Cmp::ge, count_ + 1 - most);
        send(at, slot, bytes);
      } else {
        receive(at, slot, bytes);
      }
      ++count_;
    }
    if (is_sender_)
      host_.wait_until(consumed(), hmc::Cmp::ge, count_);
    else
      host_.flush(peer_);
  }
  void send(std::uint64_t at, std::uint64_t slot, std::size_t bytes) {
    hmc::copy(host_.data() + slot, device_.data() + at, bytes);
    (void)host_.put_nb(peer_, slot, host_.data() + slot, bytes);  // the slot is free when the peer has consumed it
    host_.fence();
    host_.set<std::uint64_t>(peer_, arrived(), count_ + 1);
  }
  void receive(std::uint64_t at, std::uint64_t slot, std::size_t bytes) {
    host_.wait_until(arrived(), hmc::Cmp::ge, count_ + 1);
    hmc::copy(device_.data() + at, host_.data() + slot, bytes);
    host_.set<std::uint64_t>(peer_, consumed(), count_ + 1);
  }

  const Options& options_;
  bool is_sender_;
  int peer_;
  std::string memory_;
  hmc::Window device_, host_;
  bench::Pattern data_ = bench::Pattern::bytes(0);
  std::uint64_t count_ = 0;  // of all chunks so far
};

/// Small transfers are repeated, so that a round's time is that of several.
int calls_for(std::size_t bytes) { return static_cast<int>(std::clamp<std::size_t>((4 << 20) / bytes, 1, 32)); }

double us_per_call(Side& side, hmc::Team& team, Mode mode, int calls) {
  team.barrier();
  const std::int64_t start = bench::now_ns();
  for (int i = 0; i < calls; ++i) side.run(mode);
  return bench::us_since(start) / calls;
}

/// False if rank 1 has received wrong bytes.
bool measure(const Options& options, hmc::Team& team, std::FILE* out) {
  Side side(team, options);
  const bool prints = team.rank() == 0;
  const int calls = calls_for(options.bytes);
  if (prints)
    std::fprintf(out, "{\"memory\": \"%s\", \"device_path\": \"%s\", \"host_path\": \"%s\"}\n", side.memory().c_str(),
                 side.device_path().c_str(), side.host_path().c_str());
  std::mt19937 random(options.seed);  // the same order on both ranks
  std::array<Mode, mode_names.size()> order = {Mode::uhm, Mode::serial, Mode::g2h2g, Mode::pipeline, Mode::rdma_cpu};
  int call = 0;
  for (int round = 0; round <= options.rounds; ++round) {  // round 0 warms up
    std::shuffle(order.begin(), order.end(), random);
    for (const Mode mode : order) {
      const char* const name = mode_names[static_cast<std::size_t>(mode)];
      side.prepare(++call);
      const double us = us_per_call(side, team, mode, calls);
      team.barrier();
      const int wrong = team.rank() == 1 && !side.has_data(mode, call) ? 1 : 0;
      int any_wrong = 0;
      team.allreduce(&wrong, &any_wrong, 1, hmc::DType::i32, hmc::max);
      if (any_wrong != 0) {
        if (prints) std::fprintf(stderr, "%s of %zu bytes: rank 1 received wrong bytes\n", name, options.bytes);
        return false;
      }
      if (prints && round > 0)
        std::fprintf(out, "{\"mode\": \"%s\", \"bytes\": %zu, \"round\": %d, \"us\": %.3f}\n", name, options.bytes,
                     round, us);
    }
  }
  side.close();
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  std::string scratch;
  CLI::App app("Transfers between the device memories of two ranks; a JSON line per mode and round");
  app.add_option("--bytes", options.bytes, "bytes of a transfer, a multiple of 4")->check(CLI::Range(4UL, 1UL << 40));
  app.add_option("--chunk", options.chunk, "bytes of a chunk")->check(CLI::Range(64UL, 1UL << 40));
  app.add_option("--in-flight", options.in_flight, "chunks in flight in a pipeline")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--seed", options.seed, "seed of the order of the modes");
  app.add_flag("--opencl", options.opencl, "memory of OpenCL's device, not of the accelerator");
  app.add_option("--output", options.output, "file of rank 0's lines");
  app.add_option("--scratch", scratch, "ignored: the driver's folder");
  CLI11_PARSE(app, argc, argv);
  if (options.bytes % 4 != 0) throw std::runtime_error("uhm: --bytes isn't a multiple of 4");
  hmc::Runtime runtime = hmc::Runtime::init();
  hmc::Team world = runtime.world();
  if (world.size() != 2) throw std::runtime_error("uhm: needs two ranks");
  std::FILE* const out = options.output.empty() || world.rank() != 0 ? stdout : std::fopen(options.output.c_str(), "w");
  if (out == nullptr) throw std::runtime_error("uhm: can't write to " + options.output);
  const bool is_right = measure(options, world, out);
  if (out != stdout) std::fclose(out);
  runtime.close();
  return is_right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
