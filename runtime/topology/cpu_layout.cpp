#include "runtime/topology/cpu_layout.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <hmc/error.hpp>

namespace hmc::topology {

namespace {
constexpr int bits = 64;
constexpr std::size_t most_words = 1024;  // 65536 CPUs: more than Linux supports
}  // namespace

CpuSet CpuSet::of(std::initializer_list<int> cpus) {
  CpuSet set;
  for (const int cpu : cpus) set.add(cpu);
  return set;
}

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  // The kernel rejects a mask that is smaller than its own with EINVAL, and doesn't report the required size.
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    set.words_.assign(words, 0);
    auto* const mask = reinterpret_cast<cpu_set_t*>(set.words_.data());
    if (::sched_getaffinity(0, set.bytes(), mask) == 0) return set;
    if (errno != EINVAL) break;
  }
  set.words_.clear();
  return set;
}

void CpuSet::add(int cpu) {
  const auto word = static_cast<std::size_t>(cpu / bits);
  if (word >= words_.size()) words_.resize(word + 1, 0);
  words_[word] |= std::uint64_t{1} << (cpu % bits);
}

bool CpuSet::contains(int cpu) const noexcept {
  const auto word = static_cast<std::size_t>(cpu / bits);
  return cpu >= 0 && word < words_.size() && ((words_[word] >> (cpu % bits)) & 1) != 0;
}

std::size_t CpuSet::count() const noexcept {
  std::size_t sum = 0;
  for (const std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
  return sum;
}

std::string CpuSet::text() const {
  std::string out;
  const int end = static_cast<int>(words_.size()) * bits;
  for (int first = 0; first < end; ++first) {
    if (!contains(first)) continue;
    int last = first;
    while (contains(last + 1)) ++last;
    if (!out.empty()) out += ',';
    out += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return out.empty() ? "none" : out;
}

CpuSet operator&(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  both.words_.resize(std::min(a.words_.size(), b.words_.size()));
  for (std::size_t i = 0; i < both.words_.size(); ++i) both.words_[i] = a.words_[i] & b.words_[i];
  return both;
}

bool operator==(const CpuSet& a, const CpuSet& b) noexcept {
  const std::size_t words = std::max(a.words_.size(), b.words_.size());
  for (std::size_t i = 0; i < words; ++i) {
    if ((i < a.words_.size() ? a.words_[i] : 0) != (i < b.words_.size() ? b.words_[i] : 0)) return false;
  }
  return true;
}

namespace {

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

constexpr const char* library_name = "libhwloc.so.15";  // must match the compiled header

[[noreturn]] void fail_to_open() {
  const char* const why = ::dlerror();
  throw Error(Code::unsupported, "load_cpu_layout", fmt::format("{}: {}", library_name, why == nullptr ? "" : why),
              "install hwloc (Debian: libhwloc15)");
}

template <typename Function> void find(void* library, const char* name, Function& function) {
  void* const address = ::dlsym(library, name);
  if (address == nullptr) fail_to_open();
  function = reinterpret_cast<Function>(address);
}

HwlocLibrary open() {
  static_assert(HWLOC_API_VERSION >= 0x00020000 && HWLOC_API_VERSION < 0x00030000);
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail_to_open();
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

const HwlocLibrary& HwlocLibrary::get() {
  static const HwlocLibrary hwloc = open();
  return hwloc;
}

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

}  // namespace

CpuLayout load_cpu_layout() {
  const Topology topology = load();
  CpuLayout layout;
  for (const hwloc_obj_t package : objects(topology, HWLOC_OBJ_PACKAGE))
    for (unsigned i = 0; i < package->infos_count; ++i)
      if (layout.model.empty() && std::string_view(package->infos[i].name) == "CPUModel")
        layout.model = package->infos[i].value;
  layout.allowed = CpuSet::of_this_thread();

  for (const hwloc_obj_t node : objects(topology, HWLOC_OBJ_NUMANODE)) {
    CpuSet cpus = to_set(node->cpuset, layout.allowed);
    if (cpus.empty()) continue;  // no CPU of this node is allowed
    layout.numa_nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory, std::move(cpus)});
  }
  if (layout.numa_nodes.empty()) layout.numa_nodes.push_back({0, 0, layout.allowed});

  const auto add_core = [&](CpuSet cpus) {
    if (cpus.empty()) return;
    const auto found =
        std::ranges::find_if(layout.numa_nodes, [&](const NumaNode& node) { return !(node.cpus & cpus).empty(); });
    const auto numa_node = found == layout.numa_nodes.end() ? 0 : static_cast<int>(found - layout.numa_nodes.begin());
    layout.cores.push_back({static_cast<int>(layout.cores.size()), numa_node, std::move(cpus)});
  };
  // Some virtual machines don't report cores. Then each CPU is treated as a core.
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
    if (!layout.cores.empty()) break;
    for (const hwloc_obj_t object : objects(topology, type)) add_core(to_set(object->cpuset, layout.allowed));
  }
  if (layout.cores.empty()) add_core(layout.allowed);
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
