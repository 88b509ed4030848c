#include "bootstrap/launchers/texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace hmc::bootstrap {

namespace {

constexpr std::string_view version = "hmc1";

}  // namespace

std::string Record::text() const {
  std::string out = fmt::format("{};{};{:x};{:x};{:x};{}", version, secret, job, machine, network, port);
  for (const std::string& each : addresses)
    if (out.size() + 1 + each.size() <= longest) out += ";" + each;
  return out;
}

std::optional<Record> Record::parse(std::string_view text) {
  if (text.size() > longest) return std::nullopt;
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() < 6 || parts[0] != version) return std::nullopt;
  Record record{parts[1], 0, 0, 0, parts[5], {parts.begin() + 6, parts.end()}};
  for (const auto& [part, number] : {std::pair(&parts[2], &record.job), std::pair(&parts[3], &record.machine),
                                     std::pair(&parts[4], &record.network)}) {
    const auto [stop, error] = std::from_chars(part->data(), part->data() + part->size(), *number, 16);
    if (error != std::errc{} || stop != part->data() + part->size()) return std::nullopt;
  }
  return record;
}

std::string_view pmi1_value(std::string_view line, std::string_view key) noexcept {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return word.substr(key.size() + 1);
    at = end + 1;
  }
  return {};
}

}  // namespace hmc::bootstrap
