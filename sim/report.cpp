#include "sim/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

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
  const bool sized = q.collective != CollectiveKind::barrier;
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

namespace {

constexpr double left = 70, top = 40, width = 620, height = 400, legend = 230;
constexpr std::array colours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b",
                             "#e377c2", "#bcbd22", "#7f7f7f", "#003f5c", "#58508d", "#ffa600"};

struct Curve {
  std::string name;
  bool library = false;
  std::vector<std::pair<double, double>> points;  // x, microseconds
};

/// A logarithmic axis that maps to [0, 1].
struct Axis {
  double low = 1, high = 1;
  double at(double value) const { return high > low ? std::log(value / low) / std::log(high / low) : 0.5; }
};

Axis axis_of(const std::vector<Curve>& curves, bool vertical) {
  Axis axis{1e300, 0};
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      const double value = vertical ? y : x;
      axis.low = std::min(axis.low, value);
      axis.high = std::max(axis.high, value);
    }
  }
  if (!vertical || axis.high == 0) return axis;
  return {std::pow(10, std::floor(std::log10(axis.low))), std::pow(10, std::ceil(std::log10(axis.high)))};
}

bool over_ranks(const std::vector<Survey>& surveys) {
  return std::any_of(surveys.begin(), surveys.end(),
                     [&](const Survey& s) { return s.question.shape.size != surveys.front().question.shape.size; });
}

std::vector<Curve> curves_of(const std::vector<Survey>& surveys, bool ranks) {
  std::vector<Curve> curves;
  const auto add = [&](const std::string& name, bool library, const Survey& survey, const SurveyRow& line) {
    auto found = std::find_if(curves.begin(), curves.end(), [&](const Curve& c) { return c.name == name; });
    if (found == curves.end()) found = curves.insert(curves.end(), {name, library, {}});
    const double x = ranks ? survey.question.shape.size : static_cast<double>(survey.question.bytes);
    if (line.time && *line.time > 0 && x > 0) found->points.emplace_back(x, to_us(*line.time));
  };
  for (const Survey& survey : surveys) {
    for (const SurveyRow& line : survey.ours) add(line.name, false, survey, line);
    // A library's curve continues when its algorithm changes.
    for (const SurveyRow& line : survey.libraries) add(line.name.substr(0, line.name.find(':')), true, survey, line);
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  std::sort(curves.begin(), curves.end(),
            [](const Curve& a, const Curve& b) { return a.library != b.library ? b.library : a.name < b.name; });
  return curves;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string grid(const std::vector<Survey>& surveys, bool ranks, const Axis& across, const Axis& up) {
  std::string svg;
  double last = -1;
  for (const Survey& survey : surveys) {
    const double value = ranks ? survey.question.shape.size : static_cast<double>(survey.question.bytes);
    if (value <= 0 || value == last) continue;
    last = value;
    const double x = left + width * across.at(value);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, top, top + height);
    svg += text_at(x, top + height + 18, "middle", format_bytes(static_cast<std::uint64_t>(value)));
  }
  for (double value = up.low; value <= up.high * 1.001; value *= 10) {
    const double y = top + height * (1 - up.at(value));
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left, y, left + width);
    svg += text_at(left - 8, y + 4, "end", fmt::format("{:g}", value));
  }
  return svg;
}

std::string drawn(const Curve& curve, std::size_t number, const Axis& across, const Axis& up) {
  const char* const colour = curve.library ? "#000" : colours[number % colours.size()];
  const char* const dash = !curve.library ? "" : curve.name == "mpich" ? "2 4" : "8 4";
  std::string path;
  for (const auto& [x, y] : curve.points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", left + width * across.at(x),
                        top + height * (1 - up.at(y)));
  const double y = top + 10 + 20 * static_cast<double>(number);
  const double x = left + width + 20;
  return fmt::format("<path class=\"curve\" stroke=\"{}\" stroke-dasharray=\"{}\" d=\"{}\"/>\n", colour, dash, path) +
         fmt::format("<path class=\"curve\" stroke=\"{}\" stroke-dasharray=\"{}\" d=\"M{:.1f} {:.1f}h24\"/>\n", colour,
                     dash, x, y) +
         text_at(x + 30, y + 4, "start", curve.name);
}

}  // namespace

std::string as_svg(const std::vector<Survey>& surveys) {
  const bool ranks = over_ranks(surveys);
  const std::vector<Curve> curves = curves_of(surveys, ranks);
  const Axis across = axis_of(curves, false), up = axis_of(curves, true);
  const double tall = std::max(top + height + 50, top + 30 + 20 * static_cast<double>(curves.size()));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>text{{font:12px sans-serif}} .grid{{stroke:#ddd}} .curve{{fill:none;stroke-width:2}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      left + width + legend, tall);
  if (surveys.empty() || curves.empty()) return svg + "</svg>\n";
  const rules::LibraryCall& q = surveys.front().question;
  svg += text_at(left, 22, "start",
                 ranks ? fmt::format("{}{}, {} per node: predicted microseconds over ranks", name_of(q.collective),
                                     q.bytes > 0 ? " of " + format_bytes(q.bytes) : "", q.shape.per_node)
                       : fmt::format("{} on {} ranks, {} per node: predicted microseconds over bytes",
                                     name_of(q.collective), q.shape.size, q.shape.per_node));
  svg += grid(surveys, ranks, across, up);
  for (std::size_t i = 0; i < curves.size(); ++i) svg += drawn(curves[i], i, across, up);
  return svg + "</svg>\n";
}

}  // namespace hmc::sim
