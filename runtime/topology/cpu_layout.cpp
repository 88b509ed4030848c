#include "runtime/topology/cpu_layout.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <hmc/error.hpp>

#include "runtime/topology/hwloc_library.hpp"

namespace hmc::topology {

namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const noexcept { HwlocLibrary::get().topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

[[noreturn]] void fail(const char* call) {
  throw Error(Code::error, "load_cpu_layout", fmt::format("{}: {}", call, std::strerror(errno)),
              "without --bind-to and --report-bindings nothing asks for the layout");
}

Topology load() {
  const HwlocLibrary& hwloc = HwlocLibrary::get();
  hwloc_topology_t raw = nullptr;
  if (hwloc.topology_init(&raw) != 0) fail("hwloc_topology_init");
  Topology topology(raw);
  // The discovery of caches, devices and groups isn't needed and takes time.
  hwloc.topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc.topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc.topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc.topology_load(raw) != 0) fail("hwloc_topology_load");
  return topology;
}

/// All objects of a type, in hwloc's logical order.
std::vector<hwloc_obj_t> objects(const Topology& topology, hwloc_obj_type_t type) {
  const HwlocLibrary& hwloc = HwlocLibrary::get();
  const int depth = hwloc.get_type_depth(topology.get(), type);
  std::vector<hwloc_obj_t> found;
  if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return found;
  while (hwloc_obj_t object = hwloc.get_obj_by_depth(topology.get(), depth, static_cast<unsigned>(found.size())))
    found.push_back(object);
  return found;
}

CpuSet to_set(hwloc_const_cpuset_t bitmap, const CpuSet& allowed) {
  const HwlocLibrary& hwloc = HwlocLibrary::get();
  CpuSet set;
  for (int cpu = hwloc.bitmap_next(bitmap, -1); cpu >= 0; cpu = hwloc.bitmap_next(bitmap, cpu)) set.add(cpu);
  return set & allowed;
}

std::string model_of(const Topology& topology) {
  for (const hwloc_obj_t package : objects(topology, HWLOC_OBJ_PACKAGE)) {
    for (unsigned i = 0; i < package->infos_count; ++i)
      if (std::string_view(package->infos[i].name) == "CPUModel") return package->infos[i].value;
  }
  return {};
}

void add_numa_nodes(const Topology& topology, CpuLayout& layout) {
  for (const hwloc_obj_t node : objects(topology, HWLOC_OBJ_NUMANODE)) {
    CpuSet cpus = to_set(node->cpuset, layout.allowed);
    if (cpus.empty()) continue;  // no CPU of this node is allowed
    layout.numa_nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory, std::move(cpus)});
  }
  if (layout.numa_nodes.empty()) layout.numa_nodes.push_back({0, 0, layout.allowed});
}

int numa_node_of(const CpuLayout& layout, const CpuSet& cpus) {
  for (std::size_t i = 0; i < layout.numa_nodes.size(); ++i) {
    if (!(layout.numa_nodes[i].cpus & cpus).empty()) return static_cast<int>(i);
  }
  return 0;
}

void add_core(CpuLayout& layout, CpuSet cpus) {
  if (cpus.empty()) return;
  const int numa_node = numa_node_of(layout, cpus);
  layout.cores.push_back({static_cast<int>(layout.cores.size()), numa_node, std::move(cpus)});
}

void add_cores(const Topology& topology, CpuLayout& layout) {
  // Some virtual machines don't report cores. Then each CPU is treated as a core.
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
    for (const hwloc_obj_t object : objects(topology, type)) add_core(layout, to_set(object->cpuset, layout.allowed));
    if (!layout.cores.empty()) return;
  }
  add_core(layout, layout.allowed);
}

}  // namespace

CpuLayout load_cpu_layout() {
  const Topology topology = load();
  CpuLayout layout;
  layout.model = model_of(topology);
  layout.allowed = CpuSet::of_this_thread();
  add_numa_nodes(topology, layout);
  add_cores(topology, layout);
  if (layout.cores.empty()) throw Error(Code::unsupported, "load_cpu_layout", "hwloc found no CPU that we may use");
  return layout;
}

std::string describe(const CpuLayout& layout, const CpuSet& cpus) {
  for (const CpuCore& core : layout.cores)
    if (core.cpus == cpus) return fmt::format("core {} (cpus {})", core.index, cpus.text());
  for (const NumaNode& node : layout.numa_nodes)
    if (node.cpus == cpus) return fmt::format("NUMA node {} (cpus {})", node.os_index, cpus.text());
  return fmt::format("cpus {}", cpus.text());
}

}  // namespace hmc::topology
