// The command line of the programs that a driver compares with others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/kit/exchange.hpp"
#include "bench/kit/ranks.hpp"

namespace bench {

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
  std::size_t source_bytes(int of_ranks) const { return most(of_ranks, blocks_in); }
  std::size_t result_bytes(int of_ranks) const { return most(of_ranks, blocks_out); }
  /// Bytes that a put or get accesses at its target.
  std::size_t target_bytes() const { return most(1, blocks_in); }

 private:
  std::size_t most(int of_ranks, std::size_t (*blocks)(Operation, std::size_t)) const {
    const auto all = static_cast<std::size_t>(of_ranks);
    std::size_t bytes = std::max<std::size_t>(4096, all * 64);
    for (const Cell& cell : cells) bytes = std::max(bytes, cell.bytes * blocks(cell.operation, all));
    return bytes;
  }
};

namespace detail {

inline Cell cell_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  for (std::size_t i = 0; i < operation_names.size(); ++i) {
    if (word.substr(0, colon) != operation_names[i]) continue;
    const std::size_t bytes = colon == std::string::npos ? 0 : std::stoull(word.substr(colon + 1));
    if (bytes % 4 != 0) break;  // reductions are of 4-byte elements
    return {static_cast<Operation>(i), bytes};
  }
  throw std::invalid_argument("no such cell: " + word);
}

/// An option's value, by the type of its member; a list is "0,2,4".
template <typename T> std::function<void(const std::string&)> into(T& member) {
  return [&member](const std::string& value) {
    if constexpr (std::is_same_v<T, bool>) {
      member = true;
    } else if constexpr (std::is_same_v<T, int>) {
      member = std::stoi(value);
    } else if constexpr (std::is_same_v<T, double>) {
      member = std::stod(value);
    } else if constexpr (std::is_same_v<T, std::vector<int>>) {
      for (std::size_t at = 0; at < value.size();) {
        const std::size_t comma = std::min(value.find(',', at), value.size());
        member.push_back(std::stoi(value.substr(at, comma - at)));
        at = comma + 1;
      }
    } else {
      member = value;
    }
  };
}

}  // namespace detail

/// Options are --name=value; every other word is a cell: "barrier", "put:8", "allreduce:65536".
inline Setup setup_of(int argc, char** argv) {
  using detail::into;
  Setup setup;
  const std::map<std::string, std::function<void(const std::string&)>> options = {
      {"--name", into(setup.name)},
      {"--np", into(setup.ranks)},
      {"--window", into(setup.window_buffers)},
      {"--own-target", into(setup.own_target)},
      {"--cpus", into(setup.cpus)},
      {"--rank", into(setup.rank)},
      {"--hello", into(setup.hello)},
      {"--stream", into(setup.stream)},
      {"--overlap", into(setup.overlap)},
      {"--sleep-s", into(setup.sleep_seconds)},
      {"--late-binding", into(setup.late_binding)},
      {"--output", into(setup.output)},
      {"--scratch", into(setup.scratch)},
      {"--cell-s", into(setup.cell_seconds)},
      {"--limit-s", into(setup.limit_seconds)}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (const auto option = options.find(word.substr(0, equals)); option != options.end())
      option->second(equals == std::string::npos ? "" : word.substr(equals + 1));
    else
      setup.cells.push_back(detail::cell_of(word));
  }
  return setup;
}

/// Binds a rank that a launcher has started. Call it before the library starts, so that the library's threads and
/// memory follow the binding.
inline void bind_launched(const Setup& setup) {
  if (setup.cpus.empty() || setup.late_binding) return;
  for (const char* const name : {"HMC_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name); rank != nullptr) return bind_rank(setup.cpus, std::atoi(rank));
  }
  throw std::runtime_error("no launcher has set this process's rank");
}

}  // namespace bench
