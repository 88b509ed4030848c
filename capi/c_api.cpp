// The C ABI: errors, enums and element types, the runtime, ConnBuffer.
#include "capi/c_api.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
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

void hmc_set_interrupt_check(int (*check)()) {
  static std::atomic<int (*)()> current{nullptr};
  // Release: pairs with the acquire of the waiting thread.
  current.store(check, std::memory_order_release);
  const hmc::InterruptCheck call = []() noexcept {
    int (*const function)() = current.load(std::memory_order_acquire);
    return function != nullptr && function() != 0;
  };
  hmc::set_interrupt_check(check != nullptr ? call : nullptr);
}

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
namespace {

template <typename Init> hmc_code create_runtime(hmc_runtime_t* runtime, Init&& init) {
  return guarded("Runtime::init", [&] {
    hmc_runtime_t& out = required(runtime, "Runtime::init", "the place for the result");
    auto made = std::make_unique<hmc_runtime>(hmc_runtime{init(), {}, {}});
    made->world = {made->object.world(), true, {}};
    made->launcher = made->object.launcher();
    out = made.release();
  });
}

void require_success(int result, const char* function) {
  if (result != 0)
    throw hmc::Error(hmc::Code::error, "Runtime::init", fmt::format("the store's {} returned {}", function, result));
}

hmc::KeyValueStore store_of(const hmc_store& from) {
  if (from.struct_size < sizeof from || from.set == nullptr || from.get == nullptr)
    throw hmc::Error(hmc::Code::invalid_argument, "Runtime::init", "the store's struct_size, set or get is missing");
  constexpr std::size_t longest = 2048;
  hmc::KeyValueStore store;
  store.set = [from](const std::string& key, const std::string& value) {
    require_success(from.set(from.context, key.c_str(), value.c_str()), "set");
  };
  store.get = [from](const std::string& key, hmc::Timeout timeout) {
    std::array<char, longest> value{};
    require_success(from.get(from.context, key.c_str(), timeout.count(), value.data(), value.size() - 1), "get");
    return std::string(value.data());
  };
  if (from.compare_set == nullptr) return store;
  store.compare_set = [from](const std::string& key, const std::string& expected, const std::string& desired) {
    std::array<char, longest> value{};
    require_success(
        from.compare_set(from.context, key.c_str(), expected.c_str(), desired.c_str(), value.data(), value.size() - 1),
        "compare_set");
    return std::string(value.data());
  };
  return store;
}

}  // namespace

hmc_code hmc_runtime_create(hmc_runtime_t* runtime) {
  return create_runtime(runtime, [] { return hmc::Runtime::init(); });
}
hmc_code hmc_runtime_create_over_store(const hmc_store* store, int rank, int size, hmc_runtime_t* runtime) {
  return create_runtime(
      runtime, [&] { return hmc::Runtime::init(store_of(required(store, "Runtime::init", "the store")), rank, size); });
}

hmc_code hmc_runtime_close(hmc_runtime_t runtime) {
  return with(runtime, "Runtime::close", [](hmc::Runtime& r) { r.close(); });
}

void hmc_runtime_destroy(hmc_runtime_t runtime) { delete runtime; }

int hmc_runtime_rank(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->object.rank(); }
int hmc_runtime_size(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->object.size(); }
int hmc_runtime_node(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->object.node(); }
int hmc_runtime_node_count(hmc_runtime_t runtime) { return runtime == nullptr ? -1 : runtime->object.node_count(); }
int hmc_runtime_node_of(hmc_runtime_t runtime, int rank) {
  int node = -1;
  (void)with(runtime, "Runtime::node", [&](hmc::Runtime& r) { node = r.node(rank); });
  return node;
}
std::int64_t hmc_runtime_timeout_ns(hmc_runtime_t runtime) {
  return runtime == nullptr ? -1 : std::int64_t{runtime->object.timeout().count()};
}
const char* hmc_runtime_launcher(hmc_runtime_t runtime) {
  return runtime == nullptr ? nullptr : runtime->launcher.c_str();
}
int hmc_runtime_is_replacement(hmc_runtime_t runtime) {
  return runtime != nullptr && runtime->object.is_replacement() ? 1 : 0;
}
hmc_team_t hmc_runtime_world(hmc_runtime_t runtime) { return runtime == nullptr ? nullptr : &runtime->world; }

