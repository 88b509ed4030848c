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

/// UCX's constructor reads the environment and nothing else: unless told not to, it takes the handlers
/// of ILL, SEGV, BUS, FPE and HUP, and writes jumps over the code of mmap, munmap, madvise and brk (for a
/// cache of registrations that messages don't need). All of that is the user's. So it is shown another
/// environment, the user's with these added, for as long as it loads. The real one isn't written to:
/// other threads may be reading it.
class LoadEnvironment {
 public:
  LoadEnvironment() : mine_(environ) {
    // Kept: a thread that reads the environment just now may read this one a while longer.
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
    std::size_t name_length;  ///< with the '='
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

/// UCX writes its lines to stdout, which is the user's. The level was already compared.
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
    // Local: none of its symbols may stand in for the program's.
    library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    throw Error(Code::unavailable, "ucx", fmt::format("the wire between nodes can't be had: {}", ::dlerror()),
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
  // One per process as the loaded library is; immutable once made.
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
