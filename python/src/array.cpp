#include "python/src/array.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/buffer.hpp>

#include "python/src/buffer.hpp"
#include "python/src/dlpack.hpp"

namespace hmc::python {

namespace {

[[noreturn]] void throw_error(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw nb::python_error();
}

std::string intro(const char* operation, const char* name) { return std::string(operation) + ": " + name; }

[[noreturn]] void throw_read_only(const char* operation, const char* name) {
  throw_error(PyExc_BufferError, intro(operation, name) + " is read-only, and the call writes it");
}

[[noreturn]] void throw_objects(const char* operation, const char* name) {
  throw_error(PyExc_TypeError, intro(operation, name) +
                                   " has elements of type object: pointers, which are valid in this process only "
                                   "(functions with _object in their name take any object)");
}

/// True if a format of the struct module has a reference to an object, also in a record: "O", "T{l:name:O:other:}".
bool has_objects(std::string_view format) noexcept {
  bool in_name = false;
  for (const char c : format) {
    if (c == ':') in_name = !in_name;
    if (c == 'O' && !in_name) return true;
  }
  return false;
}

/// The same of the `descr` of an __array_interface__: tuples (name, type or nested descr, shape if any).
bool has_objects(nb::handle descr) {
  for (const nb::handle field : descr) {
    const nb::object type = field[1];
    if (nb::isinstance<nb::str>(type) ? nb::cast<std::string>(type).find('O') != std::string::npos : has_objects(type))
      return true;
  }
  return false;
}

/// An integer of an array interface. Throws TypeError.
template <typename Number>
Number number_of(const char* operation, const char* name, nb::handle value, const char* what) {
  Number number{};
  if (!nb::try_cast(value, number))
    throw_error(PyExc_TypeError,
                intro(operation, name) + " has an array interface whose " + what + " isn't an integer");
  return number;
}

/// `strides` are in units of `unit` bytes.
template <typename Number>
[[noreturn]] void throw_scattered(const char* operation, const char* name, int dimensions, const Number* shape,
                                  const Number* strides, std::size_t unit) {
  std::string text = intro(operation, name) + " isn't C-contiguous: shape (", bytes;
  for (int i = 0; i < dimensions; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    bytes += (i > 0 ? ", " : "") + std::to_string(strides[i] * static_cast<Number>(unit));
  }
  throw_error(PyExc_ValueError, text + "), strides (" + bytes +
                                    ") in bytes; pass a contiguous array, for example numpy.ascontiguousarray(array)");
}

template <typename Number>
bool is_contiguous(int dimensions, const Number* shape, const Number* strides, std::size_t item) noexcept {
  auto expected = static_cast<Number>(item);
  bool is_dense = true;
  for (int i = dimensions; i-- > 0;) {
    if (shape[i] == 0) return true;
    is_dense = is_dense && (shape[i] == 1 || strides[i] == expected);
    expected *= shape[i];
  }
  return is_dense;
}

std::optional<DType> integer(std::size_t bytes, bool is_signed) noexcept {
  switch (bytes) {
    case 1: return is_signed ? DType::i8 : DType::u8;
    case 2: return is_signed ? DType::i16 : DType::u16;
    case 4: return is_signed ? DType::i32 : DType::u32;
    case 8: return is_signed ? DType::i64 : DType::u64;
    default: return std::nullopt;
  }
}

std::optional<DType> floating(std::size_t bytes) noexcept {
  switch (bytes) {
    case 2: return DType::f16;
    case 4: return DType::f32;
    case 8: return DType::f64;
    default: return std::nullopt;
  }
}

/// A format of the struct module. Empty for types that collectives don't reduce, for example of another byte order.
std::optional<DType> type_of_format(std::string_view format, std::size_t item) noexcept {
  if (format.starts_with("T{") && format.ends_with("}")) {  // a record: the value, then its index
    char kinds[2]{};
    std::size_t fields = 0;
    bool in_name = false;
    for (const char c : format.substr(2, format.size() - 3)) {
      if (c == ':') {
        in_name = !in_name;
      } else if (!in_name && c != '=' && c != '@' && c != '<' && c != '^') {
        if (fields == 2) return std::nullopt;
        kinds[fields++] = c;
      }
    }
    const bool is_long = kinds[1] == 'q' || kinds[1] == 'l';
    if (fields != 2) return std::nullopt;
    if (item == 8 && kinds[1] == 'i')
      return kinds[0] == 'i'   ? std::optional(DType::located_i32)
             : kinds[0] == 'f' ? std::optional(DType::located_f32)
                               : std::nullopt;
    if (item == 16 && is_long)
      return kinds[0] == 'q' || kinds[0] == 'l' ? std::optional(DType::located_i64)
             : kinds[0] == 'd'                  ? std::optional(DType::located_f64)
                                                : std::nullopt;
    return std::nullopt;
  }
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  if (std::strchr("bhilqn", format[0]) != nullptr) return integer(item, true);
  if (std::strchr("BHILQN", format[0]) != nullptr) return integer(item, false);
  return std::strchr("efd", format[0]) != nullptr ? floating(item) : std::nullopt;
}

std::optional<DType> type_of_dlpack(nb::dlpack::dtype type) noexcept {
  using Kind = nb::dlpack::dtype_code;
  if (type.lanes != 1 || type.bits % 8 != 0) return std::nullopt;
  switch (static_cast<Kind>(type.code)) {
    case Kind::Int: return integer(type.bits / 8, true);
    case Kind::UInt: return integer(type.bits / 8, false);
    case Kind::Float: return floating(type.bits / 8);
    case Kind::Bfloat: return type.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
    case Kind::Float8_E4M3FN: return DType::e4m3;
    case Kind::Float8_E5M2: return DType::e5m2;
    default: return std::nullopt;
  }
}

/// Waits for the work of a stream that may still write or read the memory.
void await_stream(const char* operation, const char* name, const void* address, void* stream) {
  const hmc::Place place = hmc::Place::of(address);
  if (place.allocator == hmc::Allocator::host_malloc)
    throw_error(
        PyExc_ValueError,
        intro(operation, name) + " is in device memory, but no vendor library that HMC has opened knows this address");
  const nb::gil_scoped_release unlocked;
  hmc::Buffer<std::byte>(place, {hmc::TransferMode::async, stream}).synchronize();
}

/// The tensor of a DLPack capsule; null if the object is no capsule with one.
const nb::dlpack::dltensor* tensor_of(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0)
    return &static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"))->tensor;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0)
    return &static_cast<LegacyTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
  return nullptr;
}

/// Takes the tensor out of a capsule, as its consumer; null if another consumer was faster.
template <typename Tensor> std::unique_ptr<void, void (*)(void*)> consume(PyObject* capsule) noexcept {
  using Owned = std::unique_ptr<void, void (*)(void*)>;
  constexpr bool is_versioned = std::is_same_v<Tensor, VersionedTensor>;
  const char* const name = is_versioned ? "dltensor_versioned" : "dltensor";
  if (PyCapsule_IsValid(capsule, name) == 0) return Owned(nullptr, nullptr);
  void* const tensor = PyCapsule_GetPointer(capsule, name);
  PyCapsule_SetName(capsule, is_versioned ? "used_dltensor_versioned" : "used_dltensor");
  return Owned(tensor, [](void* each) {
    auto* const owned = static_cast<Tensor*>(each);
    if (owned->deleter != nullptr) owned->deleter(owned);
  });
}

/// Calls the object's __dlpack__. `stream`: DLPack's number of the stream on which the caller uses the memory.
nb::object capsule_of(nb::handle object, std::optional<int> stream) {
  const nb::object make = object.attr("__dlpack__");
  try {
    const nb::tuple version = nb::make_tuple(1, 1);
    return stream ? make(nb::arg("max_version") = version, nb::arg("stream") = *stream)
                  : make(nb::arg("max_version") = version);
  } catch (nb::python_error& error) {  // DLPack before 1.0
    if (!error.matches(PyExc_TypeError)) throw;
    return stream ? make(nb::arg("stream") = *stream) : make();
  }
}

/// numpy's arrays in C. The layout is part of numpy's ABI, which is stable since numpy 1.7. The buffer protocol takes
/// 0.2 us per numpy array, as long as a small put; these fields take some nanoseconds. Used only after a comparison
/// with the buffer protocol (is_plain_numpy).
struct NumpyType {
  PyObject_HEAD PyTypeObject* scalar;
  char kind, character, byte_order, flags;
  int number;
};
struct NumpyArray {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  NumpyType* type;
  int flags;
  static constexpr int contiguous = 0x1, writable = 0x400;
};
struct NumpyElement {
  std::size_t bytes = 0;
  std::optional<DType> type;
};
constexpr DType of_long = sizeof(long) == 8 ? DType::i64 : DType::i32;
constexpr DType of_ulong = sizeof(long) == 8 ? DType::u64 : DType::u32;
// By numpy's type number: bool, then the C types from signed char to double.
const NumpyElement numpy_elements[] = {
    {1, std::nullopt}, {1, DType::i8},  {1, DType::u8},          {2, DType::i16},          {2, DType::u16},
    {4, DType::i32},   {4, DType::u32}, {sizeof(long), of_long}, {sizeof(long), of_ulong}, {8, DType::i64},
    {8, DType::u64},   {4, DType::f32}, {8, DType::f64}};
constexpr int numpy_half = 23;
const NumpyElement numpy_half_element{2, DType::f16};

const NumpyElement* element_of(const NumpyArray& array) noexcept {
  const int number = array.type->number;
  if (array.type->byte_order == '>' || array.type->byte_order == '<') return nullptr;  // not native
  if (static_cast<unsigned>(number) < std::size(numpy_elements)) return &numpy_elements[number];
  return number == numpy_half ? &numpy_half_element : nullptr;
}

std::size_t items_of(const NumpyArray& array) noexcept {
  Py_ssize_t items = 1;
  for (int i = 0; i < array.dimensions; ++i) items *= array.shape[i];
  return static_cast<std::size_t>(items);
}

// numpy.ndarray, once an array has confirmed the layout; `refused` if it hasn't. Relaxed: the values order no data.
std::atomic<PyTypeObject*> numpy_type{nullptr};
std::atomic<bool> refused{false};

/// For the first array: compares each field with the buffer protocol. It has at least one dimension and is contiguous,
/// writable and of a plain type, so that a wrong field differs.
[[gnu::noinline]] bool is_plain_numpy(PyObject* object) {
  if (numpy_type.load(std::memory_order_relaxed) != nullptr || refused.load(std::memory_order_relaxed)) return false;
  if (std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") != 0) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS) != 0) {
    PyErr_Clear();
    return false;
  }
  bool same = false;
  if (view.ndim >= 1 && view.len > 0 && PyBuffer_IsContiguous(&view, 'C') != 0) {
    const auto& array = *reinterpret_cast<NumpyArray*>(object);
    same = array.dimensions == view.ndim && array.data == view.buf && (array.flags & NumpyArray::contiguous) != 0 &&
           (array.flags & NumpyArray::writable) != 0;
    for (int i = 0; same && i < view.ndim; ++i)
      same = array.shape[i] == view.shape[i] && array.strides[i] == view.strides[i];
    const NumpyElement* const element = same ? element_of(array) : nullptr;
    if (element != nullptr && element->type.has_value()) {
      same = element->bytes == static_cast<std::size_t>(view.itemsize) &&
             element->type == type_of_format(view.format, element->bytes);
      if (same) numpy_type.store(Py_TYPE(object), std::memory_order_relaxed);
    }
    if (!same) refused.store(true, std::memory_order_relaxed);
    same = same && numpy_type.load(std::memory_order_relaxed) != nullptr;
  }
  PyBuffer_Release(&view);
  return same;
}

}  // namespace

