#include "launcher/uncaught.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string_view>

#include "bootstrap/common.hpp"

namespace hmc::launcher {

namespace {

using bootstrap::UncaughtError;

std::string in_quotes(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out.append(c == '\'' ? "'\\''" : std::string(1, c));
  return out + "'";
}

std::string output_of(const std::string& command) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

/// A function of HMC's headers or of the C++ library, whose caller is the program's.
bool is_of_library(std::string_view function) {
  const std::string_view name = function.substr(0, function.find_first_of("(<"));
  return name.find("hmc::") != std::string_view::npos || name.find("std::") != std::string_view::npos ||
         name.find("__gnu_cxx::") != std::string_view::npos;
}

std::string place_of(const std::vector<UncaughtError::Frame>& frames) {
  if (frames.empty()) return {};
  const UncaughtError::Frame& first = frames.front();
  std::string command = fmt::format("timeout -s KILL 5 addr2line -aCfi -e {}", in_quotes(first.file));
  for (const UncaughtError::Frame& frame : frames)
    if (frame.file == first.file) command += fmt::format(" {:#x}", frame.offset);
  std::string place = frame_of_program(output_of(command + " 2>/dev/null"));
  return place.empty() ? fmt::format("{}+{:#x}", first.file, first.offset) : place;
}

}  // namespace

std::string frame_of_program(const std::string& addr2line_output) {
  std::istringstream lines(addr2line_output);
  for (std::string function, line; std::getline(lines, function);) {
    if (function.starts_with("0x")) continue;  // an address; pairs of a function and its line follow
    if (!std::getline(lines, line)) break;
    constexpr std::string_view unnamed = "(anonymous namespace)::";
    for (std::size_t at = 0; (at = function.find(unnamed)) != std::string::npos;) function.erase(at, unnamed.size());
    if (function == "??" || is_of_library(function)) continue;
    function.resize(std::min(function.find('('), function.size()));
    line.resize(std::min(line.find(" (discriminator"), line.size()));
    const bool has_line = !line.starts_with("??") && !line.ends_with(":?") && !line.ends_with(":0");
    return has_line ? fmt::format("{} ({})", function, line) : function;
  }
  return {};
}

std::string describe_uncaught(const std::vector<UncaughtError>& errors) {
  std::string all;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto has_same_text = [&](const UncaughtError& each) { return each.text == errors[i].text; };
    if (std::any_of(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(i), has_same_text)) continue;
    std::vector<int> ranks;
    for (const UncaughtError& each : errors)
      if (has_same_text(each)) ranks.push_back(each.rank);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const std::string place = place_of(errors[i].frames);
    all += fmt::format("{}{}: uncaught hmc::Error{}{}:\n  {}", all.empty() ? "" : "\n", bootstrap::list_ranks(ranks),
                       place.empty() ? "" : ", called in ", place, errors[i].text);
  }
  return all;
}

}  // namespace hmc::launcher
