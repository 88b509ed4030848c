// hmcinfo explain: which algorithm a call would take, and why.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hmc::launcher {

struct Question {
  std::string collective;
  std::string bytes = "1M";  ///< of the vector, or of one rank's block; the defaults are hmc-sim's
  int ranks = 64;
  int per_node = 1;
  std::string type = "f32";
  std::string op = "sum";
  std::string parameters;    ///< a file; empty: this machine's, or what is built in
  bool one_machine = false;  ///< nodes are pretended
};

/// As the runtime would choose, with this environment's settings. Throws Error for what can't be asked.
nlohmann::ordered_json gather_explanation(const Question& question);
std::string explanation_as_text(const nlohmann::ordered_json& facts);

}  // namespace hmc::launcher
