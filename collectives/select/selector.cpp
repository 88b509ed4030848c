#include "collectives/select/selector.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include <hmc/error.hpp>

#include "collectives/select/table.hpp"

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;
using schedule::Collective;
using schedule::Shape;

namespace {

/// "barrier: dissemination; broadcast: binomial, chain"
std::string names_there_are() {
  std::string text;
  for (int i = 0; i < schedule::collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    const char* separator = ": ";
    for (const Algorithm& algorithm : schedule::algorithms()) {
      if (algorithm.collective != collective) continue;
      if (separator[0] == ':') text += fmt::format("{}{}", text.empty() ? "" : "; ", name_of(collective));
      text += fmt::format("{}{}", separator, algorithm.name);
      separator = ", ";
    }
  }
  return text;
}

[[noreturn]] void refuse(std::string_view item) {
  throw Error(Code::invalid_config, "environment", fmt::format("HMC_COLL: there is no '{}'", item),
              "give collective:algorithm,...  There are " + names_there_are());
}

const Algorithm* parse(std::string_view item) {
  const auto colon = item.find(':');
  if (colon == std::string_view::npos) refuse(item);
  for (const Algorithm& algorithm : schedule::algorithms())
    if (name_of(algorithm.collective) == item.substr(0, colon) && algorithm.name == item.substr(colon + 1))
      return &algorithm;
  refuse(item);
}

/// 16-bit floats are to be rounded once, so they take an algorithm that folds all contributions at once.
bool rounds_often(const Call& call) noexcept {
  return schedule::reduces(call.collective) && (call.type == DType::f16 || call.type == DType::bf16) &&
         call.op != Op::min && call.op != Op::max;
}

}  // namespace

Selector::Selector(std::string_view setting) {
  while (!setting.empty()) {
    const auto comma = setting.find(',');
    const Algorithm* const algorithm = parse(setting.substr(0, comma));
    force(algorithm->collective, algorithm);
    setting = comma == std::string_view::npos ? std::string_view() : setting.substr(comma + 1);
  }
}

const Algorithm* Selector::choose(const Shape& shape, const Call& call, std::uint64_t bytes) const noexcept {
  const Algorithm* const wanted = forced(call.collective);
  if (wanted != nullptr && wanted->applies(shape, call)) return wanted;
  if (rounds_often(call)) {
    Call exact = call;
    exact.deterministic = true;
    for (const Algorithm& algorithm : schedule::algorithms())
      if (algorithm.applies(shape, exact)) return &algorithm;
  }
  for (const Preference& row : preferences) {
    if (row.collective != call.collective || bytes > row.bytes || shape.size > row.ranks) continue;
    const Algorithm* const algorithm = schedule::find(row.collective, row.algorithm);
    if (algorithm != nullptr && algorithm->applies(shape, call)) return algorithm;
  }
  for (const Algorithm& algorithm : schedule::algorithms())
    if (algorithm.applies(shape, call)) return &algorithm;
  return nullptr;
}

}  // namespace hmc::collectives
