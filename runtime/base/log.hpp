// Log: lines on stderr, one write each, so that ranks' lines don't mix.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "runtime/base/env.hpp"

namespace hmc::base {

/// By volume: error = the job can't go on; warn = it goes on, but somebody should look; info = a
/// few lines a job (which wire, which launcher, and why); debug = a few lines a call, cold path only.
class Log {
 public:
  explicit Log(LogLevel level = LogLevel::warn, int rank = -1) noexcept : level_(level), rank_(rank) {}
  bool wants(LogLevel level) const noexcept { return level <= level_; }

  template <typename... Args> void error(fmt::format_string<Args...> text, Args&&... args) const {
    if (wants(LogLevel::error)) write("error", fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args> void warn(fmt::format_string<Args...> text, Args&&... args) const {
    if (wants(LogLevel::warn)) write("warn", fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args> void info(fmt::format_string<Args...> text, Args&&... args) const {
    if (wants(LogLevel::info)) write("info", fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args> void debug(fmt::format_string<Args...> text, Args&&... args) const {
    if (wants(LogLevel::debug)) write("debug", fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  void write(std::string_view level, std::string_view text) const noexcept;
  LogLevel level_;
  int rank_;
};

}  // namespace hmc::base
