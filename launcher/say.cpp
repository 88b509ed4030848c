#include "launcher/say.hpp"

#include <unistd.h>

#include <string>

namespace hmc::launcher {

void say_text(std::string_view text) noexcept {
  try {
    std::string line = "hmcrun: ";
    for (const char c : text) {
      line += c;
      if (c == '\n') line += "hmcrun: ";
    }
    line += '\n';
    // Who closed stderr doesn't want to hear us.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for a message: the exit status still tells
  }
}

}  // namespace hmc::launcher
