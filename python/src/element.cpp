#include "python/src/element.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace hmc::python {

namespace {

constexpr nb::dlpack::dtype dlpack_type(nb::dlpack::dtype_code code, int bits) {
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
}
using Kind = nb::dlpack::dtype_code;

constexpr std::array<Element, element_count> elements{{{"int8", "|i1", dlpack_type(Kind::Int, 8)},
                                                       {"uint8", "|u1", dlpack_type(Kind::UInt, 8)},
                                                       {"int16", "<i2", dlpack_type(Kind::Int, 16)},
                                                       {"uint16", "<u2", dlpack_type(Kind::UInt, 16)},
                                                       {"int32", "<i4", dlpack_type(Kind::Int, 32)},
                                                       {"uint32", "<u4", dlpack_type(Kind::UInt, 32)},
                                                       {"int64", "<i8", dlpack_type(Kind::Int, 64)},
                                                       {"uint64", "<u8", dlpack_type(Kind::UInt, 64)},
                                                       {"float16", "<f2", dlpack_type(Kind::Float, 16)},
                                                       {"bfloat16", "<V2", dlpack_type(Kind::Bfloat, 16)},
                                                       {"float32", "<f4", dlpack_type(Kind::Float, 32)},
                                                       {"float64", "<f8", dlpack_type(Kind::Float, 64)},
                                                       {"float8_e4m3fn", "|V1", dlpack_type(Kind::Float8_E4M3FN, 8)},
                                                       {"float8_e5m2", "|V1", dlpack_type(Kind::Float8_E5M2, 8)}}};

/// Calls function(T{}) with the C++ type.
template <typename Function> auto with_type(DType type, const Function& function) {
  switch (type) {
    case DType::i8: return function(std::int8_t{});
    case DType::u8: return function(std::uint8_t{});
    case DType::i16: return function(std::int16_t{});
    case DType::u16: return function(std::uint16_t{});
    case DType::i32: return function(std::int32_t{});
    case DType::u32: return function(std::uint32_t{});
    case DType::i64: return function(std::int64_t{});
    case DType::u64: return function(std::uint64_t{});
    case DType::f16: return function(hmc::float16{});
    case DType::bf16: return function(hmc::bfloat16{});
    case DType::f32: return function(float{});
    case DType::e4m3: return function(hmc::float8_e4m3{});
    case DType::e5m2: return function(hmc::float8_e5m2{});
    default: return function(double{});
  }
}

}  // namespace

const Element& element_of(DType type) noexcept { return elements[static_cast<std::size_t>(type)]; }

DType element_type_of(nb::handle object) {
  std::string name;
  if (nb::isinstance<nb::str>(object)) {
    name = nb::cast<std::string>(object);
  } else {
    const nb::object named = nb::getattr(object, "name", nb::getattr(object, "__name__", nb::none()));
    name = nb::cast<std::string>(nb::str(named.is_none() ? object : nb::handle(named)));
    name.erase(0, name.rfind('.') + 1);  // torch.float32
  }
  if (name == "float") return DType::f64;
  if (name == "int") return DType::i64;
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (name == elements[i].numpy_name || name == hmc::name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  std::string text = "Buffer: no element type '" + name + "'; there are";
  for (const Element& each : elements) text += std::string(" ") + each.numpy_name;
  throw nb::value_error(text.c_str());
}

std::vector<std::byte> filled(DType type, std::size_t count, nb::handle value) {
  return with_type(type, [&](auto kind) {
    using T = decltype(kind);
    T element{};
    if constexpr (std::is_integral_v<T>) {
      if (!value.is_none() && !nb::try_cast(value, element))
        throw nb::value_error("Buffer: the value isn't an integer of the element type");
    } else {
      double number = 0;
      if (!value.is_none() && !nb::try_cast(value, number)) throw nb::value_error("Buffer: the value isn't a number");
      if constexpr (std::is_same_v<T, double>)
        element = number;
      else
        element = static_cast<T>(static_cast<float>(number));
    }
    std::vector<std::byte> bytes(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    return bytes;
  });
}

nb::object number_at(DType type, const std::byte* address) {
  return with_type(type, [&](auto kind) -> nb::object {
    using T = decltype(kind);
    T element;
    std::memcpy(&element, address, sizeof element);
    if constexpr (std::is_integral_v<T>)
      return nb::int_(element);
    else if constexpr (std::is_same_v<T, double>)
      return nb::float_(element);
    else
      return nb::float_(static_cast<double>(static_cast<float>(element)));
  });
}

}  // namespace hmc::python
