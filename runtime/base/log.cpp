#include "runtime/base/log.hpp"

#include <unistd.h>

#include <cstring>

namespace hmc::base {

void Log::write(std::string_view level, std::string_view text) const noexcept {
  // One write per line, without a buffer: lines of ranks that share stderr don't mix, and no line is lost if the
  // process dies.
  char line[1024];
  const auto end = rank_ >= 0 ? fmt::format_to_n(line, sizeof line - 1, "hmc[{}] {}: {}", rank_, level, text)
                              : fmt::format_to_n(line, sizeof line - 1, "hmc {}: {}", level, text);
  *end.out = '\n';
  const auto length = static_cast<std::size_t>(end.out + 1 - line);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, length);
}

}  // namespace hmc::base
