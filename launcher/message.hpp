// print_message: hmcrun's own messages, on stderr, each line beginning with "hmcrun: ".
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace hmc::launcher {

/// One write per call, so that lines of ranks aren't mixed in. Adds a line feed.
void print_text(std::string_view text) noexcept;

template <typename... Args> void print_message(fmt::format_string<Args...> text, Args&&... args) {
  print_text(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace hmc::launcher
