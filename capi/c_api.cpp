// The C ABI: errors, enums and element types, the runtime.
#include "capi/c_api.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace hmc::c_api {
namespace {

static_assert(HMC_IN_PROGRESS == static_cast<int>(Code::in_progress) &&
              HMC_MISMATCH == static_cast<int>(Code::mismatch));
static_assert(HMC_MEMORY_MOORE_GPU == static_cast<int>(MemoryType::MOORE_GPU));
static_assert(HMC_MEMORY_AMD_MANAGED == static_cast<int>(MemoryType::AMD_MANAGED));
static_assert(HMC_F64 == static_cast<int>(DType::f64) && HMC_E5M2 == static_cast<int>(DType::e5m2));
static_assert(HMC_LOCATED_F64 == static_cast<int>(DType::located_f64) && HMC_LOCATED_F64 + 1 == dtype_count);
static_assert(sizeof(hmc_located_f64) == sizeof(Located<double>) && sizeof(hmc_located_i32) == sizeof(Located<float>));
static_assert(HMC_LOR == static_cast<int>(Op::lor));
static_assert(HMC_MINLOC == static_cast<int>(Op::minloc) && HMC_MINLOC + 1 == op_count);
static_assert(HMC_GE == static_cast<int>(Cmp::ge));
static_assert(HMC_JOB_TIMEOUT == job_timeout.count());

// The thread's last failure. Like errno, it is per thread and not per job. The C ABI itself returns only codes.
struct LastError {
  std::string text;
  hmc_error_detail detail{sizeof(hmc_error_detail), HMC_SUCCESS, -1, -1, 0, 0, 0, 0, 0};
};
LastError& last_error() noexcept {
  thread_local LastError last;
  return last;
}

void keep_text(const char* text) noexcept {
  try {
    last_error().text = text;
  } catch (const std::bad_alloc&) {
    last_error().text.clear();  // the code remains
  }
}

void copy_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t length = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

hmc_path path_of(const Path& path) {
  hmc_path full{};
  full.direct = path.direct ? 1 : 0;
  copy_text(full.wire, sizeof full.wire, path.wire);
  copy_text(full.why, sizeof full.why, path.why);
  full.gigabytes_per_s = path.gigabytes_per_s;
  full.latency_us = path.latency_us;
  return full;
}

hmc_code remember(const Error& error) noexcept {
  const ErrorDetail& from = error.detail();
  last_error().detail = {sizeof(hmc_error_detail),
                         static_cast<int>(from.code),
                         from.rank,
                         from.peer,
                         from.sys_errno,
                         from.has_extent ? 1 : 0,
                         0,
                         from.offset,
                         from.size};
  keep_text(error.what());
  return static_cast<hmc_code>(from.code);
}

hmc_code remember(Code code, const char* operation, const char* text) noexcept {
  try {
    return remember(Error(code, operation, text));
  } catch (const std::exception&) {
    last_error().detail.code = static_cast<int>(code);
    keep_text(text);
    return static_cast<hmc_code>(code);
  }
}

}  // namespace hmc::c_api

using namespace hmc::c_api;  // NOLINT: the functions below are C's

// ---- errors, enums and element types
const char* hmc_code_name(hmc_code code) { return hmc::name_of(static_cast<hmc::Code>(code)); }
const char* hmc_last_error() { return last_error().text.c_str(); }
hmc_code hmc_last_error_detail(hmc_error_detail* detail) {
  // Copied first, because a null `detail` is a failure that overwrites the last error.
  const hmc_error_detail last = last_error().detail;
  return guarded("hmc_last_error_detail", [&] { copy_out(last, detail, "hmc_last_error_detail"); });
}
const char* hmc_version() { return HMC_VERSION_STRING; }