Array::Array(const char* operation, const char* name, nb::handle object, Access access) : object_(object) {
  PyObject* const o = object.ptr();
  if (Py_TYPE(o) == numpy_type.load(std::memory_order_relaxed) || is_plain_numpy(o)) {
    const auto& array = *reinterpret_cast<NumpyArray*>(o);
    const NumpyElement* const element = element_of(array);
    constexpr int wanted = NumpyArray::contiguous;
    if (element != nullptr && (array.flags & wanted) != 0) [[likely]] {
      if (access == Access::write && (array.flags & NumpyArray::writable) == 0) throw_read_only(operation, name);
      data_ = array.data;
      itemsize_ = element->bytes;
      bytes_ = items_of(array) * itemsize_;
      type_ = element->type;
      return;
    }
  }
  if (std::optional<Lent> lent = lent_by(object)) {
    from_hmc(operation, name, *std::move(lent));
  } else if (PyObject_CheckBuffer(o) && from_buffer(operation, name, access)) {
    return;
  } else if (PyCapsule_CheckExact(o)) {
    from_dlpack(operation, name, object, access);
  } else if (nb::hasattr(object, "__dlpack__")) {
    holder_ = capsule_of(object, std::nullopt);
    // The exporter orders its work on device memory before the consumer's stream, which then is the legacy default
    // stream: number 1 in CUDA, 0 in ROCm.
    const nb::dlpack::dltensor* const tensor = tensor_of(holder_);
    const int device = tensor == nullptr ? dlpack_device::cpu : tensor->device.device_type;
    const bool is_cuda = device == dlpack_device::cuda || device == dlpack_device::cuda_managed;
    if (is_cuda || device == dlpack_device::rocm) holder_ = capsule_of(object, is_cuda ? 1 : 0);
    from_dlpack(operation, name, holder_, access);
    if (bytes_ > 0 && (is_cuda || device == dlpack_device::rocm)) await_stream(operation, name, data_, nullptr);
  } else if (nb::hasattr(object, "__cuda_array_interface__")) {
    holder_ = object.attr("__cuda_array_interface__");
    from_interface(operation, name, holder_, access);
    // Null or absent: no work is in flight. 1: the legacy default stream, which is null for the drivers.
    const nb::object stream = holder_.attr("get")("stream");
    const auto handle = stream.is_none() ? std::uintptr_t{1} : nb::cast<std::uintptr_t>(stream);
    if (handle == 0)
      throw_error(PyExc_ValueError, intro(operation, name) +
                                        ": stream 0 is invalid in __cuda_array_interface__; 1 is "
                                        "the legacy default stream");
    if (!stream.is_none() && bytes_ > 0)
      await_stream(operation, name, data_, reinterpret_cast<void*>(handle == 1 ? 0 : handle));
  } else if (nb::hasattr(object, "__array_interface__")) {
    holder_ = object.attr("__array_interface__");
    from_interface(operation, name, holder_, access);
  } else {
    throw_error(PyExc_TypeError, intro(operation, name) + " is a " + Py_TYPE(o)->tp_name +
                                     "; it must have the buffer protocol, DLPack, __cuda_array_interface__ or "
                                     "__array_interface__ (functions with _object in their name take any object)");
  }
}

