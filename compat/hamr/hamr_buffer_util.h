// Calls of several hamr::buffers at once.
#ifndef hamr_buffer_util_h
#define hamr_buffer_util_h

#include <cstddef>
#include <tuple>
#include <utility>

#include <hamr_buffer.h>

namespace hamr {

namespace detail {

/// A shared_ptr and its pointer.
template <typename Handle> auto with_pointer(Handle handle) {
  const auto pointer = handle.get();
  return std::make_tuple(std::move(handle), pointer);
}

}  // namespace detail

// A tuple: for each buffer the shared_ptr and the pointer.
template <typename... Buffers> auto get_host_accessible(const Buffers&... buffers) {
  return std::tuple_cat(detail::with_pointer(buffers.get_host_accessible())...);
}
template <typename... Buffers> auto get_cuda_accessible(const Buffers&... buffers) {
  return std::tuple_cat(detail::with_pointer(buffers.get_cuda_accessible())...);
}
template <typename... Buffers> auto get_hip_accessible(const Buffers&... buffers) {
  return std::tuple_cat(detail::with_pointer(buffers.get_hip_accessible())...);
}
template <typename... Buffers> auto get_openmp_accessible(const Buffers&... buffers) {
  return std::tuple_cat(detail::with_pointer(buffers.get_openmp_accessible())...);
}
template <typename... Buffers> auto get_device_accessible(const Buffers&... buffers) {
  return std::tuple_cat(detail::with_pointer(buffers.get_device_accessible())...);
}

template <typename... Buffers> auto data(Buffers&&... buffers) { return std::make_tuple(buffers.data()...); }
template <typename... Buffers> auto pointer(Buffers&&... buffers) { return std::make_tuple(buffers.pointer()...); }
template <typename... Buffers> void synchronize(const Buffers&... buffers) { (buffers.synchronize(), ...); }

/// A tuple of a new buffer and the address of its elements.
template <typename T> auto make_buffer(buffer_allocator alloc, std::size_t n_elem) {
  buffer<T> made(alloc, n_elem);
  T* const first = made.data();
  return std::tuple<buffer<T>, T*>(std::move(made), first);
}
template <typename T> auto make_buffer(buffer_allocator alloc, std::size_t n_elem, const T& value) {
  buffer<T> made(alloc, n_elem, value);
  T* const first = made.data();
  return std::tuple<buffer<T>, T*>(std::move(made), first);
}

}  // namespace hamr

#endif
