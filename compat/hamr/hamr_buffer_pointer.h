#ifndef hamr_buffer_pointer_h
#define hamr_buffer_pointer_h

#include <memory>

namespace hamr {

template <typename T> class buffer;

template <typename T> using p_buffer = std::shared_ptr<buffer<T>>;
template <typename T> using const_p_buffer = std::shared_ptr<const buffer<T>>;

template <typename T> const_p_buffer<T> const_ptr(const p_buffer<T>& pointer) { return pointer; }
template <typename T> const buffer<T>& ref_to(const const_p_buffer<T>& pointer) { return *pointer; }
template <typename T> buffer<T>& ref_to(const p_buffer<T>& pointer) { return *pointer; }

}  // namespace hamr

#endif
