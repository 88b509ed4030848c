// Checks of the measurement loop: a contestant with a wrong result gets no measurement for it.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/compare/loop.hpp"

namespace {

using bench::Operation;

enum class Fault {
  none,
  lost_put,
  old_get,
  shifted_broadcast,
  one_sum_off,
  late_sum_off,
  swapped_gather,
  shifted_sum,
  stale_sum,
  open_barrier,
  gather_loses_a_block,
  scatter_gives_the_first_to_all,
  alltoall_is_allgather,
  reduce_forgets_a_rank,
  reduce_scatter_gives_the_first_to_all,
  scan_counts_all,
  exscan_counts_itself
};

constexpr int ranks = 2;

// Two threads with at most one injected fault.
struct Shared {
  explicit Shared(Fault planted) : fault(planted) {}
  Fault fault;
  std::barrier<> meeting{ranks};
  std::vector<std::byte> memory[ranks][3];
};

class Threads {
 public:
  Threads(Shared& shared, int rank, const bench::Setup& setup) : shared_(shared), rank_(rank) {
    for (auto& memory : shared_.memory[rank])
      memory.resize(std::max(setup.result_bytes(ranks), setup.source_bytes(ranks)));
    meet();
  }
  int rank() const { return rank_; }
  int size() const { return ranks; }
  std::string version() const { return "threads \"1\""; }
  std::string settings() const { return "none"; }
  std::string lacks(Operation operation) const {
    return operation == Operation::get && has(Fault::lost_put) ? "none" : "";
  }
  std::byte* source() { return of(rank_, 0); }
  std::byte* result() { return of(rank_, 1); }
  std::byte* target() { return of(rank_, 2); }

  void put(int peer, std::size_t bytes) {
    if (!has(Fault::lost_put)) std::memcpy(of(peer, 2), source(), bytes);
  }
  void get(int peer, std::size_t bytes) {
    ++gets_;
    if (!has(Fault::old_get) || gets_ < 2) std::memcpy(result(), of(peer, 2), bytes);
  }
  void barrier() {
    // The loop's own synchronization stays intact; only the measured barrier is broken.
    if (!has(Fault::open_barrier)) meet();
  }
  void broadcast(std::size_t bytes) {
    meet();
    const std::size_t shift = has(Fault::shifted_broadcast) && bytes > 8 ? 4 : 0;
    if (rank_ != 0) std::memcpy(source(), of(0, 0) + shift, bytes);
    meet();
  }
  void allgather(std::size_t bytes) {
    meet();
    for (int r = 0; r < ranks; ++r) {
      const int from = has(Fault::swapped_gather) && bytes > 24 ? ranks - 1 - r : r;
      std::memcpy(result() + static_cast<std::size_t>(r) * bytes, of(from, 0), bytes);
    }
    meet();
  }
  void allreduce(std::size_t bytes) {
    ++sums_;
    meet();
    const auto* const a = reinterpret_cast<const float*>(of(0, 0));
    const auto* const b = reinterpret_cast<const float*>(of(1, 0));
    auto* const out = reinterpret_cast<float*>(result());
    for (std::size_t i = 0; i < bytes / 4; ++i) out[i] = a[i] + b[i];
    if (has(Fault::shifted_sum)) {
      constexpr std::size_t page = 4096 / 4;
      for (std::size_t i = 0; i < bytes / 4; ++i) out[i] = a[(i + page) % (bytes / 4)] + b[(i + page) % (bytes / 4)];
    }
    if (has(Fault::stale_sum)) write_old_sums(out, bytes / 4);
    const bool off = has(Fault::one_sum_off) || (has(Fault::late_sum_off) && sums_ > 3);
    if (off && rank_ == 1) out[bytes / 4 - 1] += 1;
    meet();
  }
  void gather(std::size_t bytes) {
    meet();
    for (int r = 0; r < (has(Fault::gather_loses_a_block) ? 1 : ranks) && rank_ == 0; ++r)
      std::memcpy(result() + block(r, bytes), of(r, 0), bytes);
    meet();
  }
  void scatter(std::size_t bytes) {
    meet();
    const int part = has(Fault::scatter_gives_the_first_to_all) ? 0 : rank_;
    std::memcpy(result(), of(0, 0) + block(part, bytes), bytes);
    meet();
  }
  void alltoall(std::size_t bytes) {
    meet();
    const int part = has(Fault::alltoall_is_allgather) ? 0 : rank_;
    for (int r = 0; r < ranks; ++r) std::memcpy(result() + block(r, bytes), of(r, 0) + block(part, bytes), bytes);
    meet();
  }
  void reduce(std::size_t bytes) {
    meet();
    if (rank_ == 0) sum(has(Fault::reduce_forgets_a_rank) ? 1 : ranks, 0, bytes);
    meet();
  }
  void reduce_scatter(std::size_t bytes) {
    meet();
    sum(ranks, has(Fault::reduce_scatter_gives_the_first_to_all) ? 0 : block(rank_, bytes), bytes);
    meet();
  }
  void scan(std::size_t bytes) {
    meet();
    sum(has(Fault::scan_counts_all) ? ranks : rank_ + 1, 0, bytes);
    meet();
  }
  void exscan(std::size_t bytes) {
    meet();
    if (rank_ > 0) sum(has(Fault::exscan_counts_itself) ? rank_ + 1 : rank_, 0, bytes);
    meet();
  }
  void allgatherv(std::size_t bytes) { allgather(bytes); }
  void alltoallv(std::size_t bytes) { alltoall(bytes); }
  void expose() {}
  void close() {}

