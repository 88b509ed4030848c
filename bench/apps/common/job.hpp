// The command line of the programs: words "program/mode:size", and the options of bench/compare.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "bench/kit/setup.hpp"

namespace apps {

struct Job {
  std::string program, mode;
  int size;
};

struct Arguments {
  bench::Setup setup;
  bool verify_only = false;  ///< --verify: no measurement
  std::vector<Job> jobs;
};

inline Job job_of(const std::string& word) {
  const std::size_t slash = word.find('/'), colon = word.find(':');
  if (slash == std::string::npos || colon == std::string::npos || colon < slash)
    throw std::invalid_argument("'" + word + "' isn't program/mode:size");
  Job job{word.substr(0, slash), word.substr(slash + 1, colon - slash - 1), std::stoi(word.substr(colon + 1))};
  if (job.size <= 0) throw std::invalid_argument("'" + word + "': the size must be positive");
  return job;
}

inline Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  std::vector<char*> options{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--verify")
      arguments.verify_only = true;
    else if (word.rfind("--", 0) == 0)
      options.push_back(argv[i]);
    else
      arguments.jobs.push_back(job_of(word));
  }
  arguments.setup = bench::setup_of(static_cast<int>(options.size()), options.data());
  return arguments;
}

}  // namespace apps
