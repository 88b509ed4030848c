// What every fake function begins with.
#pragma once

#include "tests/fake_drivers/memory.hpp"
#include "tests/fake_drivers/streams.hpp"

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace fake {

/// Counts the call, fails it where a test asked for that, and else does it. `code_of` gives the
/// vendor's number for a result; `injected` is its number for a failure without a reason.
template <typename CodeOf, typename Work> int call(const char* name, CodeOf code_of, int injected, Work&& work) {
  if (const long code = control().enter(name, injected); code != 0) return static_cast<int>(code);
  return code_of(work());
}

}  // namespace fake
