// The element types of hmc.Buffer, and their Python numbers.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <vector>

#include <hmc/types.hpp>

namespace hmc::python {

namespace nb = nanobind;

/// The first of DType, without the pairs of a value and an index.
inline constexpr std::size_t element_count = 14;

struct Element {
  const char* numpy_name;
  const char* typestr;  ///< of the array interfaces; types that numpy doesn't have are raw bytes
  nb::dlpack::dtype dlpack;
};
const Element& element_of(DType type) noexcept;

/// A DType, a name of one, or a type of numpy or torch or its name. Throws ValueError.
DType element_type_of(nb::handle object);
/// `count` copies of a Python number, as elements; None is zero. Throws ValueError.
std::vector<std::byte> filled(DType type, std::size_t count, nb::handle value);
nb::object number_at(DType type, const std::byte* address);

}  // namespace hmc::python