bool Array::from_buffer(const char* operation, const char* name, Access access) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object_.ptr(), view.get(), PyBUF_RECORDS_RO) != 0) {
    const nb::python_error refusal;                                      // the current error, which it clears
    if (nb::hasattr(object_, "__cuda_array_interface__")) return false;  // cupy's arrays are in device memory
    // numpy has no buffers of some types, such as datetime64 and those of ml_dtypes.
    if (!nb::hasattr(object_, "__array_interface__")) throw nb::python_error(refusal);
    holder_ = object_.attr("__array_interface__");
    from_interface(operation, name, holder_, access);
    return true;
  }
  view_.reset(view.release());
  const std::string_view format = view_->format != nullptr ? view_->format : "B";
  if (has_objects(format)) throw_objects(operation, name);
  if (PyBuffer_IsContiguous(view_.get(), 'C') == 0)
    throw_scattered(operation, name, view_->ndim, view_->shape, view_->strides, 1);
  if (access == Access::write && view_->readonly != 0) throw_read_only(operation, name);
  data_ = view_->buf;
  bytes_ = static_cast<std::size_t>(view_->len);
  itemsize_ = static_cast<std::size_t>(view_->itemsize);
  type_ = type_of_format(format, itemsize_);
  return true;
}

/// Kernels that the program has queued on the default stream may use a Buffer's memory, for example cupy's.
void Array::from_hmc(const char* operation, const char* name, Lent lent) {
  memory_ = std::move(lent.first);
  data_ = memory_.get();
  itemsize_ = size_of(lent.type);
  bytes_ = lent.bytes;
  type_ = lent.type;
  if (lent.is_gpu && bytes_ > 0) await_stream(operation, name, data_, nullptr);
}

