// HAMR's allocators: memory of one kind, without a buffer.
#ifndef hamr_allocators_h
#define hamr_allocators_h

#include <cstddef>
#include <memory>

#include <hamr_buffer.h>

namespace hamr {

namespace detail {

/// The last shared_ptr destroys the elements and frees the memory. The elements are complete at return; so a stream has
/// no effect.
template <typename T, buffer_allocator alloc> struct memory_of {
  static std::shared_ptr<T> allocate(std::size_t n_elem) { return buffer<T>(alloc, n_elem).pointer(); }
  static std::shared_ptr<T> allocate(std::size_t n_elem, const T& value) {
    return buffer<T>(alloc, n_elem, value).pointer();
  }
  /// Copies of `values`, which are in memory of the allocator's technology if is_there, else in host memory.
  template <typename U> static std::shared_ptr<T> allocate(std::size_t n_elem, const U* values, bool is_there = false) {
    buffer<T> made(alloc);
    if (is_there)
      made.assign(buffer<U>(alloc, n_elem, -1, const_cast<U*>(values), [](U*) {}));
    else
      made.assign(values, 0, n_elem);
    return made.pointer();
  }
  static std::shared_ptr<T> allocate(const stream&, std::size_t n_elem) { return allocate(n_elem); }
  static std::shared_ptr<T> allocate(const stream&, std::size_t n_elem, const T& value) {
    return allocate(n_elem, value);
  }
  template <typename U>
  static std::shared_ptr<T> allocate(const stream& strm, std::size_t n_elem, const U* values, bool is_there = false) {
    if (is_there) strm.synchronize();
    return allocate(n_elem, values, is_there);
  }
};

}  // namespace detail

template <typename T> using new_allocator = detail::memory_of<T, buffer_allocator::cpp>;
template <typename T> using malloc_allocator = detail::memory_of<T, buffer_allocator::malloc>;
template <typename T> using cuda_malloc_allocator = detail::memory_of<T, buffer_allocator::cuda>;
template <typename T> using cuda_malloc_async_allocator = detail::memory_of<T, buffer_allocator::cuda_async>;
template <typename T> using cuda_malloc_uva_allocator = detail::memory_of<T, buffer_allocator::cuda_uva>;
template <typename T> using cuda_malloc_host_allocator = detail::memory_of<T, buffer_allocator::cuda_host>;
template <typename T> using hip_malloc_allocator = detail::memory_of<T, buffer_allocator::hip>;
template <typename T> using hip_malloc_uva_allocator = detail::memory_of<T, buffer_allocator::hip_uva>;
template <typename T> using openmp_allocator = detail::memory_of<T, buffer_allocator::openmp>;

}  // namespace hamr

#endif
