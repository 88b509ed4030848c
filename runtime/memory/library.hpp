// Library: a vendor's shared library, opened at run time. Symbol: one of its functions.
#pragma once

#include <array>
#include <climits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hmc::memory {

/// The result of one call of a vendor's library. Code 0 is success for every vendor.
struct [[nodiscard]] DriverResult {
  const char* call = "";
  long code = 0;
  bool ok() const noexcept { return code == 0; }
  /// The code of a call to a function that this library doesn't have.
  static constexpr long missing = LONG_MIN;
};

/// File names of a vendor's library. The first of `files` that opens is used. If the environment variable `variable` is
/// set, only the file that it names is tried; `none` disables the library.
struct LibraryNames {
  const char* variable;
  std::array<const char*, 5> files;  ///< ends at the first null
};

/// Never unloaded, because vendors' libraries keep threads.
class Library {
 public:
  /// Doesn't throw if the library is missing: see why_not().
  explicit Library(const LibraryNames& names);
  /// True if the library is loaded in this process. Otherwise no pointer of this process belongs to it.
  static bool is_loaded(const LibraryNames& names) noexcept;
  /// The loader's count of all libraries that this process has loaded so far; at least 1. Much cheaper than
  /// is_loaded(), which searches the library path: its answer stays false until the count changes.
  static unsigned long long loads() noexcept;

  /// Empty if the library is open and has every required symbol.
  std::string why_not() const;
  const std::string& path() const noexcept { return path_; }

  void* find(const char* name) const noexcept;
  /// As find(). If the symbol is missing, why_not() reports it.
  void* demand(const char* name);

 private:
  void open(const char* name);

  void* handle_ = nullptr;
  std::string path_;
  std::string why_not_;
  std::string missing_;
};

/// For calls that query completion: "not yet" isn't a failure.
inline DriverResult done_or(bool& done, DriverResult result, bool not_yet) noexcept {
  done = result.ok();
  if (not_yet) result.code = 0;
  return result;
}

enum class Need { required, optional };

/// A function of the library. A call to a missing function returns DriverResult::missing.
template <typename Signature> class Symbol;
template <typename Result, typename... Args> class Symbol<Result(Args...)> {
 public:
  using Function = Result (*)(Args...);
  Symbol(Library& library, const char* name, Need need = Need::required)
      : name_(name),
        function_(reinterpret_cast<Function>(need == Need::required ? library.demand(name) : library.find(name))) {}

  DriverResult operator()(Args... args) const noexcept requires std::is_integral_v<Result> {
    if (function_ == nullptr) return {name_, DriverResult::missing};
    return {name_, static_cast<long>(function_(args...))};
  }
  explicit operator bool() const noexcept { return function_ != nullptr; }
  const char* name() const noexcept { return name_; }
  /// For functions that don't return a code.
  Function raw() const noexcept { return function_; }

 private:
  const char* name_;
  Function function_;
};

}  // namespace hmc::memory
