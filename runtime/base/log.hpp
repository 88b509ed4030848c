// Log: one write to stderr per line, so lines of different ranks don't mix.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "runtime/base/env.hpp"

namespace hmc::base {

/// Levels: error = the job can't continue; warn = it continues, but the user should act; info = a few lines per job
/// (wire, launcher, reasons); debug = a few lines per call, cold path only.
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
