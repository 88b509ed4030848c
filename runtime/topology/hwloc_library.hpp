// HwlocLibrary: libhwloc, opened with dlopen at first use.
#pragma once

#include <hwloc.h>

namespace hmc::topology {

/// Linking libhwloc (with libudev) would add 0.2 ms to the start of every rank, and few ranks need the layout. Only
/// these functions may be used: hwloc's inline functions call others.
struct HwlocLibrary {
  decltype(&::hwloc_topology_init) topology_init;
  decltype(&::hwloc_topology_destroy) topology_destroy;
  decltype(&::hwloc_topology_load) topology_load;
  decltype(&::hwloc_topology_set_all_types_filter) topology_set_all_types_filter;
  decltype(&::hwloc_topology_set_type_filter) topology_set_type_filter;
  decltype(&::hwloc_get_type_depth) get_type_depth;
  decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&::hwloc_bitmap_next) bitmap_next;

  /// Opened once and never closed, because its plugins don't support unloading. Throws Error{unsupported}.
  static const HwlocLibrary& get();
};

}  // namespace hmc::topology
