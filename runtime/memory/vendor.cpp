#include "runtime/memory/vendor.hpp"

#include <fmt/format.h>

namespace hmc::memory {

Code Failures::code_of(const Answer& answer) const noexcept {
  if (answer.ok()) return Code::success;
  if (answer.code == Answer::missing) return Code::unsupported;
  return vendor_.means_out_of_memory(answer.code) ? Code::out_of_memory : Code::error;
}

std::string Failures::text_of(const Answer& answer) const {
  if (answer.code == Answer::missing) return fmt::format("{} has no {}", vendor_.library().path, answer.call);
  const std::string name = vendor_.code_name(answer.code);
  return name.empty() ? fmt::format("{} answered {}", answer.call, answer.code)
                      : fmt::format("{} answered {} ({})", answer.call, name, answer.code);
}

base::Status Failures::to_status(const Answer& answer) const noexcept {
  if (answer.ok()) return {};
  try {
    const std::scoped_lock lock(mutex_);
    std::string& text = texts_[{answer.call, answer.code}];
    if (text.empty()) text = text_of(answer);
    return base::Status::failure(code_of(answer), text.c_str());
  } catch (const std::exception&) {
    return base::Status::failure(code_of(answer), answer.call);
  }
}

void Failures::check(const Answer& answer, std::string_view operation) const {
  if (!answer.ok()) throw Error(code_of(answer), operation, text_of(answer));
}

}  // namespace hmc::memory
