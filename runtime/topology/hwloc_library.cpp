#include "runtime/topology/hwloc_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <hmc/error.hpp>

namespace hmc::topology {

namespace {

constexpr const char* library_name = "libhwloc.so.15";  // must match the compiled header

[[noreturn]] void fail() {
  const char* const why = ::dlerror();
  throw Error(Code::unsupported, "load_cpu_layout", fmt::format("{}: {}", library_name, why == nullptr ? "" : why),
              "install hwloc (Debian: libhwloc15)");
}

template <typename Function> void find(void* library, const char* name, Function& function) {
  void* const address = ::dlsym(library, name);
  if (address == nullptr) fail();
  function = reinterpret_cast<Function>(address);
}

HwlocLibrary open() {
  static_assert(HWLOC_API_VERSION >= 0x00020000 && HWLOC_API_VERSION < 0x00030000);
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail();
  HwlocLibrary hwloc{};
  find(library, "hwloc_topology_init", hwloc.topology_init);
  find(library, "hwloc_topology_destroy", hwloc.topology_destroy);
  find(library, "hwloc_topology_load", hwloc.topology_load);
  find(library, "hwloc_topology_set_all_types_filter", hwloc.topology_set_all_types_filter);
  find(library, "hwloc_topology_set_type_filter", hwloc.topology_set_type_filter);
  find(library, "hwloc_get_type_depth", hwloc.get_type_depth);
  find(library, "hwloc_get_obj_by_depth", hwloc.get_obj_by_depth);
  find(library, "hwloc_bitmap_next", hwloc.bitmap_next);
  return hwloc;
}

}  // namespace

const HwlocLibrary& HwlocLibrary::get() {
  static const HwlocLibrary hwloc = open();
  return hwloc;
}

}  // namespace hmc::topology
