// Shared by the sources of the C ABI. They use only the public C++ API.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <string>

#include <hmc/hmc_c.h>
#include <hmc/hmc.hpp>

/// A user-defined reduction, as a C caller passes it.
struct hmc_user_function {
  hmc_reduce_function function;
  void* context;
};

// The objects behind the handles. `name`: for error texts.
struct hmc_team {
  static constexpr const char* name = "the team";
  hmc::Team object;
  bool is_world = false;                     // the runtime owns it
  std::list<hmc_user_function> functions{};  // non-blocking calls point to the entries; no duplicates
};

struct hmc_plan {
  static constexpr const char* name = "the plan";
  hmc_user_function user{};  // referenced by the plan
  hmc::Plan object;
};

struct hmc_runtime {
  static constexpr const char* name = "the runtime";
  hmc::Runtime object;
  hmc_team world;
  std::string launcher;
};

struct hmc_buffer {
  static constexpr const char* name = "the buffer";
  hmc::ConnBuffer object;
};

struct hmc_registration {
  static constexpr const char* name = "the registration";
  hmc::Registration object;
};

struct hmc_window {
  static constexpr const char* name = "the window";
  hmc::Window object;
};

namespace hmc::c_api {

/// Stores the failure for hmc_last_error() and returns its code.
hmc_code remember(const Error& error) noexcept;
hmc_code remember(Code code, const char* operation, const char* text) noexcept;

/// Runs one call of the C++ API and converts exceptions to codes.
template <typename Call> hmc_code guarded(const char* operation, Call&& call) noexcept {
  try {
    call();
    return HMC_SUCCESS;
  } catch (const Error& error) {
    return remember(error);
  } catch (const std::bad_alloc&) {
    return remember(Code::out_of_memory, operation, "no memory");
  } catch (const std::exception& error) {
    return remember(Code::error, operation, error.what());
  }
}

template <typename T> T& required(T* pointer, const char* operation, const char* name) {
  if (pointer == nullptr) throw Error(Code::invalid_argument, operation, std::string(name) + " is null");
  return *pointer;
}

template <typename Handle> auto& object_of(Handle* handle, const char* operation) {
  return required(handle, operation, Handle::name).object;
}

/// Runs `call` with the object behind a handle.
template <typename Handle, typename Call> hmc_code with(Handle* handle, const char* operation, Call&& call) noexcept {
  return guarded(operation, [&] { call(object_of(handle, operation)); });
}

/// As with(); stores the result of `call`.
template <typename Handle, typename Result, typename Call>
hmc_code query(Handle* handle, const char* operation, Result* result, Call&& call) noexcept {
  return guarded(operation, [&] {
    Result& out = required(result, operation, "the place for the result");
    out = call(object_of(handle, operation));
  });
}

inline Timeout timeout_of(std::int64_t timeout_ns) { return Timeout{timeout_ns}; }

/// Converts a request to plain bytes, which own the operation from then on.
hmc_request_t to_c(Request request);

/// Converts a C enum value that is below `count`. Throws Error{invalid_argument} if it is out of range. C permits any
/// number; C++ doesn't, so its bytes are copied.
template <typename To, typename From>
To enum_of(const From& value, int count, const char* operation, const char* name) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  if (number < 0 || number >= count) {
    throw Error(Code::invalid_argument, operation, std::string(name) + " " + std::to_string(number) + " doesn't exist");
  }
  return static_cast<To>(number);
}

inline DType dtype_of(const hmc_dtype& type, const char* operation) {
  return enum_of<DType>(type, dtype_count, operation, "element type");
}
inline Op op_of(const hmc_op& op, const char* operation) { return enum_of<Op>(op, op_count, operation, "operation"); }

hmc_path path_of(const Path& path);

/// Output struct: copies only the fields within the caller's struct_size.
template <typename T> void copy_out(const T& full, T* out, const char* operation) {
  const std::size_t known = required(out, operation, "the struct").struct_size;
  if (known < sizeof(std::size_t)) throw Error(Code::invalid_argument, operation, "struct_size isn't set");
  std::memcpy(out, &full, std::min(known, sizeof(T)));
  out->struct_size = known;
}

/// Input struct: copies the fields within the caller's struct_size. The others are zero.
template <typename T> T copy_in(const T* in, const char* operation) {
  const std::size_t known = required(in, operation, "the struct").struct_size;
  if (known < sizeof(std::size_t)) throw Error(Code::invalid_argument, operation, "struct_size isn't set");
  T full{};
  std::memcpy(&full, in, std::min(known, sizeof(T)));
  return full;
}

}  // namespace hmc::c_api
