// The inner loops of the bare forms, in the widest registers of this CPU.
#pragma once

#include <cstddef>

namespace hmc::floor {

enum class Stores { plain, stream_second, stream_both };

struct Kernels {
  const char* isa;
  /// out[i] = a[i] + b[i]
  void (*add)(float* out, const float* a, const float* b, std::size_t count);
  /// Writes both outputs. Streaming stores bypass the caches and are fenced before the return.
  void (*add_to_two)(float* first, float* second, const float* a, const float* b, std::size_t count, Stores stores);
};

/// Counts are multiples of 64, pointers of 64 bytes (the second of add_to_two may be one of its inputs).
const Kernels& kernels();

/// Reads all bytes, as a consumer would.
float consume(const float* data, std::size_t count);

}  // namespace hmc::floor
