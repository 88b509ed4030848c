// A program in the form of HAMR's OpenMP example, compiled with no include path but the public ones.
#include <hamr_buffer.h>
#include <hamr_device.h>
#include <hamr_openmp_allocator.h>

#include <iostream>

template <typename T, typename U> hamr::buffer<T> add(const hamr::buffer<T>& a, const hamr::buffer<U>& b) {
  auto [handle_a, in_a] = hamr::get_openmp_accessible(a);
  auto [handle_b, in_b] = hamr::get_openmp_accessible(b);
  const std::size_t count = a.size();
  hamr::buffer<T> result(hamr::buffer_allocator::openmp, count, T(0));
  T* out = result.data();
  const T* one = in_a;
  const U* two = in_b;
#pragma omp target teams distribute parallel for is_device_ptr(out, one, two)
  for (std::size_t i = 0; i < count; ++i) out[i] = one[i] + static_cast<T>(two[i]);
  return result;
}

int main() {
  const hamr::buffer<float> a(hamr::buffer_allocator::openmp, 400, 1.0f);
  const hamr::buffer<double> b(hamr::buffer_allocator::malloc, 400, 2.5);
  const hamr::buffer<float> sum = add(a, b);
  auto [handle, values] = hamr::get_host_accessible(sum);
  for (std::size_t i = 0; i < sum.size(); ++i)
    if (values[i] != 3.5f) {
      std::cerr << i << ": " << values[i] << "\n";
      return 1;
    }

  int device = -1, now = -1;
  hamr::get_active_device(device);
  if (sum.get_owner() != device || !sum.openmp_accessible()) return 2;
  const auto memory = hamr::openmp_allocator<double>::allocate(400, 1.5);
  const hamr::buffer<double> same(hamr::buffer_allocator::openmp, 400, device, memory);
  if (same.get_openmp_accessible() != memory || same.get_host_accessible().get()[399] != 1.5) return 3;
  {
    int host = -1;
    hamr::get_host_identifier(host);
    const hamr::activate_device on_host(host);
    hamr::get_active_device(now);
    if (now != host) return 4;
  }
  hamr::get_active_device(now);
  return now == device ? 0 : 5;
}
