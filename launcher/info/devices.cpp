// hmcinfo devices: every memory type, its library, and the sharing methods that work.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "launcher/info/facts.hpp"
#include "launcher/info/trial.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/memory/openmp.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::launcher {

namespace {

using Json = nlohmann::ordered_json;

Json sharing_of(const memory::Provider& provider) {
  Json list = Json::array();
  for (const memory::SharingKind kind :
       {memory::SharingKind::vmm_fd, memory::SharingKind::fabric, memory::SharingKind::ipc}) {
    const TrialResult result = try_sharing(provider, kind);
    Json each{{"kind", name_of(kind)}, {"passed", result.passed}, {"why", result.why}};
    if (result.passed) {
      each["gigabytes_per_s"] = result.gigabytes_per_s;
      each["latency_us"] = result.latency_us;
    }
    list.push_back(each);
  }
  return list;
}

/// The origin of the device's kernels, or the reason why there are none.
std::string kernels_of(const memory::Provider& provider, int device) {
  const memory::Kernels* const kernels = provider.kernels();
  if (kernels == nullptr) return "none";
  const std::string why = kernels->why_not(device);
  return why.empty() ? kernels->origin(device) : "none: " + why;
}

Json backings_of(const memory::Provider& provider) {
  using memory::Backing;
  Json list = Json::array();
  for (const Backing backing :
       {Backing::plain, Backing::vmm, Backing::stream_ordered, Backing::pinned, Backing::managed})
    list.push_back({{"name", name_of(backing)},
                    {"available", provider.why_not(backing).empty()},
                    {"why", provider.why_not(backing)}});
  return list;
}

/// OpenMP's devices, on which Buffers can be allocated. OpenMP isn't a memory type, and its memory can't be shared.
Json openmp() {
  const memory::OpenMp& found = memory::OpenMp::instance();
  return {{"available", found.why_not().empty()},
          {"why", found.why_not()},
          {"library", found.path()},
          {"devices", found.devices()}};
}

std::string openmp_as_text(const Json& facts) {
  if (!facts["available"].get<bool>()) return fmt::format("\nopenmp   no: {}\n", facts["why"].get<std::string>());
  const int devices = facts["devices"].get<int>();
  return fmt::format("\nopenmp   for Buffers\n  library   {}\n  devices   {}\n", facts["library"].get<std::string>(),
                     devices == 0 ? "none; omp_target_alloc returns host memory" : std::to_string(devices));
}

}  // namespace

nlohmann::ordered_json gather_devices() {
  Json list = Json::array();
  for (const memory::Provider* provider : memory::all_providers()) {
    const std::string why = provider->why_not();
    Json each{{"name", provider->name()},
              {"memory_type", name_of(provider->type())},
              {"available", why.empty()},
              {"why", why}};
    if (why.empty()) {
      const memory::LibraryInfo library = provider->library();
      each["library"] = {{"path", library.path}, {"version", library.version}};
      each["devices"] = Json::array();
      for (const memory::DeviceInfo& device : provider->devices())
        each["devices"].push_back({{"index", device.index},
                                   {"name", device.name},
                                   {"bytes", device.bytes},
                                   {"kernels", kernels_of(*provider, device.index)}});
      each["backings"] = backings_of(*provider);
      each["sharing"] = sharing_of(*provider);
      const std::string why_no_gates = provider->why_no_gates(0);
      each["gates"] = {{"available", why_no_gates.empty()}, {"why", why_no_gates}};
    }
    list.push_back(each);
  }
  return {{"default", name_of(memory::resolved(MemoryType::DEFAULT))}, {"providers", list}, {"openmp", openmp()}};
}

std::string devices_as_text(const nlohmann::ordered_json& facts) {
  const auto word = [](const Json& json) { return json.get<std::string>(); };
  std::string text = fmt::format("DEFAULT  {}\n", word(facts["default"]));
  for (const Json& each : facts["providers"]) {
    text += fmt::format("\n{:<8} {}\n", word(each["name"]),
                        each["available"].get<bool>() ? word(each["memory_type"]) : "no: " + word(each["why"]));
    if (!each["available"].get<bool>()) continue;
    if (const std::string path = word(each["library"]["path"]); !path.empty())
      text += fmt::format("  library   {}, {}\n", path, word(each["library"]["version"]));
    for (const Json& device : each["devices"]) {
      const auto mebibytes = device["bytes"].get<std::uint64_t>() >> 20;
      text += fmt::format("  device {}  {}{}; kernels: {}\n", device["index"].get<int>(), word(device["name"]),
                          mebibytes == 0 ? "" : fmt::format(", {} MiB", mebibytes), word(device["kernels"]));
    }
    for (const Json& backing : each["backings"])
      text += fmt::format("  memory    {}{}\n", word(backing["name"]),
                          backing["available"].get<bool>() ? "" : ": no, " + word(backing["why"]));
    if (!each["devices"].empty() && word(each["name"]) != "host")
      text += fmt::format("  streams   stop for the host: {}\n",
                          each["gates"]["available"].get<bool>() ? "yes" : "no, " + word(each["gates"]["why"]));
    for (const Json& way : each["sharing"])
      text +=
          way["passed"].get<bool>()
              ? fmt::format("  sharing   {}: passed between two processes, {:.1f} GB/s, {:.1f} us\n", word(way["kind"]),
                            way["gigabytes_per_s"].get<double>(), way["latency_us"].get<double>())
              : fmt::format("  sharing   {}: no, {}\n", word(way["kind"]), word(way["why"]));
  }
  return text + openmp_as_text(facts["openmp"]);
}

}  // namespace hmc::launcher
