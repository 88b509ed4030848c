#include "python/src/element.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
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

constexpr std::array<Element, element_count> elements{
    {{"int8", "|i1", "b", " b byte ", dlpack_type(Kind::Int, 8)},
     {"uint8", "|u1", "B", " B ubyte ", dlpack_type(Kind::UInt, 8)},
     {"int16", "<i2", "h", " h short ", dlpack_type(Kind::Int, 16)},
     {"uint16", "<u2", "H", " H ushort ", dlpack_type(Kind::UInt, 16)},
     {"int32", "<i4", "i", " i intc ", dlpack_type(Kind::Int, 32)},
     {"uint32", "<u4", "I", " I uintc ", dlpack_type(Kind::UInt, 32)},
     {"int64", "<i8", "l", " l q int long longlong int_ intp ", dlpack_type(Kind::Int, 64)},
     {"uint64", "<u8", "L", " L Q uint ulong ulonglong uintp ", dlpack_type(Kind::UInt, 64)},
     {"float16", "<f2", "e", " e half ", dlpack_type(Kind::Float, 16)},
     {"bfloat16", "<V2", nullptr, " ", dlpack_type(Kind::Bfloat, 16)},
     {"float32", "<f4", "f", " f single ", dlpack_type(Kind::Float, 32)},
     {"float64", "<f8", "d", " d float double ", dlpack_type(Kind::Float, 64)},
     {"float8_e4m3fn", "|V1", nullptr, " ", dlpack_type(Kind::Float8_E4M3FN, 8)},
     {"float8_e5m2", "|V1", nullptr, " ", dlpack_type(Kind::Float8_E5M2, 8)}}};

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
  const bool is_text = nb::isinstance<nb::str>(object);
  if (is_text) {
    name = nb::cast<std::string>(object);
  } else {
    const nb::object named = nb::getattr(object, "name", nb::getattr(object, "__name__", nb::none()));
    name = nb::cast<std::string>(nb::str(named.is_none() ? object : nb::handle(named)));
    name.erase(0, name.rfind('.') + 1);  // torch.float32
    const nb::object order = nb::getattr(object, "byteorder", nb::none());
    if (nb::isinstance<nb::str>(order) && nb::cast<std::string>(order) == ">") name.insert(0, 1, '>');
  }
  if (is_text && (name == "i8" || name == "u8"))
    throw nb::value_error(("Buffer: '" + name +
                           "' has 8 bits as a name of HMC and 8 bytes as numpy's; use int8, int64, "
                           "uint8 or uint64")
                              .c_str());
  const bool has_order = !name.empty() && std::strchr("<=|@", name[0]) != nullptr;
  const std::string spaced = " " + name.substr(has_order ? 1 : 0) + " ";
  std::string text = "Buffer: no element type '" + name + "'; there are";
  const char* separator = " ";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Element& each = elements[i];
    const bool is_numpys = each.format != nullptr && spaced == std::string(" ") + (each.typestr + 1) + " ";
    const bool is_name = name == each.numpy_name || name == hmc::name_of(static_cast<DType>(i));
    if (is_name || is_numpys || std::strstr(each.names, spaced.c_str()) != nullptr) return static_cast<DType>(i);
    text += separator + std::string(each.numpy_name);
    separator = ", ";
  }
  throw nb::value_error(text.c_str());
}

Number number_of(DType type, nb::handle value) {
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
    Number bytes{};
    std::memcpy(bytes.data(), &element, sizeof element);
    return bytes;
  });
}

void repeat(const Number& number, std::size_t item, std::span<std::byte> out) noexcept {
  std::size_t done = std::min(item, out.size());
  if (done > 0) std::memcpy(out.data(), number.data(), done);
  while (done < out.size()) {
    const std::size_t next = std::min(done, out.size() - done);
    std::memcpy(out.data() + done, out.data(), next);
    done += next;
  }
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
