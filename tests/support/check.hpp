// Checks for SPMD tests: a failed check throws, and the harness aborts the whole job, so that no rank hangs.
#pragma once

#include <fmt/format.h>

#include <hmc/error.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace hmc::spmd {

/// Thrown by a failed check.
struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Thrown if the test doesn't apply. Either all ranks throw it or none.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail_check(const char* file, int line, const std::string& text) {
  throw CheckFailed(fmt::format("{}:{}: {}", file, line, text));
}
[[noreturn]] inline void skip(const std::string& why) { throw Skipped(why); }

template <typename T> std::string show(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<long long>(value));
  } else if constexpr (std::is_pointer_v<T>) {
    return fmt::format("{}", static_cast<const void*>(value));
  } else if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else {
    return "(a value)";
  }
}

/// a and b are evaluated once; `holds` compares them.
template <typename A, typename B, typename Compare>
void check_pair(const A& a, const B& b, Compare holds, const char* text, const char* file, int line) {
  if (!holds(a, b)) fail_check(file, line, fmt::format("{}: {} against {}", text, show(a), show(b)));
}

}  // namespace hmc::spmd

#define HMC_CHECK(condition) \
  ((condition) ? void() : ::hmc::spmd::fail_check(__FILE__, __LINE__, "not true: " #condition))
/// Like HMC_CHECK, with a text formatted by fmt::format.
#define HMC_CHECK_MSG(condition, ...) \
  ((condition)                        \
       ? void()                       \
       : ::hmc::spmd::fail_check(__FILE__, __LINE__, "not true: " #condition ": " + ::fmt::format(__VA_ARGS__)))
#define HMC_CHECK_PAIR(a, op, b)                                                                                      \
  ::hmc::spmd::check_pair((a), (b), [](const auto& x, const auto& y) { return x op y; }, #a " " #op " " #b, __FILE__, \
                          __LINE__)
#define HMC_CHECK_EQ(a, b) HMC_CHECK_PAIR(a, ==, b)
#define HMC_CHECK_NE(a, b) HMC_CHECK_PAIR(a, !=, b)
#define HMC_CHECK_LT(a, b) HMC_CHECK_PAIR(a, <, b)
#define HMC_CHECK_LE(a, b) HMC_CHECK_PAIR(a, <=, b)
#define HMC_CHECK_GE(a, b) HMC_CHECK_PAIR(a, >=, b)
/// Checks that the text is empty. A non-empty text is the failure message (Pattern::verify).
#define HMC_CHECK_CLEAN(expression)                                                                                    \
  do {                                                                                                                 \
    if (const std::string wrong_ = (expression); !wrong_.empty()) ::hmc::spmd::fail_check(__FILE__, __LINE__, wrong_); \
  } while (false)
/// Checks that the statement throws hmc::Error with this code.
#define HMC_CHECK_THROWS(expected_code, ...)                                                   \
  do {                                                                                         \
    bool thrown_ = false;                                                                      \
    try {                                                                                      \
      __VA_ARGS__;                                                                             \
    } catch (const ::hmc::Error& error_) {                                                     \
      thrown_ = true;                                                                          \
      HMC_CHECK_MSG(error_.code() == (expected_code), "threw '{}'", error_.what());            \
    }                                                                                          \
    if (!thrown_) ::hmc::spmd::fail_check(__FILE__, __LINE__, "threw nothing: " #__VA_ARGS__); \
  } while (false)
