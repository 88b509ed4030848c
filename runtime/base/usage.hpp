// The message and exit status for a wrong command line. hmcrun prints its own message, in launcher/options.cpp.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace hmc::base {

inline constexpr int exit_usage = 2;

/// Prints what is wrong and the "Usage: PROGRAM ..." line of `help` to stderr. Returns the exit status.
inline int usage_error(const char* program, const char* what, std::string_view help) {
  const std::size_t begin = help.find("Usage: ");
  const std::string_view line =
      begin == std::string_view::npos ? std::string_view() : help.substr(begin, help.find('\n', begin) - begin);
  std::fprintf(stderr, "%s: %s\n%.*s\n%s --help lists the options\n", program, what, static_cast<int>(line.size()),
               line.data(), program);
  return exit_usage;
}

}  // namespace hmc::base
