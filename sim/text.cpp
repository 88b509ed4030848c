#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/survey.hpp"

namespace hmc::sim {

namespace {

using Json = nlohmann::ordered_json;

std::string row(const SurveyRow& line, Time best) {
  const std::string time = line.time ? fmt::format("{}{}", line.estimated ? "~" : "", format_time(*line.time)) : "-";
  const std::string ratio =
      line.time && best > 0 ? fmt::format("{:.2f}", static_cast<double>(*line.time) / static_cast<double>(best)) : "";
  const std::string remark = line.similar && line.time ? line.remark + " (similar)" : line.remark;
  const std::string estimate = line.estimate_ns ? fmt::format("{:.1f} us", *line.estimate_ns / 1000) : "";
  const std::string pieces = line.pieces > 1 ? fmt::format("{}", line.pieces) : "";
  std::string text = fmt::format("{} {:<42} {:>11} {:>8} {:>13} {:>7}  {}", line.chosen ? '*' : ' ', line.name, time,
                                 ratio, estimate, pieces, remark);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Json as_object(const SurveyRow& line) {
  Json json{{"name", line.name}, {"us", nullptr}, {"estimated", line.estimated}, {"similar", line.similar}};
  if (line.chosen) json["chosen"] = true;
  if (line.time) json["us"] = to_us(*line.time);
  if (line.estimate_ns) json["estimate_us"] = *line.estimate_ns / 1000;
  if (line.pieces > 1) json["pieces"] = line.pieces;
  if (!line.remark.empty()) json["remark"] = line.remark;
  if (line.network_messages > 0) json["network_messages"] = line.network_messages;
  if (line.network_bytes > 0) json["network_bytes"] = line.network_bytes;
  return json;
}

Json as_object(const LinkTiming& link) {
  return {{"L_ns", static_cast<double>(link.latency) / 1000},
          {"o_ns", static_cast<double>(link.overhead) / 1000},
          {"g_ns", static_cast<double>(link.gap) / 1000},
          {"G_ns_per_byte", link.per_byte_ps / 1000}};
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  for (const auto& [unit, shift] : {std::pair{"G", 30}, {"M", 20}, {"K", 10}})
    if (bytes >= std::uint64_t{1} << shift && bytes % (std::uint64_t{1} << shift) == 0)
      return fmt::format("{}{}", bytes >> shift, unit);
  return fmt::format("{}", bytes);
}

std::string format_time(Time time) {
  const double us = to_us(time);
  if (us < 1000) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

std::string text_of(const Survey& survey) {
  const rules::LibraryCall& q = survey.question;
  const bool sized = q.collective != schedule::Collective::barrier;
  std::string text = fmt::format("{}{}{} on {} ranks, {} per node\n", name_of(q.collective), sized ? " of " : "",
                                 sized ? format_bytes(q.bytes) : "", q.shape.size, q.shape.per_node);
  text += fmt::format("  {:<42} {:>11} {:>8} {:>13} {:>7}\n", "algorithm", "replayed", "/ best", "estimate", "pieces");
  const Time best = survey.ours.empty() ? 0 : survey.ours.front().time.value_or(0);
  bool estimated = false;
  for (const auto* lines : {&survey.ours, &survey.libraries}) {
    for (const SurveyRow& line : *lines) {
      text += row(line, best);
      estimated = estimated || line.estimated;
    }
  }
  if (estimated) text += "  ~ from a replay of one node's ranks\n";
  return text;
}

std::string as_json(const std::vector<Survey>& surveys, const Model& model, const std::string& origin) {
  Json json{{"parameters", origin}, {"node", as_object(model.node)}, {"network", as_object(model.network)}};
  json["copy_ns_per_byte"] = model.copy_ps / 1000;
  json["reduce_ns_per_byte"] = model.reduce_ps / 1000;
  if (model.tree.enabled) {
    json["tree"] = {{"leaf_nodes", model.tree.leaf_nodes},
                    {"oversubscription", model.tree.oversubscription},
                    {"hop_ns", static_cast<double>(model.tree.hop) / 1000}};
  }
  json["surveys"] = Json::array();
  for (const Survey& survey : surveys) {
    Json each{{"collective", name_of(survey.question.collective)},
              {"bytes", survey.question.bytes},
              {"ranks", survey.question.shape.size},
              {"per_node", survey.question.shape.per_node}};
    for (const SurveyRow& line : survey.ours) each["algorithms"].push_back(as_object(line));
    for (const SurveyRow& line : survey.libraries) each["libraries"].push_back(as_object(line));
    json["surveys"].push_back(each);
  }
  return json.dump(2) + "\n";
}

}  // namespace hmc::sim