 private:
  static std::size_t block(int index, std::size_t bytes) { return static_cast<std::size_t>(index) * bytes; }
  void sum(int end, std::size_t offset, std::size_t bytes) {
    auto* const out = reinterpret_cast<float*>(result());
    for (std::size_t i = 0; i < bytes / 4; ++i) {
      out[i] = 0;
      for (int r = 0; r < end; ++r) out[i] += reinterpret_cast<const float*>(of(r, 0) + offset)[i];
    }
  }
  // Sums that were correct 64 calls ago. With one cell of sums, the stamp is the call number.
  void write_old_sums(float* out, std::size_t count) const {
    std::vector<float> one(count);
    std::fill_n(out, count, 0.0F);
    for (int r = 0; r < ranks; ++r) {
      bench::sum_of_ranks(r, r + 1).write(one.data(), count * sizeof(float), sums_ - 64);
      for (std::size_t i = 0; i < count; ++i) out[i] += one[i];
    }
  }
  bool has(Fault fault) const { return shared_.fault == fault; }
  std::byte* of(int rank, std::size_t which) { return shared_.memory[rank][which].data(); }
  void meet() { shared_.meeting.arrive_and_wait(); }

  Shared& shared_;
  int rank_;
  int gets_ = 0;
  int sums_ = 0;
};

std::string lines_of(Fault fault, const std::string& cells, double limit_seconds = 60) {
  std::string path = testing::TempDir() + "compare_loop_XXXXXX";
  if (const int file = mkstemp(path.data()); file >= 0) ::close(file);
  std::vector<std::string> words = {"program", "--name=it", "--output=" + path, "--cell-s=0.001",
                                    "--limit-s=" + std::to_string(limit_seconds)};
  std::istringstream split(cells);
  for (std::string cell; split >> cell;) words.push_back(cell);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const bench::Setup setup = bench::setup_of(static_cast<int>(argv.size()), argv.data());

  Shared shared(fault);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&shared, &setup, rank] {
      Threads contestant(shared, rank, setup);
      bench::run_rank(contestant, setup);
    });
  }
  threads.clear();
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::remove(path.c_str());
  return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Loop, every_cell_has_a_figure) {
  const std::string text = lines_of(Fault::none,
                                    "put:8 get:4096 barrier broadcast:64 allgather:64 allreduce:4096 gather:64 "
                                    "scatter:64 alltoall:64 reduce:64 reduce_scatter:64 scan:64 exscan:64 "
                                    "allgatherv:64 alltoallv:64");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 16) << text;
  for (const auto name : bench::operation_names)
    EXPECT_TRUE(has(text, std::string("\"").append(name).append("\""))) << text;
  EXPECT_TRUE(has(text, "\"us_p50\"")) << text;
  EXPECT_FALSE(has(text, "\"error\"")) << text;
}