/// The tensor stays the capsule's until keep().
void Array::from_dlpack(const char* operation, const char* name, nb::handle capsule, Access access) {
  const nb::dlpack::dltensor* const tensor = tensor_of(capsule);
  if (tensor == nullptr)
    throw_error(PyExc_TypeError, intro(operation, name) + " is a capsule without a DLPack tensor, or a used one");
  holder_ = nb::borrow(capsule);
  bool read_only = false;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto& all = *static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (all.major != 1)
      throw_error(PyExc_BufferError, intro(operation, name) + " has version " + std::to_string(all.major) +
                                         " of DLPack; this library reads versions 0 and 1");
    read_only = (all.flags & VersionedTensor::read_only) != 0;
  }
  itemsize_ = std::size_t{tensor->dtype.bits} * tensor->dtype.lanes / 8;
  if (itemsize_ == 0) throw_error(PyExc_TypeError, intro(operation, name) + " has elements of less than a byte");
  std::size_t items = 1;
  for (int i = 0; i < tensor->ndim; ++i) items *= static_cast<std::size_t>(tensor->shape[i]);
  // Strides count elements; null: contiguous.
  if (tensor->strides != nullptr && !is_contiguous(tensor->ndim, tensor->shape, tensor->strides, 1))
    throw_scattered(operation, name, tensor->ndim, tensor->shape, tensor->strides, itemsize_);
  if (access == Access::write && read_only) throw_read_only(operation, name);
  data_ = static_cast<char*>(tensor->data) + tensor->byte_offset;
  bytes_ = items * itemsize_;
  type_ = type_of_dlpack(tensor->dtype);
}

