#include "runtime/transport/ucx/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include <hmc/error.hpp>

namespace hmc::transport::ucx {

namespace {

/// The constructor of libucp reads its settings from the environment. By default it installs handlers for SIGILL,
/// SIGSEGV, SIGBUS, SIGFPE and SIGHUP, and patches mmap, munmap, madvise and brk for a registration cache that active
/// messages don't need. A library must not change the user's process in this way. So this class replaces `environ`,
/// while UCX loads, with a copy that disables both. The original isn't modified, because other threads may read it.
class LoadEnvironment {
 public:
  LoadEnvironment() : mine_(environ) {
    // Static: a thread that reads the environment during the load may keep pointers into this copy.
    static std::vector<char*> shown;
    shown.clear();
    for (char** variable = mine_; variable != nullptr && *variable != nullptr; ++variable) shown.push_back(*variable);
    const std::size_t users = shown.size();
    for (auto& [name_and_value, name_length] : added()) {
      const std::string_view name(name_and_value, name_length);
      const bool set = std::any_of(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(users),
                                   [&](const char* variable) { return std::string_view(variable).starts_with(name); });
      if (!set) shown.push_back(name_and_value);
    }
    shown.push_back(nullptr);
    environ = shown.data();
  }
  ~LoadEnvironment() { environ = mine_; }
  LoadEnvironment(const LoadEnvironment&) = delete;
  LoadEnvironment& operator=(const LoadEnvironment&) = delete;

 private:
  struct Added {
    char* variable;
    std::size_t name_length;  ///< including the '='
  };
  static std::span<const Added> added() {
    static char error_signals[] = "UCX_ERROR_SIGNALS=";
    static char debug_signal[] = "UCX_DEBUG_SIGNO=0";
    static char memory_events[] = "UCX_MEM_EVENTS=n";
    static const Added all[] = {{error_signals, 18}, {debug_signal, 16}, {memory_events, 15}};
    return all;
  }
  char** mine_;
};

/// UCX logs to stdout, which belongs to the user. UCX has already checked the level.
ucs_log_func_rc_t log_to_stderr(const char*, unsigned, const char*, ucs_log_level_t level,
                                const ucs_log_component_config_t*, const char* format, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::array<char, 600> line{};
  const int length = std::snprintf(line.data(), line.size(), "hmc: ucx: %s\n", text.data());
  if (length > 0) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(length));
  return UCS_LOG_FUNC_RC_STOP;
}

template <typename Symbol> void resolve(void* library, const char* name, Symbol*& symbol) {
  symbol = reinterpret_cast<Symbol*>(::dlsym(library, name));
  if (symbol == nullptr) throw Error(Code::unavailable, "ucx", fmt::format("this libucp has no {}", name));
}

}  // namespace

Library::Library() {
  void* library = nullptr;
  {
    const LoadEnvironment environment;
    // RTLD_LOCAL: UCX's symbols must not replace symbols of the program.
    library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    throw Error(Code::unavailable, "ucx", fmt::format("can't load UCX: {}", ::dlerror()),
                "install UCX (Debian: libucx0)");
  }
#define HMC_UCX_RESOLVE(name) resolve(library, #name, this->name);
  HMC_UCX_FUNCTIONS(HMC_UCX_RESOLVE)
#undef HMC_UCX_RESOLVE
  decltype(&::ucs_log_push_handler) push_handler = nullptr;
  resolve(library, "ucs_log_push_handler", push_handler);
  push_handler(log_to_stderr);
}

const Library& Library::get() {
  // One per process, like the loaded library; immutable after construction.
  static const Library library;
  return library;
}

std::string Library::describe() {
  try {
    return get().ucp_get_version_string();
  } catch (const Error& error) {
    return error.detail().message;
  }
}

}  // namespace hmc::transport::ucx
