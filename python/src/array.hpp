// Array: the memory of a Python object that a call reads or writes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <hmc/types.hpp>

namespace hmc::python {

namespace nb = nanobind;

enum class Access { read, write };
struct Lent;  // python/src/buffer.hpp

/// Contiguous memory of an hmc.Buffer, of an object with the buffer protocol, DLPack, __cuda_array_interface__ or
/// __array_interface__, or of a DLPack capsule. Never a copy: an object without such memory, a non-contiguous one, and
/// a read-only one that would be written are errors.
///
/// STREAMS. Construction waits for the device work that the object states: the stream of __cuda_array_interface__, what
/// __dlpack__ orders before the default stream, or the transfers of an hmc.Buffer. It releases the GIL meanwhile.
///
/// LIFETIME. The caller holds a reference to the object while it uses the memory; keep() makes the Array hold it. The
/// export of the buffer protocol, which prevents for example a bytearray from moving, and the memory of an hmc.Buffer
/// last as long as the Array. A DLPack capsule is borrowed until keep(), which consumes it: then another consumer of
/// the capsule can't free the memory.
///
/// THREADS. Construction, keep() and destruction need the GIL.
class Array {
 public:
  Array() = default;
  /// Throws a Python exception (TypeError, ValueError, BufferError). `operation` and `name` are for its text.
  Array(const char* operation, const char* name, nb::handle object, Access access);
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept;
  ~Array() { release(); }

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t itemsize() const noexcept { return itemsize_; }
  std::size_t items() const noexcept { return itemsize_ == 0 ? 0 : bytes_ / itemsize_; }
  /// The element type, if collectives can reduce it.
  std::optional<DType> type() const noexcept { return type_; }
  nb::handle object() const noexcept { return object_; }
  /// From now on holds a reference to the object, or owns the tensor of a DLPack capsule.
  void keep() noexcept;

 private:
  void from_hmc(const char* operation, const char* name, Lent lent);
  /// False if the object is in device memory, and so refuses a buffer.
  bool from_buffer(const char* operation, const char* name, Access access);
  void from_dlpack(const char* operation, const char* name, nb::handle capsule, Access access);
  void from_interface(const char* operation, const char* name, nb::handle interface, Access access);
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t itemsize_ = 1;
  std::optional<DType> type_;
  nb::handle object_;
  bool is_kept_ = false;
  struct ReleaseView {
    void operator()(Py_buffer* view) const noexcept {
      PyBuffer_Release(view);
      delete view;
    }
  };
  std::unique_ptr<Py_buffer, ReleaseView> view_;                     // an export of the buffer protocol
  nb::object holder_;                                                // a capsule or an interface's dictionary
  std::unique_ptr<void, void (*)(void*)> tensor_{nullptr, nullptr};  // of a consumed capsule
  std::shared_ptr<std::byte> memory_;                                // of an hmc.Buffer
};

}  // namespace hmc::python
