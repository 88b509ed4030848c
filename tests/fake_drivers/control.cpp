#include "tests/fake_drivers/control.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fake {

const char* name_of(Live kind) noexcept {
  static constexpr const char* names[live_kinds] = {"memory", "physical", "reservation", "mapping", "stream",
                                                    "event",  "import",   "host",        "context", "module"};
  return names[static_cast<int>(kind)];
}

Control::Control() {
  const auto number = [](const char* name, long fallback) {
    const char* const value = std::getenv(name);
    return value == nullptr ? fallback : std::atol(value);
  };
  delay_us = static_cast<int>(number("FAKE_DELAY_US", 0));
  hip_version = static_cast<int>(number("FAKE_HIP_VERSION", 70'100'000));
  fabric = static_cast<int>(number("FAKE_FABRIC", 0));
  peers = static_cast<int>(number("FAKE_PEERS", 1));
  one_function_at_a_time = static_cast<int>(number("FAKE_ONE_FUNCTION", 0));
  devices = static_cast<int>(number("FAKE_DEVICES", 2));
  device_bytes = static_cast<std::size_t>(number("FAKE_DEVICE_BYTES", 4L << 30));
  if (const char* const spec = std::getenv("FAKE_FAIL")) arm(spec);
  if (const char* const file = std::getenv("FAKE_DUMP")) dump_file_ = file;
}

void Control::arm(const std::string& spec) {
  const std::scoped_lock lock(mutex_);
  failures_.clear();
  calls_.clear();
  order_.clear();
  std::istringstream in(spec);
  for (std::string each; std::getline(in, each, ',');) {
    const auto first = each.find(':');
    if (first == std::string::npos) continue;
    const auto second = each.find(':', first + 1);
    const long code = second == std::string::npos ? 0 : std::atol(each.c_str() + second + 1);
    failures_.push_back({each.substr(0, first), std::atol(each.c_str() + first + 1), code});
  }
}

long Control::enter(const char* call, long usual_code) {
  const std::scoped_lock lock(mutex_);
  const long count = ++calls_[call];
  if (count == 1) order_.emplace_back(call);
  for (const Failure& failure : failures_)
    if (failure.call == call && failure.nth == count) return failure.code != 0 ? failure.code : usual_code;
  return 0;
}

std::string Control::seen() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const std::string& call : order_)
    text += (text.empty() ? "" : ",") + call + ":" + std::to_string(calls_.at(call));
  return text;
}

void Control::dump(const char* library) const {
  if (dump_file_.empty()) return;
  std::FILE* const out = std::fopen(dump_file_.c_str(), "a");
  if (out == nullptr) return;
  std::string line = std::string(library) + " " + std::to_string(::getpid());
  for (int i = 0; i < live_kinds; ++i)
    line += std::string(" ") + name_of(static_cast<Live>(i)) + "=" + std::to_string(counts_[i].load());
  std::fprintf(out, "%s\n", line.c_str());
  std::fclose(out);
}

Control& control() {
  static Control* const one = new Control;  // never destroyed: destructors at exit use it
  return *one;
}

namespace {

struct AtExit {
  ~AtExit() { control().dump(FAKE_NAME); }
} at_exit;

}  // namespace

// Tests find these by dlsym.
extern "C" {
__attribute__((visibility("default"))) void fake_arm(const char* spec) { control().arm(spec); }
__attribute__((visibility("default"))) void fake_set_delay_us(int us) { control().delay_us = us; }
__attribute__((visibility("default"))) void fake_set_hip_version(int version) { control().hip_version = version; }
__attribute__((visibility("default"))) void fake_set_fabric(int has) { control().fabric = has; }
__attribute__((visibility("default"))) void fake_set_peers(int are_so) { control().peers = are_so; }
__attribute__((visibility("default"))) void fake_set_one_function(int is_so) {
  control().one_function_at_a_time = is_so;
}
__attribute__((visibility("default"))) long fake_live(const char* kind) {
  long total = 0;
  for (int i = 0; i < live_kinds; ++i)
    if (std::strcmp(kind, "all") == 0 || std::strcmp(kind, name_of(static_cast<Live>(i))) == 0)
      total += control().live(static_cast<Live>(i));
  return total;
}
__attribute__((visibility("default"))) void fake_seen(char* text, std::size_t room) {
  std::snprintf(text, room, "%s", control().seen().c_str());
}
}

}  // namespace fake
