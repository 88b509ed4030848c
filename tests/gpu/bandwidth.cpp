// Bandwidth of HMC compared with the driver's own copy, in one run. The bare copy (cuMemcpyAsync and
// cuStreamSynchronize, as cudaMemcpyAsync) alternates with HMC's verbs; the table has the medians. On the fake driver
// the test only checks that the program runs and that no byte is lost; its times are meaningless.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/gpu/driver_api.hpp"
#include "tests/gpu/user_kernels.hpp"
#include "tests/multirank/device_kernels.hpp"
#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Allocator;
using hmc::MemoryType;
using hmc::gpu::Address;
using hmc::gpu::DriverApi;
using hmc::spmd::made;
using hmc::spmd::MemoryKind;
using hmc::spmd::Mixed;
using hmc::spmd::TestRank;

constexpr double target_share = 0.95;
constexpr std::size_t target_from = std::size_t{64} << 20;

/// Memory of this rank's buffer, and memory of the peer's part of the window.
struct Pair {
  const char* local_name;
  Allocator local;
  const char* window_name;
  MemoryKind window;
};
constexpr Pair pairs[] = {{"device", Allocator::cuda, "device", {"cuda", MemoryType::NVIDIA_GPU}},
                          {"pinned", Allocator::cuda_pinned, "device", {"cuda", MemoryType::NVIDIA_GPU}},
                          {"host", Allocator::host_new, "device", {"cuda", MemoryType::NVIDIA_GPU}},
                          {"device", Allocator::cuda, "host", {"cpu", MemoryType::CPU}}};

Address address(const void* pointer) { return reinterpret_cast<Address>(pointer); }

/// The driver's own copies, on a separate stream.
class BareCopy {
 public:
  BareCopy() : current_(api_), stream_(hmc::memory::provider_for(MemoryType::NVIDIA_GPU).make_stream(0)) {}

  void operator()(void* to, bool to_device, const void* from, bool from_device, std::size_t bytes) {
    void* const stream = stream_->native();
    hmc::memory::DriverResult result;
    if (api_.copy)
      result = api_.copy(address(to), address(from), bytes, stream);
    else if (to_device && from_device)
      result = api_.copy_within(address(to), address(from), bytes, stream);
    else if (to_device)
      result = api_.copy_to_device(address(to), from, bytes, stream);
    else if (from_device)
      result = api_.copy_to_host(to, address(from), bytes, stream);
    else
      std::memcpy(to, from, bytes);
    HMC_CHECK_MSG(result.ok(), "{} answered {}", result.call, result.code);
    const auto done = api_.synchronize(stream);
    HMC_CHECK_MSG(done.ok(), "{} answered {}", done.call, done.code);
  }

 private:
  hmc::memory::Library library_{hmc::memory::cuda_library};
  DriverApi api_{library_};
  hmc::gpu::Current current_;
  std::unique_ptr<hmc::memory::Stream> stream_;
};

/// One of HMC's methods to move bytes, and the bare copy it is compared with. All ranks call a collective method; rank
/// 0 alone calls any other. All ranks call `clear` before and `check` after a verified run.
struct Operation {
  std::string name, way;
  bool is_collective = false;
  std::function<void()> run{}, bare{}, clear{}, check{};
  std::vector<double> times{}, bare_times{};
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Writes to standard output and to the file of `--set table=FILE`, on rank 0 only.
class Table {
 public:
  explicit Table(const TestRank& me) {
    if (me.rank != 0) return;
    outs_.push_back(stdout);
    const std::string path = me.options.setting("table");
    if (path.empty()) return;
    std::FILE* const file = std::fopen(path.c_str(), "w");
    HMC_CHECK_MSG(file != nullptr, "{}: {}", path, std::strerror(errno));
    outs_.push_back(file);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    if (outs_.size() > 1) (void)std::fclose(outs_[1]);
  }

  void line(const std::string& text) {
    for (std::FILE* const out : outs_) {
      std::fprintf(out, "%s\n", text.c_str());
      (void)std::fflush(out);
    }
  }
  void row(const Pair& pair, std::size_t bytes, const Operation& operation) {
    const double bare = median(operation.bare_times), time = median(operation.times), share = bare / time;
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    const bool counts = bytes >= target_from;
    if (counts) ++rows_with_target_;
    const bool is_below = counts && share < target_share;
    if (is_below) ++rows_below_;
    std::string way = operation.way;
    std::ranges::replace(way, ' ', '-');
    line(fmt::format("{:>11} {:<7} {:<7} {:<16} {:>11.2f} {:>9.2f} {:>11.2f} {:>9.2f} {:>6.2f}  {}{}", bytes,
                     pair.local_name, pair.window_name, operation.name, bare * 1e6, gigabytes / bare, time * 1e6,
                     gigabytes / time, share, way, is_below ? "  below-target" : ""));
  }
  void summary() {
    line(fmt::format("# target: {:.2f} of the bare copy from {} MiB: {} of {} rows are below it", target_share,
                     target_from >> 20, rows_below_, rows_with_target_));
  }

