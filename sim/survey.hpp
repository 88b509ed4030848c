// Predictions for one call: every algorithm of HMC, and the choices of other libraries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/select/selector.hpp"
#include "sim/replay.hpp"
#include "sim/rules/rules.hpp"

namespace hmc::sim {

struct SurveyRow {
  std::string name;
  std::optional<Time> time;           ///< of the replay; pieces are replayed one after the other
  std::optional<double> estimate_ns;  ///< the closed-form cost used by algorithm selection
  std::uint64_t pieces = 1;
  bool chosen = false;     ///< by the library: the lowest estimate
  bool estimated = false;  ///< from one node's ranks
  bool similar = false;    ///< another library's algorithm, replayed as a similar one of HMC
  std::string remark;      ///< the reason for a missing time, or the replayed schedule
  std::uint64_t network_messages = 0;
  std::uint64_t network_bytes = 0;
};

struct Survey {
  rules::LibraryCall question;
  std::vector<SurveyRow> ours;       ///< fastest first, then those without a time
  std::vector<SurveyRow> libraries;  ///< "open mpi", "mpich"
};

class Surveyor {
 public:
  /// `names` empty: all that apply. `selector`: the library's; its parameters are the model's, without its tree.
  /// `deterministic`: as HMC_DETERMINISTIC, for HMC's own calls.
  Surveyor(const Model& model, collectives::Selector selector, bool deterministic, const ReplayLimits& limits,
           std::vector<std::string> names)
      : model_(model),
        selector_(std::move(selector)),
        deterministic_(deterministic),
        limits_(limits),
        names_(std::move(names)) {}

  Survey survey(const rules::LibraryCall& question);

 private:
  using Key =
      std::tuple<CollectiveKind, std::string, std::uint64_t, std::uint32_t, std::uint64_t, bool, int, int, bool>;
  SurveyRow ours(const collectives::Evaluation& candidate, const rules::LibraryCall& question,
                 const collectives::AreaLimits& room);
  SurveyRow predict_one(const schedule::Algorithm& algorithm, const rules::LibraryCall& question, schedule::Call call);
  SurveyRow library(const char* name, const rules::LibraryChoice& choice, const schedule::Shape& shape);
  bool wanted(std::string_view name) const;

  Model model_;
  collectives::Selector selector_;
  bool deterministic_;
  ReplayLimits limits_;
  std::vector<std::string> names_;
  std::map<Key, SurveyRow> known_;
};

/// Converts a question to a call on bytes. Reductions use 4-byte elements if the size is a multiple of 4.
schedule::Call call_of(const rules::LibraryCall& question, bool deterministic = false);

}  // namespace hmc::sim
