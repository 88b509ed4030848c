// A contestant's command line, as given by the driver, and the binding of its ranks to the driver's CPUs.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

enum class Operation {
  put,
  get,
  barrier,
  broadcast,
  allgather,
  allreduce,
  gather,
  scatter,
  alltoall,
  reduce,
  reduce_scatter,
  scan,
  exscan,
  allgatherv,  // with even counts, as OSU's
  alltoallv
};

inline constexpr std::array<std::string_view, 15> operation_names = {
    "put",      "get",    "barrier",        "broadcast", "allgather", "allreduce",  "gather",   "scatter",
    "alltoall", "reduce", "reduce_scatter", "scan",      "exscan",    "allgatherv", "alltoallv"};

inline std::string_view name_of(Operation operation) { return operation_names[static_cast<std::size_t>(operation)]; }

/// The number of blocks in a rank's input or result: one, or one for each rank.
inline bool has_block_per_rank_in(Operation operation) {
  return operation == Operation::scatter || operation == Operation::alltoall || operation == Operation::alltoallv ||
         operation == Operation::reduce_scatter;
}
inline bool has_block_per_rank_out(Operation operation) {
  return operation == Operation::allgather || operation == Operation::allgatherv || operation == Operation::gather ||
         operation == Operation::alltoall || operation == Operation::alltoallv;
}

/// One measurement. `bytes` is the size of a block, as in MPI: an allgather's result and a scatter's input have np
/// times as much. The root is rank 0.
struct Cell {
  Operation operation;
  std::size_t bytes;
};

struct Setup {
  std::string name = "contestant";  ///< the driver's name for it, printed in every line
  int ranks = 0;                    ///< for programs that start their own ranks; others ask their launcher
  bool window_buffers = false;      ///< collectives on registered memory rather than malloc's
  bool own_target = false;          ///< an MPI window over the program's memory, not over memory that MPI allocates
  std::vector<int> cpus;            ///< rank r runs on entry r modulo their number; empty: no rank is bound
  int rank = -1;                    ///< of a program that --hello has executed again; -1 in the program that starts it
  bool hello = false;               ///< join, one barrier, leave
  bool stream = false;              ///< calls one after the other, without a barrier between them
  bool overlap = false;             ///< the non-blocking form beside computation
  double sleep_seconds = 0;         ///< with overlap: not computation but a sleep, so that the rank's core is free
  bool late_binding = false;        ///< `cpus` apply only after the library has started
  std::string output;               ///< the file of rank 0's lines
  std::string scratch;              ///< a folder that the driver removes
  double cell_seconds = 0.2;        ///< approximate time limit of a cell
  double limit_seconds = 600;       ///< cells that would begin later are reported as skipped
  std::vector<Cell> cells;

  /// Capacity of the buffers for all cells on `ranks` ranks. Never 0: ranks also agree through them.
  std::size_t source_bytes(int of_ranks) const { return most(of_ranks, has_block_per_rank_in); }
  std::size_t result_bytes(int of_ranks) const { return most(of_ranks, has_block_per_rank_out); }
  /// Bytes that a put or get accesses at its target.
  std::size_t target_bytes() const {
    return most(1, [](Operation) { return false; });
  }

 private:
  template <typename HasBlocks> std::size_t most(int of_ranks, HasBlocks has_blocks) const {
    const auto ranks = static_cast<std::size_t>(of_ranks);
    std::size_t bytes = std::max<std::size_t>(4096, ranks * 64);
    for (const Cell& cell : cells) bytes = std::max(bytes, cell.bytes * (has_blocks(cell.operation) ? ranks : 1));
    return bytes;
  }
};

namespace detail {

inline Cell cell_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  for (std::size_t i = 0; i < operation_names.size(); ++i) {
    if (word.substr(0, colon) != operation_names[i]) continue;
    const std::size_t bytes = colon == std::string::npos ? 0 : std::stoull(word.substr(colon + 1));
    if (bytes % 4 != 0) break;  // patterns are made of 4-byte words
    return {static_cast<Operation>(i), bytes};
  }
  throw std::invalid_argument("no such cell: " + word);
}

// "0,2,4"
inline std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    numbers.push_back(std::stoi(list.substr(at, comma - at)));
    at = comma + 1;
  }
  return numbers;
}

}  // namespace detail

/// Options are --name=value; every other word is a cell: "barrier", "put:8", "allreduce:65536".
inline Setup setup_of(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (option == "--name")
      setup.name = value;
    else if (option == "--np")
      setup.ranks = std::stoi(value);
    else if (option == "--window")
      setup.window_buffers = true;
    else if (option == "--own-target")
      setup.own_target = true;
    else if (option == "--cpus")
      setup.cpus = detail::numbers_of(value);
    else if (option == "--rank")
      setup.rank = std::stoi(value);
    else if (option == "--hello")
      setup.hello = true;
    else if (option == "--stream")
      setup.stream = true;
    else if (option == "--overlap")
      setup.overlap = true;
    else if (option == "--sleep-s")
      setup.sleep_seconds = std::stod(value);
    else if (option == "--late-binding")
      setup.late_binding = true;
    else if (option == "--output")
      setup.output = value;
    else if (option == "--scratch")
      setup.scratch = value;
    else if (option == "--cell-s")
      setup.cell_seconds = std::stod(value);
    else if (option == "--limit-s")
      setup.limit_seconds = std::stod(value);
    else
      setup.cells.push_back(detail::cell_of(word));
  }
  return setup;
}

/// Binds this process to CPU `rank` of `setup.cpus`, modulo their number. Without CPUs it stays unbound.
inline void bind_rank(const Setup& setup, int rank) {
  if (setup.cpus.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  const int cpu = setup.cpus[static_cast<std::size_t>(rank) % setup.cpus.size()];
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) throw std::runtime_error("can't run on CPU " + std::to_string(cpu));
}

/// The same for a rank that a launcher has started. Call it before the library starts, so that the library's threads
/// and memory follow the binding.
inline void bind_launched(const Setup& setup) {
  if (setup.cpus.empty() || setup.late_binding) return;
  for (const char* const name : {"HMC_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name); rank != nullptr) return bind_rank(setup, std::atoi(rank));
  }
  throw std::runtime_error("no launcher has set this process's rank");
}

/// The number of cores for the ranks of this contestant.
inline int cores(const Setup& setup) {
  if (!setup.cpus.empty()) return static_cast<int>(setup.cpus.size());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_COUNT(&allowed);
}

}  // namespace compare
