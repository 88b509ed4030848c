#include <charconv>
#include <stdexcept>

#include "sim/rules/rules.hpp"

namespace hmc::sim::rules {

std::string_view pick(std::string_view table, std::uint64_t value) {
  while (!table.empty()) {
    const std::size_t comma = table.find(", ");
    const std::string_view entry = table.substr(0, comma);
    const std::size_t space = entry.find(' ');
    if (space == std::string_view::npos) return entry;
    std::string_view bound = entry.substr(space + 2);
    const bool inclusive = bound.front() == '=';
    if (inclusive) bound.remove_prefix(1);
    std::uint64_t limit = 0;
    std::from_chars(bound.data(), bound.data() + bound.size(), limit);
    if (value < limit || (inclusive && value == limit)) return entry.substr(0, space);
    if (comma == std::string_view::npos) break;
    table.remove_prefix(comma + 2);
  }
  throw std::logic_error("a rule table without a last word");
}

}  // namespace hmc::sim::rules