 private:
  std::vector<std::FILE*> outs_;
  int rows_below_ = 0, rows_with_target_ = 0;
};

void copy_any(void* to, const void* from, std::size_t bytes) {
  const auto status = hmc::memory::copy_between(to, from, bytes);
  HMC_CHECK_MSG(status.ok(), "{}", status.what);
}

/// A rank's summands are whole numbers, so that their sums are exact.
float summand(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 5) % 4093);
}

class Measurement {
 public:
  Measurement(TestRank& me, const Pair& pair, std::size_t bytes, BareCopy& bare, hmc::gpu::UserKernels* kernels)
      : me_(me),
        pair_(pair),
        bytes_(bytes),
        bare_(bare),
        kernels_(kernels),
        mixed_(me, pair.window, 2 * bytes),  // input and output of an allreduce
        source_(pair.local, bytes),
        sink_(pair.local, bytes),
        report_(0, 64, MemoryType::NVIDIA_GPU),
        sent_(made({0, bytes}, bytes)),
        got_(bytes) {
    add_verbs();
    if (local_is_device()) add_kernels();
    if (window_is_device()) add_allreduce("allreduce", source_.data(), sink_.data(), local_is_device());
    auto* const part = static_cast<std::byte*>(mixed_.buffer.ptr);
    if (local_is_device()) add_allreduce("allreduce-window", part, part + bytes, window_is_device());
  }

  /// Runs and verifies every operation once, then measures all of them in alternation.
  void run(int rounds, Table& table) {
    for (Operation& each : operations_) verify(each);
    for (int round = 0; round <= rounds; ++round) {  // round 0 warms up
      for (Operation& each : operations_) {
        const bool bare_first = round % 2 == 1;
        double bare = 0;
        if (me_.rank == 0 && bare_first) bare = seconds_of(each.bare);
        if (each.is_collective) me_.runtime->world().barrier();
        if (me_.rank != 0 && !each.is_collective) continue;
        const double time = seconds_of(each.run);
        if (me_.rank != 0) continue;
        if (!bare_first) bare = seconds_of(each.bare);
        if (round == 0) continue;
        each.times.push_back(time);
        each.bare_times.push_back(bare);
      }
    }
    me_.runtime->world().barrier();
    if (me_.rank == 0)
      for (const Operation& each : operations_) table.row(pair_, bytes_, each);
    mixed_.window.close();
  }

 private:
  bool local_is_device() const { return pair_.local == Allocator::cuda; }
  bool window_is_device() const { return pair_.window.type == MemoryType::NVIDIA_GPU; }

  void verify(Operation& operation) {
    operation.clear();
    me_.runtime->world().barrier();
    if (me_.rank == 0 || operation.is_collective) operation.run();
    me_.runtime->world().barrier();
    operation.check();
    me_.runtime->world().barrier();
  }

  void clear(void* at) {
    std::ranges::fill(got_, std::byte{0xA5});
    copy_any(at, got_.data(), bytes_);
  }
  void check_bytes(const void* at, const std::string& name) {
    copy_any(got_.data(), at, bytes_);
    HMC_CHECK_MSG(got_ == sent_, "{} of {} bytes, {} to {}", name, bytes_, pair_.local_name, pair_.window_name);
  }

  /// Rank 1's part is the target of puts and the source of gets.
  void add_put(std::string name, std::string way, std::function<void()> run) {
    Operation put{std::move(name), std::move(way), false, std::move(run)};
    put.bare = [this] { bare_(mixed_.buffer.ptr, window_is_device(), source_.data(), local_is_device(), bytes_); };
    put.clear = [this] {
      if (me_.rank == 0) copy_any(source_.data(), sent_.data(), bytes_);
      if (me_.rank == 1) clear(mixed_.buffer.ptr);
    };
    put.check = [this, shown = put.name] {
      if (me_.rank == 1) check_bytes(mixed_.buffer.ptr, shown);
    };
    operations_.push_back(std::move(put));
  }
  void add_get(std::string name, std::string way, std::function<void()> run) {
    Operation get{std::move(name), std::move(way), false, std::move(run)};
    get.bare = [this] { bare_(sink_.data(), local_is_device(), mixed_.buffer.ptr, window_is_device(), bytes_); };
    get.clear = [this] {
      if (me_.rank == 0) clear(sink_.data());
      if (me_.rank == 1) copy_any(mixed_.buffer.ptr, sent_.data(), bytes_);
    };
    get.check = [this, shown = get.name] {
      if (me_.rank == 0) check_bytes(sink_.data(), shown);
    };
    operations_.push_back(std::move(get));
  }

  void add_verbs() {
    const std::string wire = mixed_.window.path(me_.next()).wire;
    add_put("put", wire, [this] {
      mixed_.window.put(me_.next(), 0, source_.data(), bytes_);
      mixed_.window.flush(me_.next());
    });
    add_get("get", wire, [this] { mixed_.window.get(me_.next(), 0, sink_.data(), bytes_); });
  }

