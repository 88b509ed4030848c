#include "collectives/select/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include <hmc/error.hpp>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::collectives {

using schedule::Algorithm;

std::string valid_names() {
  std::string text;
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<CollectiveKind>(i);
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", name_of(collective));
    const char* separator = "";
    for (const Algorithm& algorithm : schedule::algorithms()) {
      if (algorithm.collective != collective) continue;
      text += fmt::format("{}{}", separator, algorithm.name);
      separator = ", ";
    }
    text += ", direct";
  }
  return text;
}

bool find_by_name(std::string_view collective, std::string_view algorithm, CollectiveKind& found,
                  const Algorithm*& result) noexcept {
  for (int i = 0; i < collective_count; ++i) {
    found = static_cast<CollectiveKind>(i);
    if (name_of(found) != collective) continue;
    result = schedule::find(found, algorithm);
    return result != nullptr || algorithm == "direct";
  }
  return false;
}

bool parse_bytes(std::string_view text, std::uint64_t& bytes) noexcept {
  unsigned shift = 0;
  if (!text.empty()) {
    const char last = text.back();
    shift = last == 'K' || last == 'k' ? 10 : last == 'M' || last == 'm' ? 20 : last == 'G' || last == 'g' ? 30 : 0;
  }
  if (shift != 0) text.remove_suffix(1);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error != std::errc{} || stop != end || bytes > UINT64_MAX >> shift) return false;
  bytes <<= shift;
  return true;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes > 0 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes > 0 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

namespace {

using Json = nlohmann::json;

constexpr std::string_view keys[] = {"collective", "algorithm", "bytes_up_to", "ranks_up_to", "per_node", "segment"};
constexpr std::string_view all_keys = "collective, algorithm, bytes_up_to, ranks_up_to, per_node, segment";

/// Parses one row into an Override. Errors contain the row's number.
class Row {
 public:
  Row(const Json& json, std::size_t number, std::string_view file) : json_(json), number_(number), file_(file) {}

  Override read() const {
    if (!json_.is_object()) refuse("not a JSON object", fmt::format("give {{{}}}", all_keys));
    for (const auto& item : json_.items())
      if (std::find(std::begin(keys), std::end(keys), item.key()) == std::end(keys))
        refuse(fmt::format("unknown key '{}'", item.key()), fmt::format("valid keys: {}", all_keys));
    Override row;
    const std::string collective = word("collective"), algorithm = word("algorithm");
    if (!find_by_name(collective, algorithm, row.collective, row.algorithm))
      refuse(fmt::format("unknown algorithm '{}:{}'", collective, algorithm), "valid: " + valid_names());
    if (json_.contains("bytes_up_to")) row.bytes_up_to = bytes("bytes_up_to");
    if (json_.contains("segment")) row.segment_bytes = bytes("segment");
    if (json_.contains("ranks_up_to")) row.ranks_up_to = ranks("ranks_up_to");
    if (json_.contains("per_node")) row.per_node = ranks("per_node");
    if (row.segment_bytes > 0 && (row.algorithm == nullptr || !row.algorithm->tuned_by.segments))
      refuse(fmt::format("'{}' doesn't use segments", algorithm), "omit 'segment'");
    return row;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(Code::invalid_config, "environment", fmt::format("HMC_COLL_FILE={}: row {}: {}", file_, number_, what),
                hint);
  }
  std::string word(const char* key) const {
    if (!json_.contains(key)) refuse(fmt::format("'{}' is missing", key), "valid: " + valid_names());
    const Json& value = json_.at(key);
    if (!value.is_string()) refuse(fmt::format("'{}' isn't a string", key), "valid: " + valid_names());
    return value.get<std::string>();
  }
  std::uint64_t bytes(const char* key) const {
    const Json& value = json_.at(key);
    std::uint64_t bytes = 0;
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    if (value.is_string() && parse_bytes(value.get<std::string>(), bytes)) return bytes;
    refuse(fmt::format("'{}' isn't a number of bytes: {}", key, value.dump(-1, ' ', true, replace)),
           R"(give a number, or "64K", "1M")");
  }
  int ranks(const char* key) const {
    const Json& value = json_.at(key);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > 0 && value.get<std::uint64_t>() <= INT32_MAX)
      return value.get<int>();
    refuse(fmt::format("'{}' isn't a number of ranks: {}", key, value.dump(-1, ' ', true, replace)), "give 1 or more");
  }

  static constexpr auto replace = Json::error_handler_t::replace;
  const Json& json_;
  std::size_t number_;
  std::string_view file_;
};

}  // namespace

std::vector<Override> read_overrides(std::string_view text, std::string_view file) {
  std::vector<Override> rows;
  if (text.empty()) return rows;
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {  // its text has the line and the column
    throw Error(Code::invalid_config, "environment", fmt::format("HMC_COLL_FILE={}: {}", file, error.what()),
                "give a JSON array of rows");
  }
  if (!json.is_array())
    throw Error(Code::invalid_config, "environment", fmt::format("HMC_COLL_FILE={}: not a JSON array", file),
                fmt::format("give [{{{}}}, ...]", all_keys));
  for (std::size_t i = 0; i < json.size(); ++i) rows.push_back(Row(json[i], i + 1, file).read());
  return rows;
}

}  // namespace hmc::collectives
