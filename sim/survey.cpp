#include "sim/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::sim {

using collectives::AreaLimits;
using collectives::Evaluation;
using rules::LibraryCall;
using schedule::Algorithm;
using schedule::Call;
using schedule::Shape;

Call call_of(const LibraryCall& question, bool deterministic) {
  Call call;
  call.collective = question.collective;
  if (reduces(question.collective)) {
    const bool fours = question.bytes % 4 == 0;
    call.type = fours ? DType::f32 : DType::u8;
    call.element_bytes = fours ? 4 : 1;
    call.deterministic = deterministic;
  }
  call.count = question.bytes / call.element_bytes;
  return call;
}

bool Surveyor::wanted(std::string_view name) const {
  return names_.empty() || std::find(names_.begin(), names_.end(), name) != names_.end();
}

/// As in the library: a call that needs more scratch than one area is split into sequential pieces.
SurveyRow Surveyor::ours(const Evaluation& candidate, const LibraryCall& question, const AreaLimits& room) {
  Call call = call_of(question, deterministic_);
  const std::uint64_t pieces = candidate.pieces;
  call.count = (call.count + pieces - 1) / pieces;
  call.segment_bytes = collectives::segment_for(*candidate.algorithm, call, room);
  SurveyRow line = predict_one(*candidate.algorithm, question, call);
  line.pieces = pieces;
  if (candidate.why_not.empty() && !model_.tree.enabled) line.estimate_ns = candidate.cost.ns;
  if (!candidate.why_not.empty()) line.remark = fmt::format("not chosen: {}", candidate.why_not);
  if (!line.time || pieces == 1) return line;
  *line.time *= static_cast<Time>(pieces);
  line.network_messages *= pieces;
  line.network_bytes *= pieces;
  return line;
}

SurveyRow Surveyor::predict_one(const Algorithm& algorithm, const LibraryCall& question, Call call) {
  const Key key{question.collective, std::string(algorithm.name), call.count,
                call.element_bytes,  call.segment_bytes,          call.deterministic,
                question.shape.size, question.shape.per_node,     question.shape.shares_memory};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  SurveyRow line;
  line.name = std::string(algorithm.name);
  if (!algorithm.applies(question.shape, call)) {
    line.remark = "not for this call";
    return known_[key] = line;
  }
  const ScheduleSource build = [&](int rank, schedule::Schedule& out) {
    algorithm.build_into(question.shape, call, rank, out);
  };
  try {
    const Prediction prediction = predict(question.shape, build, model_, limits_);
    line.time = prediction.time;
    line.estimated = prediction.estimated;
    line.network_messages = prediction.network_messages;
    line.network_bytes = prediction.network_bytes;
  } catch (const TooLarge& error) {
    line.remark = error.what();
  } catch (const std::runtime_error& error) {
    line.remark = fmt::format("not replayed: {}", error.what());
  }
  return known_[key] = line;
}

SurveyRow Surveyor::library(const char* name, const rules::LibraryChoice& choice, const Shape& shape) {
  SurveyRow line;
  line.name = fmt::format("{}: {}", name, choice.theirs);
  line.similar = choice.similar;
  if (choice.phases.empty()) {
    line.remark = choice.theirs.starts_with("(") ? "" : "no similar schedule";
    return line;
  }
  Time sum = 0;
  for (const rules::ReplayPhase& phase : choice.phases) {
    LibraryCall part{phase.collective, phase.bytes, shape};
    if (phase.scope == rules::PhaseScope::node) part.shape = {shape.per_node, shape.per_node, true};
    if (phase.scope == rules::PhaseScope::leaders) part.shape = {shape.nodes(), 1};
    const char* const where = phase.scope == rules::PhaseScope::node      ? " on nodes"
                              : phase.scope == rules::PhaseScope::leaders ? " between nodes"
                                                                          : "";
    line.remark +=
        fmt::format("{}{} {}{}", line.remark.empty() ? "as " : ", ", name_of(phase.collective), phase.algorithm, where);
    const Algorithm* const algorithm = schedule::find(phase.collective, phase.algorithm);
    const SurveyRow done = algorithm == nullptr ? SurveyRow{} : predict_one(*algorithm, part, call_of(part));
    if (!done.time) {
      line.remark += fmt::format(" ({})", algorithm == nullptr ? "no such algorithm" : done.remark);
      return line;
    }
    sum += *done.time;
    line.estimated = line.estimated || done.estimated;
  }
  line.time = sum;
  return line;
}

Survey Surveyor::survey(const LibraryCall& question) {
  Survey survey;
  survey.question = question;
  const AreaLimits room = collectives::area_limits(question.shape.size);
  const Call call = call_of(question, deterministic_);
  const Algorithm* const chosen = selector_.choose(question.shape, call, question.bytes, room).algorithm;
  for (const Evaluation& each : selector_.evaluate_all(question.shape, call, question.bytes, room)) {
    if (!wanted(each.algorithm->name)) continue;
    survey.ours.push_back(ours(each, question, room));
    survey.ours.back().chosen = each.algorithm == chosen;
  }
  std::stable_sort(survey.ours.begin(), survey.ours.end(), [](const SurveyRow& a, const SurveyRow& b) {
    return a.time && b.time ? *a.time < *b.time : a.time.has_value() && !b.time.has_value();
  });
  survey.libraries.push_back(library("open mpi", rules::openmpi(question), question.shape));
  survey.libraries.push_back(library("mpich", rules::mpich(question), question.shape));
  return survey;
}

}  // namespace hmc::sim
