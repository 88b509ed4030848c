#include "runtime/transport/ucx/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucm/api/ucm.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>

#include <hmc/error.hpp>

namespace hmc::transport::ucx {

namespace {

/// Puts back the handlers that UCX's constructor takes: those of its UCX_ERROR_SIGNALS, and the one
/// of UCX_DEBUG_SIGNO, without touching the environment that it reads.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], nullptr, &saved_[i]);
  }
  ~SignalKeeper() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &saved_[i], nullptr);
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr std::array signals{SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGHUP};
  std::array<struct sigaction, signals.size()> saved_{};
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
    const SignalKeeper keeper;
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
  // Otherwise ucp_init writes jumps over the code of mmap, munmap and brk in this process. They serve
  // a cache of registrations that messages through sockets don't need.
  decltype(&::ucm_global_opts) memory_options = nullptr;
  resolve(library, "ucm_global_opts", memory_options);
  memory_options->enable_events = 0;
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
