// HwlocLibrary: libhwloc, opened when it is asked for.
#pragma once

#include <hwloc.h>

namespace hmc::topology {

/// Linked, it would cost every start of every rank 0.2 ms (it brings libudev along), and nearly none
/// of them asks for the layout. Only these functions are used: hwloc's inline ones call others.
struct HwlocLibrary {
  decltype(&::hwloc_topology_init) topology_init;
  decltype(&::hwloc_topology_destroy) topology_destroy;
  decltype(&::hwloc_topology_load) topology_load;
  decltype(&::hwloc_topology_set_all_types_filter) topology_set_all_types_filter;
  decltype(&::hwloc_topology_set_type_filter) topology_set_type_filter;
  decltype(&::hwloc_get_type_depth) get_type_depth;
  decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&::hwloc_bitmap_next) bitmap_next;

  /// Opened once and kept: its plugins don't like to be unloaded. Throws Error{unsupported}.
  static const HwlocLibrary& get();
};

}  // namespace hmc::topology
