// The memory of hmc.Buffer in calls, and the owner of memory that a Python object has lent.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <hmc/types.hpp>

#include "python/src/array.hpp"

namespace hmc::python {

/// The memory of an hmc.Buffer or an hmc.BufferView.
struct Lent {
  std::shared_ptr<std::byte> first;
  std::size_t bytes;
  DType type;
  bool is_gpu;  ///< CUDA's or HIP's
};
/// Waits for the Buffer's transfers. Empty if the object is neither of the two.
std::optional<Lent> lent_by(nb::handle object);

/// The array's first byte, with an owner that keeps the Python object. Any thread may drop it, with or without the GIL.
/// The owner of a raw DLPack capsule consumes it.
std::shared_ptr<std::byte> owner_of(Array array);

/// While it exists, its thread drops no Python object of owner_of(): a finalizer could call what the thread has locked.
/// Its destructor, which needs the GIL, drops them.
class Deferral {
 public:
  Deferral() noexcept;
  ~Deferral();
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;

 private:
  friend std::shared_ptr<std::byte> owner_of(Array array);
  struct Kept {
    Array array;
    Kept* next = nullptr;
  };
  Deferral* outer_;
  Kept* first_ = nullptr;
  static thread_local Deferral* current;
};

}  // namespace hmc::python