  void add_kernels() {
    if (kernels_ == nullptr) return;
    // At least 16 bytes per thread. The fake driver starts a host thread for each.
    const bool on_host = hmc::gpu::driver_runs_host_kernels();
    const unsigned threads = on_host ? 4 : 1024;
    const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(bytes_ / 16 / threads, 1, on_host ? 2 : 528));
    handle_ = mixed_.window.device_handle(MemoryType::NVIDIA_GPU, 0);
    const auto launch = [this, blocks, threads](const char* name, void* local) {
      RingArguments call{};
      call.window = handle_;
      call.source = local;
      call.bytes = bytes_;
      call.report = static_cast<unsigned long long*>(report_.ptr);
      kernels_->run(name, call, blocks, threads);
    };
    const std::string way = fmt::format("kernel, {} blocks", blocks);
    add_put("kernel-put", way, [this, launch] { launch("hmc_test_put_grid", source_.data()); });
    add_get("kernel-get", way, [this, launch] { launch("hmc_test_get_grid", sink_.data()); });
    for (auto each = operations_.end() - 2; each != operations_.end(); ++each) {
      each->check = [this, check = each->check] {
        std::uint64_t failed = 1;
        HMC_CHECK_EQ(report_.readToCpu(&failed, sizeof failed), hmc::status_t::SUCCESS);
        HMC_CHECK_EQ(failed, 0U);
        check();
      };
    }
  }

  /// Over this rank's own buffers, or over its part of the window. The runtime's counters show whether devices reduced.
  void add_allreduce(std::string name, void* in, void* out, bool on_device) {
    const std::size_t count = bytes_ / sizeof(float);
    Operation sum{std::move(name), "", true};
    sum.run = [this, count, in, out] { me_.runtime->world().allreduce(in, out, count, hmc::DType::f32, hmc::sum); };
    sum.bare = [this, in, out, on_device] { bare_(out, on_device, in, on_device, bytes_); };
    sum.clear = [this, count, in, out] {
      std::vector<float> mine(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = summand(me_.rank, i);
      copy_any(in, mine.data(), bytes_);
      clear(out);
      reductions_before_ = me_.runtime->counters().reduced_on_device;
    };
    sum.check = [this, count, out, at = operations_.size()] {
      const bool by_device = me_.runtime->counters().reduced_on_device != reductions_before_;
      operations_[at].way = by_device ? "by the device" : "by the host";
      std::vector<float> sums(count);
      copy_any(sums.data(), out, bytes_);
      for (std::size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (int rank = 0; rank < me_.size; ++rank) expected += summand(rank, i);
        HMC_CHECK_MSG(sums[i] == expected, "element {} of {} is {} and not {}", i, count, sums[i], expected);
      }
    };
    operations_.push_back(std::move(sum));
  }

  TestRank& me_;
  const Pair& pair_;
  std::size_t bytes_;
  BareCopy& bare_;
  hmc::gpu::UserKernels* kernels_;
  Mixed mixed_;
  hmc::Buffer<std::byte> source_, sink_;
  hmc::ConnBuffer report_;  // zeroed; a kernel that fails writes to it
  std::vector<std::byte> sent_, got_;
  hmc::DeviceHandle handle_{};
  std::uint64_t reductions_before_ = 0;
  std::vector<Operation> operations_;
};

}  // namespace

HMC_SPMD_TEST(Gpu, bandwidth_of_verbs_kernels_and_allreduce_is_compared_with_driver_copies) {
  if (me.size != 2 || !me.options.processes) hmc::spmd::skip("for two processes");
  const hmc::memory::Provider& provider = hmc::memory::provider_for(MemoryType::NVIDIA_GPU);
  const std::size_t largest = std::stoull(me.options.setting("largest", "1073741824"));
  const int rounds = std::stoi(me.options.setting("rounds", "20"));
  Table table(me);
  const auto device = provider.devices().front();
  const auto library = provider.library();
  table.line(fmt::format("# {}, {} MiB, driver {} ({}); 2 ranks, medians of {} rounds, bare copy and HMC in turns",
                         device.name, device.bytes >> 20, library.version, library.path, rounds));
  table.line(fmt::format("#{:>10} {:<7} {:<7} {:<16} {:>11} {:>9} {:>11} {:>9} {:>6}  {}", "bytes", "local", "window",
                         "operation", "bare us", "GB/s", "hmc us", "GB/s", "share", "way"));
  BareCopy bare;
  std::unique_ptr<hmc::gpu::UserKernels> kernels;
  try {
    kernels = std::make_unique<hmc::gpu::UserKernels>(me, provider);
  } catch (const hmc::spmd::Skipped& reason) {
    table.line(fmt::format("# no kernel rows: {}", reason.what()));
  }
  for (const Pair& pair : pairs)
    for (std::size_t bytes = 4096; bytes <= largest; bytes *= 2)
      Measurement(me, pair, bytes, bare, kernels.get())
          .run(bytes < target_from ? rounds : std::max(rounds / 2, 3), table);
  table.summary();
}
