#ifndef hamr_openmp_print_h
#define hamr_openmp_print_h

#include <cstddef>
#include <iostream>

#include <hamr_buffer.h>

namespace hamr {

/// To stderr: elements in memory of OpenMP's default device. Returns 0.
template <typename T> int openmp_print(T* vals, std::size_t n_elem) {
  const int device = hmc::Place::current(hmc::Allocator::openmp).device;
  const buffer<T> all(buffer_allocator::openmp, n_elem, device, vals, [](T*) {});
  const auto values = all.get_host_accessible();
  for (std::size_t i = 0; i < n_elem; ++i) std::cerr << (i == 0 ? "" : ", ") << values.get()[i];
  std::cerr << "\n";
  return 0;
}

}  // namespace hamr

#endif
