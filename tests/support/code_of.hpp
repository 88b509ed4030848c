// The code or the text of the error that a call throws, for tests that check only that.
#pragma once

#include <functional>
#include <string>

#include <hmc/error.hpp>

namespace hmc {

inline Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::success;
}

inline std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace hmc
