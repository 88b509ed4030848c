// Every program: its command line and its body. One executable, hmc_osu, contains them all.
#pragma once

#include <functional>
#include <vector>

#include "bench/osu/kit/session.hpp"

namespace bench {

struct Program {
  Spec spec;
  std::function<void(Session&)> body;
};

std::vector<Program> collectives();  // blocking, and hmc_i... non-blocking
std::vector<Program> transfers();    // put, get, signals, messages, accumulate
std::vector<Program> atomics();

}  // namespace bench
