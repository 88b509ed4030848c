// Library: a vendor's shared library, opened at run time, and the symbols that are taken from it.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hmc::memory {

/// What one call of a vendor's library answered. 0 is success with all of them.
struct [[nodiscard]] Answer {
  const char* call = "";
  long code = 0;
  bool ok() const noexcept { return code == 0; }
  /// The code of a call that this library doesn't have.
  static constexpr long missing = LONG_MIN;
};

/// Where a vendor's library is looked for: the first of `files` that there is, or just the file that
/// `variable` of the environment names; `none` there turns the library off.
struct LibraryNames {
  const char* variable;
  std::array<const char*, 5> files;  ///< null: no more
};

/// Never unloaded: vendors' libraries keep threads.
class Library {
 public:
  /// Never throws for a library that isn't there.
  explicit Library(const LibraryNames& names);
  /// Somebody in this process has opened it. While nobody has, none of its memory can be here.
  static bool is_loaded(const LibraryNames& names) noexcept;
  /// Whether any library was loaded into this process since this was asked with the same `seen`, which starts at 0.
  /// Far cheaper than to ask for names.
  static bool any_loaded_since(std::atomic<unsigned long long>& seen) noexcept;

  /// Empty when it is open and has every symbol that it must have.
  std::string why_not() const;
  const std::string& path() const noexcept { return path_; }

  void* find(const char* name) const noexcept;
  /// The same, remembering that it must be there.
  void* demand(const char* name);

 private:
  void open(const char* name);

  void* handle_ = nullptr;
  std::string path_;
  std::string why_not_;
  std::string missing_;
};

/// For the calls that ask whether work is done: "not yet" is no failure.
inline Answer done_or(bool& done, Answer answer, bool not_yet) noexcept {
  done = answer.ok();
  if (not_yet) answer.code = 0;
  return answer;
}

enum class Need { required, optional };

/// A function of the library under its name there. Calling one that isn't there is an Answer too.
template <typename Signature> class Symbol;
template <typename Result, typename... Args> class Symbol<Result(Args...)> {
 public:
  using Function = Result (*)(Args...);
  Symbol(Library& library, const char* name, Need need = Need::required)
      : name_(name),
        function_(reinterpret_cast<Function>(need == Need::required ? library.demand(name) : library.find(name))) {}

  Answer operator()(Args... args) const noexcept requires std::is_integral_v<Result> {
    if (function_ == nullptr) return {name_, Answer::missing};
    return {name_, static_cast<long>(function_(args...))};
  }
  explicit operator bool() const noexcept { return function_ != nullptr; }
  const char* name() const noexcept { return name_; }
  /// For those that don't answer with a code.
  Function raw() const noexcept { return function_; }

 private:
  const char* name_;
  Function function_;
};

}  // namespace hmc::memory
