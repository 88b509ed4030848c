#include "runtime/topology/cpu_layout.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <hmc/error.hpp>

namespace hmc::topology {

namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

[[noreturn]] void fail(const char* call) {
  throw Error(Code::error, "load_cpu_layout", fmt::format("{}: {}", call, std::strerror(errno)),
              "without --bind-to and --report-bindings nothing asks for the layout");
}

Topology load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("hwloc_topology_init");
  Topology topology(raw);
  // Caches, devices and groups cost time and aren't asked for here.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) fail("hwloc_topology_load");
  return topology;
}

CpuSet to_set(hwloc_const_cpuset_t bitmap, const CpuSet& allowed) {
  CpuSet set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) set.add(cpu);
  return set & allowed;
}

void add_numa_nodes(hwloc_topology_t topology, CpuLayout& layout) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    CpuSet cpus = to_set(node->cpuset, layout.allowed);
    if (cpus.empty()) continue;  // memory without CPUs of ours: nothing to run on
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

void add_cores(hwloc_topology_t topology, CpuLayout& layout) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, object)) != nullptr)
    add_core(layout, to_set(object->cpuset, layout.allowed));
  if (!layout.cores.empty()) return;
  // Some virtual machines don't tell their cores: then each CPU is one.
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, object)) != nullptr)
    add_core(layout, to_set(object->cpuset, layout.allowed));
}

}  // namespace

CpuLayout load_cpu_layout() {
  const Topology topology = load();
  CpuLayout layout;
  layout.allowed = CpuSet::of_this_thread();
  if (const char* model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology.get()), "CPUModel"))
    layout.model = model;
  add_numa_nodes(topology.get(), layout);
  add_cores(topology.get(), layout);
  if (layout.cores.empty()) add_core(layout, layout.allowed);
  if (layout.cores.empty()) throw Error(Code::unsupported, "load_cpu_layout", "hwloc found no CPU that we may use");
  return layout;
}

std::string describe(const CpuLayout& layout, const CpuSet& cpus) {
  for (const Core& core : layout.cores)
    if (core.cpus == cpus) return fmt::format("core {} (cpus {})", core.index, cpus.text());
  for (const NumaNode& node : layout.numa_nodes)
    if (node.cpus == cpus) return fmt::format("NUMA node {} (cpus {})", node.os_index, cpus.text());
  return fmt::format("cpus {}", cpus.text());
}

}  // namespace hmc::topology