TEST(Loop, contestant_texts_are_quoted) { EXPECT_TRUE(has(lines_of(Fault::none, ""), R"("threads \"1\"")")); }

struct Planted {
  const char* name;
  Fault fault;
  const char* cell;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class LoopMistake : public testing::TestWithParam<Planted> {};

TEST_P(LoopMistake, wrong_contestant_has_no_figure) {
  const std::string text = lines_of(GetParam().fault, GetParam().cell);
  EXPECT_TRUE(has(text, "\"error\"")) << text;
  EXPECT_FALSE(has(text, "\"us_mean\"")) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Loop, LoopMistake,
    testing::Values(Planted{"LostPut", Fault::lost_put, "put:64"}, Planted{"OldGet", Fault::old_get, "get:64"},
                    Planted{"ShiftedBroadcast", Fault::shifted_broadcast, "broadcast:64"},
                    Planted{"OneSumOff", Fault::one_sum_off, "allreduce:64"},
                    Planted{"LateSumOff", Fault::late_sum_off, "allreduce:64"},
                    Planted{"ShiftedSum", Fault::shifted_sum, "allreduce:16384"},
                    Planted{"StaleSum", Fault::stale_sum, "allreduce:64"},
                    Planted{"SwappedGather", Fault::swapped_gather, "allgather:64"},
                    Planted{"Gather", Fault::gather_loses_a_block, "gather:64"},
                    Planted{"Scatter", Fault::scatter_gives_the_first_to_all, "scatter:64"},
                    Planted{"Alltoall", Fault::alltoall_is_allgather, "alltoall:64"},
                    Planted{"Allgatherv", Fault::swapped_gather, "allgatherv:64"},
                    Planted{"Alltoallv", Fault::alltoall_is_allgather, "alltoallv:64"},
                    Planted{"Reduce", Fault::reduce_forgets_a_rank, "reduce:64"},
                    Planted{"ReduceScatter", Fault::reduce_scatter_gives_the_first_to_all, "reduce_scatter:64"},
                    Planted{"Scan", Fault::scan_counts_all, "scan:64"},
                    Planted{"Exscan", Fault::exscan_counts_itself, "exscan:64"},
                    Planted{"OpenBarrier", Fault::open_barrier, "barrier"}),
    [](const auto& planted) { return std::string(planted.param.name); });
TEST(Loop, missing_operation_is_reported) {
  EXPECT_TRUE(has(lines_of(Fault::lost_put, "get:8"), R"("op": "get", "bytes": 8, "lacks": "none")"));
}

// Otherwise the last cells would always be the missing ones.
TEST(Loop, each_cell_has_one_pass_after_the_time_limit) {
  std::istringstream text(lines_of(Fault::none, "put:8 barrier allreduce:64", 0));
  std::string line;
  std::getline(text, line);  // the contestant's header line
  for (const std::string name : {"put", "barrier", "allreduce"}) {
    std::getline(text, line);
    EXPECT_TRUE(has(line, "\"" + name + "\"") && has(line, "\"us_mean\"")) << line;
    EXPECT_TRUE(has(line, R"("calls": 1, "batch": 1, "hurried": 1)")) << line;
  }
}

TEST(Loop, call_and_read_are_timed_separately_and_together) {
  const std::string text = lines_of(Fault::none, "allreduce:1048576");
  const auto value = [&](const std::string& key) {
    const std::size_t at = text.find("\"" + key + "\": ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + key.size() + 4);
  };
  EXPECT_GT(value("us_read"), 0) << text;
  EXPECT_GT(value("us_both_p50"), value("us_p50")) << text;
  EXPECT_NEAR(value("us_both_mean"), value("us_mean") + value("us_read"), 0.001) << text;
}

// A put's target reads the result, and its time counts.
TEST(Loop, put_result_is_read_at_the_target) {
  const std::string text = lines_of(Fault::none, "put:1048576");
  EXPECT_FALSE(has(text, "\"us_read\": 0.0000")) << text;
}

TEST(Pattern, pattern_of_each_rank_is_different) {
  std::vector<float> sums(256), one(256);
  for (const int rank : {0, 1, 2}) {
    const int given = rank == 0 ? 2 : rank;  // rank 2 twice, rank 0 missing
    bench::sum_of_ranks(given, given + 1).write(one.data(), 1024, 5);
    for (std::size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
  }
  EXPECT_FALSE(bench::sum_of_ranks(0, 3).matches(sums.data(), 1024, 5));
}

TEST(Setup, cpu_list_is_parsed) {
  std::string program = "program", cpus = "--cpus=0,12,4";
  char* argv[] = {program.data(), cpus.data()};
  EXPECT_EQ(bench::setup_of(2, argv).cpus, (std::vector<int>{0, 12, 4}));
}

TEST(Setup, unknown_option_is_rejected) {
  std::string program = "program";
  for (std::string word : {"sort:8", "put:7", "--nothing"}) {
    char* argv[] = {program.data(), word.data()};
    EXPECT_THROW(bench::setup_of(2, argv), std::invalid_argument) << word;
  }
}

}  // namespace
