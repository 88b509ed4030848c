// hmcinfo explain: the algorithm that a call would use, and the reason.
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
  std::string parameters;    ///< a file of model parameters; empty: this machine's, or the built-in ones
  bool one_machine = false;  ///< the nodes are emulated on one machine
};

/// Returns the choice of the runtime with the settings of this environment. Throws Error for an invalid question.
nlohmann::ordered_json gather_explanation(const Question& question);
std::string explanation_as_text(const nlohmann::ordered_json& facts);

}  // namespace hmc::launcher
