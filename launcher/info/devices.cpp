#include "launcher/info/devices.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/memory/openmp.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::launcher {

namespace {

struct TrialResult {
  bool passed = false;
  std::string why;             ///< why not
  double gigabytes_per_s = 0;  ///< of the other process's copy from the shared memory to its own; best of several
  double latency_us = 0;       ///< of a synchronous copy of 8 bytes
};

constexpr std::size_t trial_bytes = std::size_t{16} << 20;
constexpr std::uint64_t word_of_parent = 0x1020304050607080, word_of_child = 0x8877665544332211;
constexpr int fd_in_child = 3;

void check(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "share", status.what);
}
/// The parent writes the first word of the memory, and the child writes the last.
std::byte* last_word(const memory::Allocation& memory) { return memory.address + memory.bytes - sizeof(std::uint64_t); }

struct Pipe {
  base::UniqueFd read, write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(Code::error, "pipe", std::strerror(errno));
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

pid_t start_child(const std::string& name, const Pipe& in, const Pipe& out, int fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  if (fd >= 0) posix_spawn_file_actions_adddup2(&actions, fd, fd_in_child);
  const char* const arguments[] = {"hmcinfo", "share-trial", name.c_str(), nullptr};
  pid_t pid = -1;
  // If the dynamic loader was started with this program as its argument, /proc/self/exe is the loader.
  const bool has_own_loader = ::getauxval(AT_BASE) != 0;
  const char* const self = has_own_loader ? "/proc/self/exe" : program_invocation_name;
  const int error = ::posix_spawn(&pid, self, &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Error(Code::error, "posix_spawn", std::strerror(error));
  return pid;
}

/// Returns the child's output until end-of-file or the timeout.
std::string listen(int fd) {
  const auto end = base::Deadline::after(std::chrono::seconds(30));
  std::string text;
  for (;;) {
    if (!base::wait_for(fd, {.read = true}, end.left_ms())) {
      if (end.expired()) return "the other process printed nothing for 30 s";
      continue;  // a signal
    }
    char piece[512];
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got <= 0) return text;
    text.append(piece, static_cast<std::size_t>(got));
  }
}

std::string ask_child(const std::string& name, const memory::Exported& exported) {
  Pipe in, out;
  // If the descriptor already had the number that the child uses, dup2 would leave it close-on-exec.
  const base::UniqueFd fd(exported.fd ? ::fcntl(exported.fd.get(), F_DUPFD_CLOEXEC, 10) : -1);
  const pid_t pid = start_child(name, in, out, fd.get());
  out.write.reset();
  const auto& ticket = exported.bytes;  // smaller than a pipe's capacity, so this can't block
  (void)!::write(in.write.get(), ticket.data(), ticket.size());
  in.write.reset();
  const std::string said = listen(out.read.get());
  ::kill(pid, SIGKILL);  // it has exited, or has timed out
  ::waitpid(pid, nullptr, 0);
  return said;
}

/// Never throws; returns the reason of a failure. Takes about as long as the start of a process.
TrialResult try_sharing(const memory::Provider& provider, memory::SharingKind kind) {
  TrialResult result;
  try {
    result.why = provider.why_not(kind);
    if (!result.why.empty()) return result;
    const auto backing = kind == memory::SharingKind::ipc ? memory::Backing::plain : memory::Backing::vmm;
    const auto memory = provider.allocate(0, trial_bytes, backing);
    check(provider.copy_from_host(memory->address, &word_of_parent, sizeof word_of_parent));
    const std::string said = ask_child(provider.name(), provider.share(memory, kind));
    if (std::sscanf(said.c_str(), "ok %lf %lf", &result.gigabytes_per_s, &result.latency_us) != 2) {
      result.why = said.empty() ? "the other process died" : said;
      return result;
    }
    std::uint64_t word = 0;
    check(provider.copy_to_host(&word, last_word(*memory), sizeof word));
    result.passed = word == word_of_child;
    if (!result.passed) result.why = "data that the other process wrote isn't visible here";
  } catch (const std::exception& error) {
    result.why = error.what();
  }
  return result;
}

template <typename Work> double fastest_us(int rounds, Work&& work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    check(work());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

std::string import_and_measure(const memory::Provider& provider, memory::Exported exported) {
  using memory::Direction;
  const auto shared = provider.import(std::move(exported), 0);
  std::uint64_t word = 0;
  check(provider.copy_to_host(&word, shared->address, sizeof word));
  if (word != word_of_parent) return "data that the first process wrote isn't visible in the other";
  const auto own = provider.allocate(0, shared->bytes);
  const auto copy = [&](std::size_t bytes) {
    return provider.copy({own->address, shared->address, bytes, Direction::device_to_device});
  };
  const double large_us = fastest_us(5, [&] { return copy(shared->bytes); });
  const double small_us = fastest_us(20, [&] { return copy(8); });
  check(provider.copy_from_host(last_word(*shared), &word_of_child, sizeof word_of_child));
  return fmt::format("ok {} {}", static_cast<double>(shared->bytes) / large_us / 1e3, small_us);
}

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

int run_share_trial(const std::string& provider_name) {
  std::string said = "this process has no such provider";
  try {
    memory::Exported exported;
    exported.bytes.resize(4096);
    const ssize_t got = ::read(STDIN_FILENO, exported.bytes.data(), exported.bytes.size());
    exported.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (::fcntl(fd_in_child, F_GETFD) >= 0) exported.fd.reset(fd_in_child);
    for (const memory::Provider* provider : memory::all_providers())
      if (provider->name() == provider_name) said = import_and_measure(*provider, std::move(exported));
  } catch (const std::exception& error) {
    said = error.what();
  }
  std::fputs(said.c_str(), stdout);
  std::fflush(stdout);
  return 0;
}

}  // namespace hmc::launcher
