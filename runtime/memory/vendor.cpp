#include "runtime/memory/vendor.hpp"

#include <fmt/format.h>

namespace hmc::memory {

Code Failures::code_of(const DriverResult& result) const noexcept {
  if (result.ok()) return Code::success;
  if (result.code == DriverResult::missing) return Code::unsupported;
  return vendor_.means_out_of_memory(result.code) ? Code::out_of_memory : Code::error;
}

std::string Failures::text_of(const DriverResult& result) const {
  if (result.code == DriverResult::missing) return fmt::format("{} has no {}", vendor_.library().path, result.call);
  const std::string name = vendor_.code_name(result.code);
  return name.empty() ? fmt::format("{} answered {}", result.call, result.code)
                      : fmt::format("{} answered {} ({})", result.call, name, result.code);
}

base::Status Failures::to_status(const DriverResult& result) const noexcept {
  if (result.ok()) return {};
  try {
    const std::scoped_lock lock(mutex_);
    std::string& text = texts_[{result.call, result.code}];
    if (text.empty()) text = text_of(result);
    return base::Status::failure(code_of(result), text.c_str());
  } catch (const std::exception&) {
    return base::Status::failure(code_of(result), result.call);
  }
}

void Failures::check(const DriverResult& result, std::string_view operation) const {
  if (!result.ok()) throw Error(code_of(result), operation, text_of(result));
}

}  // namespace hmc::memory
