// The owner of memory that a Python object has lent.
#pragma once

#include <cstddef>
#include <memory>

#include "python/src/array.hpp"

namespace hmc::python {

/// The array's first byte, with an owner that keeps the Python object. Any thread may drop it, with or without the GIL.
std::shared_ptr<std::byte> owner_of(Array array);

}  // namespace hmc::python
