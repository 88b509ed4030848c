// Rows of the table: bare forms and HMC's, measured in turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/floor/bare.hpp"
#include "bench/floor/limit.hpp"

namespace hmc::floor {

/// Performs an operation `times` times. Called on every rank with the same number.
using Loop = std::function<void(int times)>;

struct Contestant {
  std::string name;
  Loop loop;
};

struct Row {
  std::string name;
  std::vector<Contestant> bare;  ///< the best of them counts
  Loop hmc;
  int times = 1;  ///< per round
  Limit limit;
  Loop before = {};  ///< untimed, before each timed call (then a round times single calls)
};

struct Settings {
  int rounds = 51;
  bool all = false;  ///< also print every bare contestant
};

/// Measures the rows, prints them (rank 0), and returns the number of rows that miss their limit.
int measure(Bare& bare, const std::vector<Row>& rows, const Settings& settings);

}  // namespace hmc::floor
