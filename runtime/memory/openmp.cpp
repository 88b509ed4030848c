#include "runtime/memory/openmp.hpp"

namespace hmc::memory {

namespace {

/// A library that is already loaded in the process is preferred.
LibraryNames names_here() {
  for (const char* const file : openmp_library.files)
    if (file != nullptr && Library::is_loaded({"", {file}})) return {openmp_library.variable, {file}};
  return openmp_library;
}

}  // namespace

const OpenMp& OpenMp::instance() {
  static const OpenMp* const one = new OpenMp;  // never destroyed: memory may be freed after main
  return *one;
}

OpenMp::OpenMp() : library_(names_here()) {
  take(count_, "omp_get_num_devices");
  take(allocate_, "omp_target_alloc");
  take(free_, "omp_target_free");
  take(copy_, "omp_target_memcpy");
  default_ = reinterpret_cast<int (*)()>(library_.find("omp_get_default_device"));
  why_not_ = library_.why_not();
}

base::Status OpenMp::copy(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes) const noexcept {
  const int result = copy_(to, from, bytes, 0, 0, to_device, from_device);
  return result == 0 ? base::Status{} : base::Status::failure(Code::error, "omp_target_memcpy returned an error");
}

}  // namespace hmc::memory
