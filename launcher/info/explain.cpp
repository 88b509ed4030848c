#include "launcher/info/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <hmc/error.hpp>

#include "collectives/select/parameters.hpp"
#include "collectives/select/selector.hpp"
#include "job/machine_model.hpp"
#include "runtime/base/env.hpp"

namespace hmc::launcher {

namespace {

using Json = nlohmann::ordered_json;
using collectives::Evaluation;
using collectives::Selector;
using collectives::schedule::Call;
using collectives::schedule::Shape;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(Code::invalid_argument, "explain", what, hint);
}

/// The enumerator with this name among the first `count`.
template <typename Enum> Enum named(const std::string& name, int count, const char* what) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const char* const each = name_of(static_cast<Enum>(i));
    if (name == each) return static_cast<Enum>(i);
    all += (all.empty() ? "" : ", ") + std::string(each);
  }
  refuse(fmt::format("there is no {} '{}'", what, name), "there are " + all);
}

Call call_of(const Question& question, std::uint64_t bytes, bool deterministic) {
  Call call;
  call.collective = named<CollectiveKind>(question.collective, collective_count, "collective");
  if (reduces(call.collective)) {
    call.type = named<DType>(question.type, dtype_count, "type");
    call.op = named<Op>(question.op, op_count, "operation");
    call.element_bytes = static_cast<std::uint32_t>(size_of(call.type));
    call.deterministic = deterministic;
  }
  call.count = bytes / call.element_bytes;
  return call;
}

std::string content_of(const std::string& file) {
  std::string text;
  if (!collectives::read_file(file, text))
    throw Error(Code::invalid_config, "explain", fmt::format("HMC_COLL_FILE: {} can't be read", file), "give a file");
  return text;
}

Json json_of(const Evaluation& candidate) {
  Json json{{"algorithm", candidate.algorithm->name}, {"why_not", candidate.why_not}};
  if (!candidate.why_not.empty()) return json;
  const auto& cost = candidate.cost;
  json["microseconds"] = cost.ns / 1000;
  json["pieces"] = candidate.pieces;
  json["messages"] = cost.messages;
  json["network_messages"] = cost.network_messages;
  json["bytes"] = cost.bytes;
  json["network_bytes"] = cost.network_bytes;
  json["copied"] = cost.copied;
  json["reduced"] = cost.reduced;
  return json;
}

Json json_of(const Question& question, const Shape& shape, const Call& call, std::uint64_t bytes) {
  Json json{{"collective", question.collective}, {"bytes", bytes}, {"ranks", shape.size}, {"per_node", shape.per_node}};
  if (!reduces(call.collective)) return json;
  json["type"] = question.type;
  json["op"] = question.op;
  json["deterministic"] = call.deterministic;
  return json;
}

std::vector<Evaluation> cheapest_first(std::vector<Evaluation> candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Evaluation& a, const Evaluation& b) {
    return a.why_not.empty() == b.why_not.empty() ? a.cost.ns < b.cost.ns : a.why_not.empty();
  });
  return candidates;
}

std::string origin_of(const collectives::Choice& choice, std::uint32_t setting) {
  if (choice.source == collectives::ChoiceSource::file) return fmt::format("row {} of HMC_COLL_FILE", setting - 1);
  if (choice.source == collectives::ChoiceSource::forced) return "forced by HMC_COLL";
  return setting == 0 ? "the cheapest by the model" : "the cheapest by the model; the forced one doesn't apply";
}

}  // namespace

nlohmann::ordered_json gather_explanation(const Question& question) {
  const base::Env env = base::Env::from_process();
  std::uint64_t bytes = 0;
  if (!collectives::parse_bytes(question.bytes, bytes))
    refuse(fmt::format("'{}' isn't a number of bytes", question.bytes), "give a number, 64K, 1M");
  if (question.collective == name_of(CollectiveKind::barrier)) bytes = 0;
  if (question.ranks < 1 || question.per_node < 1)
    refuse("--ranks and --per-node can't be 0 or less", "give 1 or more");
  Shape shape{question.ranks, std::min(question.per_node, question.ranks)};
  const bool one_node = shape.nodes() == 1 && (env.transport.empty() || env.transport == "shm");
  shape.shares_memory = one_node;
  const Call call = call_of(question, bytes, env.deterministic);
  bytes = call.count * call.element_bytes;
  const job::MachineModel model = job::machine_model(env, question.parameters, question.one_machine);
  const std::string rows = env.coll_file.empty() ? "" : content_of(env.coll_file);
  const Selector selector(env.coll, collectives::read_overrides(rows, env.coll_file), model.parameters);
  const collectives::AreaLimits room = collectives::area_limits(shape.size);

  const collectives::Choice choice = selector.choose(shape, call, bytes, room);
  Json facts = json_of(question, shape, call, bytes);
  facts["parameters"] = model.origin;
  facts["chosen"] = choice.algorithm == nullptr ? Json() : Json(choice.algorithm->name);
  facts["why"] = choice.algorithm == nullptr ? "no algorithm applies to this call"
                                             : origin_of(choice, selector.setting_for(shape, call.collective, bytes));
  facts["direct"] = one_node && !selector.wants_schedule(shape, call.collective, bytes);
  facts["candidates"] = Json::array();
  for (const Evaluation& candidate : cheapest_first(selector.evaluate_all(shape, call, bytes, room)))
    facts["candidates"].push_back(json_of(candidate));
  return facts;
}

std::string explanation_as_text(const nlohmann::ordered_json& facts) {
  const auto word = [](const Json& json) { return json.get<std::string>(); };
  const auto number = [](const Json& json) { return json.get<double>(); };
  const auto size = [&](const Json& json) {
    return collectives::format_bytes(static_cast<std::uint64_t>(number(json) + 0.5));
  };
  std::string text = fmt::format("{} of {}, {} ranks, {} per node", word(facts["collective"]), size(facts["bytes"]),
                                 facts["ranks"].get<int>(), facts["per_node"].get<int>());
  if (facts.contains("op"))
    text += fmt::format(", {} of {}{}", word(facts["op"]), word(facts["type"]),
                        facts["deterministic"].get<bool>() ? ", deterministic" : "");
  const std::string chosen = facts["chosen"].is_null() ? "none" : word(facts["chosen"]);
  if (facts["direct"].get<bool>())
    text += fmt::format(
        "\nchosen      direct (load and store) for blocking calls on one node; for other calls and v-forms {}", chosen);
  else
    text += fmt::format("\nchosen      {}", chosen);
  text += fmt::format(": {}\nparameters  {}\n\n", word(facts["why"]), word(facts["parameters"]));
  text += fmt::format("  {:<22} {:>12} {:>7} {:>9} {:>9} {:>12} {:>12}\n", "on the critical path", "estimate us",
                      "pieces", "messages", "network", "sent", "network");
  for (const Json& each : facts["candidates"]) {
    const std::string name = word(each["algorithm"]);
    if (const std::string why_not = word(each["why_not"]); !why_not.empty()) {
      text += fmt::format("  {:<22} {:>12} {}\n", name, "no:", why_not);
      continue;
    }
    text += fmt::format("{} {:<22} {:>12.1f} {:>7} {:>9.0f} {:>9.0f} {:>12} {:>12}\n", name == chosen ? '*' : ' ', name,
                        number(each["microseconds"]), each["pieces"].get<std::uint64_t>(), number(each["messages"]),
                        number(each["network_messages"]), size(each["bytes"]), size(each["network_bytes"]));
  }
  return text;
}

}  // namespace hmc::launcher
