#include <hmc/error.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "runtime/base/deadline.hpp"

namespace hmc {

namespace {

std::string one_line(const ErrorDetail& detail) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: {}", detail.operation.empty() ? "hmc" : detail.operation, detail.message);
  fmt::format_to(out, " [{}", name_of(detail.code));
  if (detail.rank >= 0) fmt::format_to(out, ", rank {}", detail.rank);
  if (detail.peer >= 0) fmt::format_to(out, ", peer {}", detail.peer);
  if (detail.has_extent) fmt::format_to(out, ", offset {}, size {}", detail.offset, detail.size);
  if (detail.sys_errno != 0) fmt::format_to(out, ", errno {} ({})", detail.sys_errno, std::strerror(detail.sys_errno));
  fmt::format_to(out, "]");
  if (!detail.hint.empty()) fmt::format_to(out, "; {}", detail.hint);
  return text;
}

ErrorDetail make_detail(Code code, std::string_view operation, std::string message, std::string hint) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.message = std::move(message);
  detail.hint = std::move(hint);
  return detail;
}

}  // namespace

Error::Error(ErrorDetail detail) : std::runtime_error(one_line(detail)), detail_(std::move(detail)) {}

Error::Error(Code code, std::string_view operation, std::string message, std::string hint)
    : Error(make_detail(code, operation, std::move(message), std::move(hint))) {}

const char* name_of(Code code) noexcept {
  switch (code) {
    case Code::success: return "success";
    case Code::error: return "error";
    case Code::unsupported: return "unsupported";
    case Code::invalid_config: return "invalid_config";
    case Code::timeout: return "timeout";
    case Code::not_found: return "not_found";
    case Code::invalid_argument: return "invalid_argument";
    case Code::out_of_range: return "out_of_range";
    case Code::misaligned: return "misaligned";
    case Code::bad_rank: return "bad_rank";
    case Code::closed: return "closed";
    case Code::out_of_memory: return "out_of_memory";
    case Code::peer_failed: return "peer_failed";
    case Code::aborted: return "aborted";
    case Code::mismatch: return "mismatch";
    case Code::unavailable: return "unavailable";
    case Code::refused: return "refused";
    case Code::in_progress: return "in_progress";
  }
  return "unknown";
}

const char* name_of(DType type) noexcept {
  constexpr const char* names[dtype_count] = {
      "i8",   "u8",  "i16", "u16",  "i32",  "u32",         "i64",         "u64",         "f16",
      "bf16", "f32", "f64", "e4m3", "e5m2", "located_i32", "located_i64", "located_f32", "located_f64"};
  const auto index = static_cast<int>(type);
  return index < dtype_count ? names[index] : "unknown";
}

const char* name_of(Op op) noexcept {
  constexpr const char* names[op_count] = {"sum", "prod", "min",  "max", "avg",    "band",
                                           "bor", "bxor", "land", "lor", "maxloc", "minloc"};
  const auto index = static_cast<int>(op);
  return index < op_count ? names[index] : "unknown";
}

const char* name_of(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::DEFAULT: return "DEFAULT";
    case MemoryType::CPU: return "CPU";
    case MemoryType::NVIDIA_GPU: return "NVIDIA_GPU";
    case MemoryType::AMD_GPU: return "AMD_GPU";
    case MemoryType::CAMBRICON_MLU: return "CAMBRICON_MLU";
    case MemoryType::MOORE_GPU: return "MOORE_GPU";
    case MemoryType::ASCEND_NPU: return "ASCEND_NPU";
    case MemoryType::OPENCL: return "OPENCL";
    case MemoryType::NVIDIA_PINNED: return "NVIDIA_PINNED";
    case MemoryType::NVIDIA_MANAGED: return "NVIDIA_MANAGED";
    case MemoryType::AMD_PINNED: return "AMD_PINNED";
    case MemoryType::AMD_MANAGED: return "AMD_MANAGED";
  }
  return "unknown";
}

}  // namespace hmc

namespace hmc::base {

void require_timeout(std::chrono::nanoseconds timeout, std::string_view operation) {
  if (timeout >= Timeout::zero() || timeout == job_timeout) return;
  throw Error(Code::invalid_argument, operation, "the timeout is negative");
}

}  // namespace hmc::base
