#include "launcher/message.hpp"

#include <unistd.h>

#include <string>

namespace hmc::launcher {

void print_text(std::string_view text) noexcept {
  try {
    std::string line = "hmcrun: ";
    for (const char c : text) {
      line += c;
      if (c == '\n') line += "hmcrun: ";
    }
    line += '\n';
    // Ignore errors: stderr may be closed.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for the message: the exit status still reports the failure
  }
}

}  // namespace hmc::launcher
