// The element types of hmc.Buffer, and their Python numbers.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <span>

#include <hmc/types.hpp>

namespace hmc::python {

namespace nb = nanobind;

/// The first of DType, without the pairs of a value and an index.
inline constexpr std::size_t element_count = 14;

struct Element {
  const char* numpy_name;
  const char* typestr;  ///< of the array interfaces; types that numpy doesn't have are raw bytes
  const char* format;   ///< of the struct module; null if it doesn't have the type
  const char* names;    ///< numpy's other names, each between spaces
  nb::dlpack::dtype dlpack;
};
const Element& element_of(DType type) noexcept;

/// A DType, a name of one, or a type of numpy or torch or its name, in native byte order. Throws ValueError.
DType element_type_of(nb::handle object);
/// A Python number as an element, in the first bytes; None is zero. Throws ValueError.
using Number = std::array<std::byte, 8>;
Number number_of(DType type, nb::handle value);
/// Fills `out` with copies of a number of `item` bytes.
void repeat(const Number& number, std::size_t item, std::span<std::byte> out) noexcept;
nb::object number_at(DType type, const std::byte* address);

}  // namespace hmc::python
