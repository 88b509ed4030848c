#include "collectives/select/parameters.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace hmc::collectives {

using schedule::CostParameters;
using schedule::LinkCost;

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int version = 2;

// Emulated nodes on one machine. Rounded from `hmc-sim --measure` on 2 cores of an EPYC VM (docs/sim.md).
/// TCP over loopback: a message costs about 2.2 us of CPU time at each end, and a burst one message per 2.9 us. Bytes
/// are copied into the kernel and out again.
constexpr LinkCost loopback_link{500, 2200, 2900, 0.18};
/// Copies and reductions within the cache. Blocks of 1 MiB take 0.037 to 0.045 ns per byte, the smaller pieces of a
/// call less.
constexpr double cached_memory_ns_per_byte = 0.03;

double cores_here() noexcept { return static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)); }

OrderedJson json_of(const LinkCost& link) {
  return {
      {"latency_ns", link.latency}, {"overhead_ns", link.overhead}, {"gap_ns", link.gap}, {"byte_ns", link.per_byte}};
}

/// A value in ns: not negative, at most one second.
double figure(const OrderedJson& json, const char* key) {
  const double value = json.at(key).get<double>();
  if (!(value >= 0 && value <= 1e9)) throw std::range_error(fmt::format("{} is {}", key, value));
  return value;
}

LinkCost link_of(const OrderedJson& json) {
  return {figure(json, "latency_ns"), figure(json, "overhead_ns"), figure(json, "gap_ns"), figure(json, "byte_ns")};
}

}  // namespace

CostParameters builtin_parameters(bool one_machine) noexcept {
  CostParameters parameters;
  if (!one_machine) return parameters;
  parameters.network = loopback_link;
  parameters.copy = parameters.reduce = parameters.node.per_byte = cached_memory_ns_per_byte;
  parameters.emulation_cores = cores_here();
  return parameters;
}

MachineKey MachineKey::here(std::string_view wire, bool one_machine) {
  utsname name{};
  ::uname(&name);
  return {fmt::format("{}, {}, {:.0f} cpus", name.nodename, name.machine, cores_here()), std::string(wire),
          one_machine};
}

std::string MachineKey::file(std::string_view folder) const {
  if (folder.empty()) return {};
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: machines may share the folder
  for (const char c : machine) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{}/model-{}{}-{:016x}.json", folder, wire, one_machine ? "-one-machine" : "", hash);
}

std::string text_of(const CostParameters& parameters, const MachineKey& key) {
  const OrderedJson json{{"hmc_model", version},
                         {"machine", key.machine},
                         {"wire", key.wire},
                         {"one_machine", key.one_machine},
                         {"node", json_of(parameters.node)},
                         {"network", json_of(parameters.network)},
                         {"copy_byte_ns", parameters.copy},
                         {"reduce_byte_ns", parameters.reduce},
                         {"cores", parameters.emulation_cores}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

bool read_parameters(std::string_view text, const MachineKey* key, CostParameters& parameters, std::string& why_not) {
  try {
    const OrderedJson json = OrderedJson::parse(text);
    if (json.at("hmc_model") != version) throw std::range_error("the file has another version");
    if (key != nullptr &&
        (json.at("machine").get<std::string>() != key->machine || json.at("wire").get<std::string>() != key->wire ||
         json.at("one_machine").get<bool>() != key->one_machine))
      throw std::range_error("measured on another machine or wire");
    CostParameters read;
    read.node = link_of(json.at("node"));
    read.network = link_of(json.at("network"));
    read.copy = figure(json, "copy_byte_ns");
    read.reduce = figure(json, "reduce_byte_ns");
    read.emulation_cores = figure(json, "cores");
    parameters = read;
    return true;
  } catch (const std::exception& error) {
    why_not = error.what();
    return false;
  }
}

bool read_file(const std::string& path, std::string& text) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  constexpr std::size_t longest = std::size_t{16} << 20;  // a device may never end
  std::array<char, 4096> part{};
  text.clear();
  while (text.size() <= longest && (in.read(part.data(), part.size()) || in.gcount() > 0))
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  return !in.bad() && text.size() <= longest;
}

bool write_whole(const std::string& path, std::string_view text) noexcept {
  try {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    // Several jobs may start at once, so each writes its own temporary file.
    const std::string beside = fmt::format("{}.{}.{}", path, ::getpid(), static_cast<const void*>(&error));
    {
      std::ofstream out(beside, std::ios::binary);
      out.write(text.data(), static_cast<std::streamsize>(text.size()));
      out.close();
      if (!out) {
        std::remove(beside.c_str());
        return false;
      }
    }
    std::filesystem::rename(beside, path, error);
    if (error) std::remove(beside.c_str());
    return !error;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace hmc::collectives