/// The dictionary of __array_interface__ (host memory) and __cuda_array_interface__ (device memory).
void Array::from_interface(const char* operation, const char* name, nb::handle interface, Access access) {
  const auto typestr = nb::cast<std::string>(interface["typestr"]);
  if (typestr.size() >= 2 && typestr[1] == 'O') throw_objects(operation, name);
  const nb::object descr = interface.attr("get")("descr");
  if (!descr.is_none() && has_objects(descr)) throw_objects(operation, name);
  if (typestr.size() < 3 || std::strchr("biufcmMSUV", typestr[1]) == nullptr)
    throw_error(PyExc_TypeError, intro(operation, name) + " has elements of the type '" + typestr +
                                     "', which are no bytes in the array itself");
  constexpr std::size_t bytes_of_character = 4;  // a text's length counts characters
  itemsize_ = std::stoul(typestr.substr(2)) * (typestr[1] == 'U' ? bytes_of_character : 1);
  if (!nb::object(interface.attr("get")("mask")).is_none())
    throw_error(PyExc_ValueError, intro(operation, name) + " has a mask; pass an array without invalid elements");
  std::vector<Py_ssize_t> shape, strides;
  std::size_t items = 1;
  for (const nb::handle extent : interface["shape"]) {
    shape.push_back(number_of<Py_ssize_t>(operation, name, extent, "shape"));
    if (shape.back() < 0) throw_error(PyExc_ValueError, intro(operation, name) + " has a negative extent in its shape");
    if (__builtin_mul_overflow(items, static_cast<std::size_t>(shape.back()), &items))
      throw_error(PyExc_ValueError, intro(operation, name) + " has more elements than memory can hold");
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(items, itemsize_, &bytes))
    throw_error(PyExc_ValueError, intro(operation, name) + " has more elements than memory can hold");
  const nb::object given = interface.attr("get")("strides");
  if (!given.is_none()) {
    for (const nb::handle stride : given) strides.push_back(number_of<Py_ssize_t>(operation, name, stride, "stride"));
    if (strides.size() != shape.size())
      throw_error(PyExc_ValueError, intro(operation, name) + " has a wrong number of strides");
    const int dimensions = static_cast<int>(shape.size());
    if (!is_contiguous(dimensions, shape.data(), strides.data(), itemsize_))
      throw_scattered(operation, name, dimensions, shape.data(), strides.data(), 1);
  }
  const nb::object data = interface.attr("get")("data");
  if (!nb::isinstance<nb::tuple>(data))
    throw_error(PyExc_TypeError, intro(operation, name) + " has an array interface without an address");
  if (access == Access::write && nb::cast<bool>(data[1])) throw_read_only(operation, name);
  data_ = reinterpret_cast<void*>(number_of<std::uintptr_t>(operation, name, data[0], "address"));
  bytes_ = bytes;
  const bool is_native = typestr[0] != '>';
  if (is_native && (typestr[1] == 'i' || typestr[1] == 'u')) type_ = integer(itemsize_, typestr[1] == 'i');
  if (is_native && typestr[1] == 'f') type_ = floating(itemsize_);
}

void Array::keep() noexcept {
  if (is_kept_ || !object_.is_valid()) return;
  object_.inc_ref();
  is_kept_ = true;
  if (!holder_.is_valid() || PyCapsule_CheckExact(holder_.ptr()) == 0) return;
  tensor_ = consume<VersionedTensor>(holder_.ptr());
  if (tensor_ == nullptr) tensor_ = consume<LegacyTensor>(holder_.ptr());
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  itemsize_ = other.itemsize_;
  type_ = other.type_;
  object_ = std::exchange(other.object_, nb::handle());
  is_kept_ = std::exchange(other.is_kept_, false);
  view_ = std::move(other.view_);
  holder_ = std::move(other.holder_);
  tensor_ = std::move(other.tensor_);
  memory_ = std::move(other.memory_);
  return *this;
}

void Array::release() noexcept {
  view_.reset();
  tensor_.reset();
  memory_.reset();
  if (std::exchange(is_kept_, false)) object_.dec_ref();
}

}  // namespace hmc::python
