// Results, the last error and log lines.
#include "compat/memfabric/layer.hpp"

#include <atomic>
#include <cstdio>

namespace hmc::memfabric {
namespace {

using Logger = void (*)(int, const char*);
std::atomic<Logger> extern_logger{nullptr};
std::atomic<int> log_level{static_cast<int>(LogLevel::warning)};

struct LastError {
  std::int32_t code = SMEM_OK;
  std::string text;
  std::string returned;  // keeps what get_and_clear has returned
};
LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

std::int32_t code_of(const Error& error) noexcept {
  switch (error.code()) {
    case Code::success: return SMEM_OK;
    case Code::timeout: return SMEM_TIMEOUT;
    case Code::invalid_config:
    case Code::invalid_argument:
    case Code::out_of_range:
    case Code::misaligned:
    case Code::bad_rank:
    case Code::mismatch: return SMEM_INVALID_PARAM;
    case Code::out_of_memory: return SMEM_MALLOC_FAILED;
    case Code::not_found: return SMEM_OBJECT_NOT_EXISTS;
    case Code::closed: return SMEM_NOT_STARTED;
    case Code::in_progress: return SMEM_RESOURCE_IN_USE;
    case Code::error:
    case Code::unsupported:
    case Code::peer_failed:
    case Code::aborted:
    case Code::unavailable:
    case Code::refused: break;
  }
  return SMEM_ERROR;
}

std::int32_t remember(const char* function, std::int32_t code, const char* text) noexcept {
  last_error().code = code;
  try {
    last_error().text = fmt::format("{}: {}", function, text);
    log(LogLevel::error, last_error().text);
  } catch (const std::bad_alloc&) {
    last_error().text.clear();  // the code remains
  }
  return code;
}

bool logs(LogLevel level) noexcept { return static_cast<int>(level) >= log_level; }

void log(LogLevel level, const std::string& text) noexcept {
  if (!logs(level)) return;
  if (const Logger logger = extern_logger) return logger(static_cast<int>(level), text.c_str());
  constexpr const char* names[] = {"debug", "info", "warning", "error"};
  std::fprintf(stderr, "mf_smem %s: %s\n", names[static_cast<int>(level)], text.c_str());
}

}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_set_extern_logger(void (*function)(int, const char*)) {
  extern_logger = function;
  return SMEM_OK;
}

int32_t smem_set_log_level(int level) {
  return guarded("smem_set_log_level", [&] {
    require(level >= 0 && level <= 3, "the level is 0 (debug), 1, 2 or 3 (error)");
    log_level = level;
  });
}

const char* smem_get_last_err_msg() { return last_error().text.c_str(); }

int32_t smem_get_last_err_code() { return last_error().code; }

const char* smem_get_and_clear_last_err_msg() {
  last_error().code = SMEM_OK;
  last_error().returned = std::exchange(last_error().text, {});
  return last_error().returned.c_str();
}