hmc_code hmc_runtime_path(hmc_runtime_t runtime, int rank, hmc_path* path) {
  constexpr const char* name = "Runtime::path";
  return with(runtime, name, [&](hmc::Runtime& r) { copy_out(path_of(r.path(rank)), path, name); });
}

hmc_code hmc_runtime_counters(hmc_runtime_t runtime, hmc_counters* counters) {
  return with(runtime, "Runtime::counters", [&](hmc::Runtime& r) {
    const hmc::Counters from = r.counters();
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
  (void)with(runtime, "Runtime::abort", [&](hmc::Runtime& r) { r.abort(exit_code, text == nullptr ? "" : text); });
}

// ---- ConnBuffer
namespace {

// Throws Error with a message unless the copy returns SUCCESS. The values of status_t equal the first values of Code.
template <typename Copy> hmc_code copy(hmc_buffer_t buffer, const char* operation, Copy&& copy) {
  return with(buffer, operation, [&](hmc::ConnBuffer& b) {
    const hmc::status_t status = copy(b);
    if (status == hmc::status_t::SUCCESS) return;
    throw hmc::Error(static_cast<hmc::Code>(status), operation,
                     status == hmc::status_t::UNSUPPORT ? "this machine has no such memory"
                                                        : "the range exceeds the buffer, or a pointer is null");
  });
}

}  // namespace

hmc_code hmc_buffer_create(int device_id, std::size_t size, hmc_memory_type type, hmc_buffer_t* buffer) {
  return guarded("ConnBuffer", [&] {
    hmc_buffer_t& out = required(buffer, "ConnBuffer", "the place for the result");
    const auto memory = enum_of<hmc::MemoryType>(type, hmc::memory_type_count, "ConnBuffer", "memory type");
    out = new hmc_buffer{hmc::ConnBuffer(device_id, size, memory)};
  });
}

hmc_code hmc_buffer_borrow(void* address, std::size_t size, hmc_buffer_t* buffer) {
  return guarded("ConnBuffer::borrow", [&] {
    hmc_buffer_t& out = required(buffer, "ConnBuffer::borrow", "the place for the result");
    out = new hmc_buffer{hmc::ConnBuffer::borrow(address, size)};
  });
}

void hmc_buffer_destroy(hmc_buffer_t buffer) { delete buffer; }

void* hmc_buffer_ptr(hmc_buffer_t buffer) { return buffer == nullptr ? nullptr : buffer->object.ptr; }
std::size_t hmc_buffer_size(hmc_buffer_t buffer) { return buffer == nullptr ? 0 : buffer->object.buffer_size; }
hmc_memory_type hmc_buffer_memory_type(hmc_buffer_t buffer) {
  return buffer == nullptr ? HMC_MEMORY_DEFAULT : static_cast<hmc_memory_type>(buffer->object.mem_type);
}
int hmc_buffer_device_id(hmc_buffer_t buffer) { return buffer == nullptr ? -1 : buffer->object.device_id; }

hmc_code hmc_buffer_write_from_cpu(hmc_buffer_t buffer, const void* source, std::size_t bytes, std::size_t bias) {
  return copy(buffer, "writeFromCpu", [&](hmc::ConnBuffer& b) { return b.writeFromCpu(source, bytes, bias); });
}
hmc_code hmc_buffer_read_to_cpu(hmc_buffer_t buffer, void* destination, std::size_t bytes, std::size_t bias) {
  return copy(buffer, "readToCpu", [&](hmc::ConnBuffer& b) { return b.readToCpu(destination, bytes, bias); });
}
hmc_code hmc_buffer_write_from_gpu(hmc_buffer_t buffer, const void* source, std::size_t bytes, std::size_t bias) {
  return copy(buffer, "writeFromGpu", [&](hmc::ConnBuffer& b) { return b.writeFromGpu(source, bytes, bias); });
}
hmc_code hmc_buffer_read_to_gpu(hmc_buffer_t buffer, void* destination, std::size_t bytes, std::size_t bias) {
  return copy(buffer, "readToGpu", [&](hmc::ConnBuffer& b) { return b.readToGpu(destination, bytes, bias); });
}
hmc_code hmc_buffer_copy_within(hmc_buffer_t buffer, std::size_t to, std::size_t from, std::size_t bytes) {
  return copy(buffer, "copyWithin", [&](hmc::ConnBuffer& b) { return b.copyWithin(to, from, bytes); });
}