std::size_t hmc_dtype_size(hmc_dtype type) {
  const auto number = static_cast<unsigned>(type);
  return number < hmc::dtype_count ? hmc::size_of(static_cast<hmc::DType>(number)) : 0;
}
const char* hmc_dtype_name(hmc_dtype type) { return hmc::name_of(static_cast<hmc::DType>(type)); }
const char* hmc_op_name(hmc_op op) { return hmc::name_of(static_cast<hmc::Op>(op)); }
std::uint16_t hmc_f16_from_float(float value) { return hmc::float16::encode(value); }
float hmc_f16_to_float(std::uint16_t bits) { return hmc::float16::decode(bits); }
std::uint16_t hmc_bf16_from_float(float value) { return hmc::bfloat16::encode(value); }
float hmc_bf16_to_float(std::uint16_t bits) { return hmc::bfloat16::decode(bits); }
std::uint8_t hmc_e4m3_from_float(float value) { return hmc::float8_e4m3::Format::encode(value); }
float hmc_e4m3_to_float(std::uint8_t bits) { return hmc::float8_e4m3::Format::decode(bits); }
std::uint8_t hmc_e5m2_from_float(float value) { return hmc::float8_e5m2::Format::encode(value); }
float hmc_e5m2_to_float(std::uint8_t bits) { return hmc::float8_e5m2::Format::decode(bits); }

// ---- the runtime
hmc_code hmc_runtime_create(hmc_runtime_t* runtime) {
  return guarded("Runtime::init", [&] {
    hmc_runtime_t& out = required(runtime, "Runtime::init", "the place for the result");
    auto made = std::make_unique<hmc_runtime>(hmc_runtime{hmc::Runtime::init(), {}, {}});
    made->world = {made->runtime.world(), true, {}};
    made->launcher = made->runtime.launcher();
    out = made.release();
  });
}

hmc_code hmc_runtime_close(hmc_runtime_t runtime) {
  return guarded("Runtime::close", [&] { required(runtime, "Runtime::close", "the runtime").runtime.close(); });
}

void hmc_runtime_destroy(hmc_runtime_t runtime) { delete runtime; }

int hmc_runtime_rank(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->runtime.rank(); }
int hmc_runtime_size(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->runtime.size(); }
int hmc_runtime_node(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->runtime.node(); }
int hmc_runtime_node_count(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->runtime.node_count(); }
int hmc_runtime_node_of(hmc_runtime_t runtime, int rank) {
  int node = -1;
  (void)guarded("Runtime::node", [&] { node = required(runtime, "Runtime::node", "the runtime").runtime.node(rank); });
  return node;
}
std::int64_t hmc_runtime_timeout_ns(hmc_runtime_t runtime) {
  return runtime == nullptr ? -1 : std::int64_t{runtime->runtime.timeout().count()};
}
const char* hmc_runtime_launcher(hmc_runtime_t runtime) {
  return runtime == nullptr ? nullptr : runtime->launcher.c_str();
}
hmc_team_t hmc_runtime_world(hmc_runtime_t runtime) { return runtime == nullptr ? nullptr : &runtime->world; }

hmc_code hmc_runtime_path(hmc_runtime_t runtime, int rank, hmc_path* path) {
  return guarded("Runtime::path", [&] {
    copy_out(path_of(required(runtime, "Runtime::path", "the runtime").runtime.path(rank)), path, "Runtime::path");
  });
}

hmc_code hmc_runtime_counters(hmc_runtime_t runtime, hmc_counters* counters) {
  return guarded("Runtime::counters", [&] {
    const hmc::Counters from = required(runtime, "Runtime::counters", "the runtime").runtime.counters();
    const hmc_counters full{0,
                            from.puts_direct,
                            from.puts_wire,
                            from.buffers_in_place,
                            from.buffers_staged,
                            from.reduced_on_device,
                            from.buffers_read,
                            from.direct_receives};
    copy_out(full, counters, "Runtime::counters");
  });
}

void hmc_runtime_abort(hmc_runtime_t runtime, int exit_code, const char* text) {
  (void)guarded("Runtime::abort", [&] {
    required(runtime, "Runtime::abort", "the runtime").runtime.abort(exit_code, text == nullptr ? "" : text);
  });
}
