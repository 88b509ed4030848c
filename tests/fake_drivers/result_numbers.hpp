// CUDA's result codes, which HIP and MUSA share.
#pragma once

#include "tests/fake_drivers/call.hpp"

namespace fake {

inline int code_of(Result result) {
  switch (result) {
    case Result::ok: return 0;
    case Result::invalid_value: return 1;
    case Result::out_of_memory: return 2;
    case Result::not_initialized: return 3;
    case Result::invalid_device: return 101;
    case Result::invalid_context: return 201;
    case Result::already_mapped: return 208;
    case Result::invalid_handle:
    case Result::other_context: return 400;
    case Result::not_ready: return 600;
    case Result::not_supported: return 801;
  }
  return 999;
}

}  // namespace fake
