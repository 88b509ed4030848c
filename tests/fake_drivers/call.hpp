// The common entry of every fake function.
#pragma once

#include "tests/fake_drivers/memory.hpp"
#include "tests/fake_drivers/streams.hpp"

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace fake {

/// Counts the call. Fails it if a test has armed a failure, else runs `work`. `code_of` converts a result to the
/// vendor's code; `injected` is the vendor's code for an armed failure without a code of its own.
template <typename CodeOf, typename Work> int call(const char* name, CodeOf code_of, int injected, Work&& work) {
  if (const long code = control().enter(name, injected); code != 0) return static_cast<int>(code);
  return code_of(work());
}

}  // namespace fake
