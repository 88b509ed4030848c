// What all parts of the layer share: results, the last error, log lines, handles, and state that a fork resets.
#pragma once

#include <fmt/format.h>
#include <pthread.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hmc/error.hpp>

#include <smem.h>

namespace hmc::memfabric {

/// A failure with one of MemFabric's codes.
struct Failure : std::runtime_error {
  Failure(std::int32_t with_code, const std::string& text) : std::runtime_error(text), code(with_code) {}
  std::int32_t code;
};

inline void require(bool holds, const char* text) {
  if (!holds) throw Failure(SMEM_INVALID_PARAM, text);
}
template <typename T> T& required(T* argument, const char* text) {
  require(argument != nullptr, text);
  return *argument;
}
/// No flag is ignored.
inline void require_no_flags(std::uint64_t flags) { require(flags == 0, "flags must be 0"); }

std::int32_t code_of(const Error& error) noexcept;
/// Sets the last error of the calling thread, and logs it. Returns `code`.
std::int32_t remember(const char* function, std::int32_t code, const char* text) noexcept;

enum class LogLevel : int { debug, info, warning, error };
bool logs(LogLevel level) noexcept;
void log(LogLevel level, const std::string& text) noexcept;

/// The boundary of a C function: no exception passes it.
template <typename Body> std::int32_t guarded(const char* function, Body&& body) noexcept {
  try {
    body();
    return SMEM_OK;
  } catch (const Failure& failure) {
    return remember(function, failure.code, failure.what());
  } catch (const Error& error) {
    return remember(function, code_of(error), error.what());
  } catch (const std::bad_alloc&) {
    return remember(function, SMEM_MALLOC_FAILED, "out of memory");
  } catch (const std::exception& error) {
    return remember(function, SMEM_ERROR, error.what());
  }
}
template <typename T, typename Body> T guarded_or(const char* function, T failed, Body&& body) noexcept {
  T result = failed;
  return guarded(function, [&] { result = body(); }) == SMEM_OK ? result : failed;
}

/// State of this process. A child of fork() begins with a new one: the parent's threads don't exist there, so the copy
/// of the parent's state is left as it is.
template <typename T> T& per_process() {
  static T* instance = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    instance = new T;
    ::pthread_atfork(nullptr, nullptr, [] { instance = new T; });
  });
  return *instance;
}

/// Objects by their handles. A call keeps the object that it uses, so another thread may destroy the handle meanwhile.
template <typename T> class Handles {
 public:
  void* add(std::shared_ptr<T> object) {
    void* const handle = object.get();
    const std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<T> find(void* handle) {
    const std::lock_guard lock(mutex_);
    return entry(handle)->second;
  }
  std::shared_ptr<T> remove(void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = entry(handle);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  /// Takes the object out until give(): meanwhile calls with this handle fail with SMEM_RESOURCE_IN_USE.
  std::shared_ptr<T> take(void* handle) {
    const std::lock_guard lock(mutex_);
    return std::exchange(entry(handle)->second, nullptr);
  }
  /// Another object for the handle; null: the handle ends. No effect if all handles have ended meanwhile.
  void give(void* handle, std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return;
    found->second = std::move(object);
    if (found->second == nullptr) objects_.erase(found);
  }
  template <typename Predicate> bool any(Predicate&& matches) {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, object] : objects_)
      if (object != nullptr && matches(*object)) return true;
    return false;
  }
  std::map<void*, std::shared_ptr<T>> remove_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(objects_, {});
  }

 private:
  typename std::map<void*, std::shared_ptr<T>>::iterator entry(void* handle) {
    const auto found = objects_.find(handle);
    if (found == objects_.end()) throw Failure(SMEM_INVALID_PARAM, "the handle is null, or was destroyed");
    if (found->second == nullptr) throw Failure(SMEM_RESOURCE_IN_USE, "another thread extends this object");
    return found;
  }

  std::mutex mutex_;
  std::map<void*, std::shared_ptr<T>> objects_;  // null: taken
};

/// A part of a pool: whole blocks, as the original's.
inline constexpr std::uint64_t block_bytes = std::uint64_t{2} << 20;
inline constexpr std::uint64_t most_device_bytes = std::uint64_t{64} << 30;
inline constexpr std::uint64_t most_host_bytes = std::uint64_t{2} << 40;
inline constexpr int no_device = 0xffff;  ///< SMEM_INVALID_DEV_ID in an argument of 16 bits

}  // namespace hmc::memfabric
