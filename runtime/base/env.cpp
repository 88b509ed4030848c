#include "runtime/base/env.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include <hmc/error.hpp>

#include "runtime/base/outage.hpp"

namespace hmc::base {

namespace {

constexpr auto table = std::to_array<EnvVar>({
    {"HMC_RANK", "0..HMC_SIZE-1", "", "this process's rank; set by the launcher, or by hand"},
    {"HMC_SIZE", "1..", "", "the number of ranks in the job"},
    {"HMC_STORE", "host:port", "", "the address of the job's rendezvous (store)"},
    {"HMC_SECRET", "64 hex digits", "", "the job's secret; every control message is authenticated with it"},
    {"HMC_TLS", "0, 1", "0", "1: encrypt TCP connections, and use no other wire between nodes; needs HMC_SECRET"},
    {"HMC_NODE", "a word", "", "a label: ranks with different labels count as being on different nodes"},
    {"HMC_LAUNCHER", "a word", "", "the launcher that set the variables above; empty: set by hand"},
    {"HMC_TRANSPORT", "shm, verbs, ucx, tcp", "the best per pair", "force one wire for every pair of ranks"},
    {"HMC_NET", "eth0,..., ^docker0,...", "all that are up, without loopback",
     "the network interfaces for TCP; ^: all but these"},
    {"HMC_RDMA_DEVICE", "device, device:port", "the best with an active port", "the RDMA device of the verbs wire"},
    {"HMC_RDMA_GID", "0..255", "RoCE v2, IPv4 first", "the index of the verbs wire's local address"},
    {"HMC_RDMA_QPS", "1..8", "1", "queue pairs per peer, over which the verbs wire distributes large transfers"},
    {"CTRL_TRANSPORT", "tcp, uds", "a Unix socket on one machine, else TCP",
     "force the sockets of CtrlSocketManager (<hmc.h>)"},
    {"HMC_CTRL_PORT", "1..65535", "5555", "the port of CtrlSocketManager's calls that have none (<hmc.h>)"},
    {"HMC_TCP_CONGESTION", "auto, system", "auto",
     "auto: reno instead of bbr on loopback and within one IP network; system: the system's default"},
    {"HMC_LOG", "error, warn, info, debug", "warn", "the log level on stderr"},
    {"HMC_TIMEOUT_S", "seconds > 0", "none; 60 for Runtime::init",
     "the timeout of every wait without an explicit timeout"},
    {"HMC_REPORT_S", "seconds > 0", "60",
     "a wait of this time, and twice, four times, ..., is reported with the missing ranks"},
    {"HMC_LOST_HOST_S", "1..900", "10", "the time after which a host whose kernel doesn't answer is lost"},
    {"HMC_COLL", "collective:algorithm,...", "by size", "force the algorithms of collectives"},
    {"HMC_COLL_FILE", "a file", "", "JSON rules for the choice of algorithms; see docs/selection.md"},
    {"HMC_COLL_PRIVATE", "auto, allow, read, staged", "auto",
     "buffers outside all windows. auto: peers read them if that is faster; allow: as auto, and permits it under Yama; "
     "read: peers always read them; staged: peers never read them"},
    {"HMC_CACHE", "a folder, off", "$XDG_CACHE_HOME/hmc", "the directory of this machine's measurements"},
    {"HMC_DETERMINISTIC", "0, 1", "0", "1: results of reductions depend bitwise only on the team size and the values"},
    {"HMC_WAIT", "spin, sleep", "as the use of the cores requires", "how a rank waits"},
    {"HMC_PROGRESS", "auto, caller", "auto",
     "progress of non-blocking collectives. auto: also by a thread; caller: only in the caller's calls"},
    {"HMC_DEVICE_SHARING", "process, vmm, fabric, ipc, staged", "the first that works",
     "the method of access to peers' device memory. staged: the owner copies (also the fallback). vmm: "
     "HIP memory is allocated for it too"},
    {"HMC_CUDA_LIBRARY", "a file, none", "libcuda.so.1", "NVIDIA's driver library; none: don't use it"},
    {"HMC_HIP_LIBRARY", "a file, none", "libgalaxyhip.so.5, else libamdhip64.so", "Hygon's or AMD's runtime library"},
    {"HMC_MUSA_LIBRARY", "a file, none", "libmusart.so", "Moore Threads' runtime library"},
    {"HMC_CNRT_LIBRARY", "a file, none", "libcnrt.so", "Cambricon's runtime library"},
    {"HMC_ACL_LIBRARY", "a file, none", "libascendcl.so", "Ascend's runtime library"},
    {"HMC_OPENCL_LIBRARY", "a file, none", "libOpenCL.so.1", "the OpenCL loader"},
    {"HMC_OPENMP_LIBRARY", "a file, none", "the process's, or libgomp.so.1",
     "OpenMP, for Buffers in its devices' memory"},
    {"HMC_NVRTC_LIBRARY", "a file, none", "libnvrtc.so",
     "NVIDIA's compiler library, for kernels that weren't built in"},
    {"HMC_HIPRTC_LIBRARY", "a file, none", "libhiprtc.so", "AMD's compiler library"},
    {"HMC_DEVICE_KERNELS", "runtime, none", "built in, else runtime",
     "runtime: compile device kernels at first use; none: the host reduces"},
});

constexpr auto foreign_table = std::to_array<std::string_view>({
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",  // torchrun
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_LIBDIR_LOC",
    "PMIX_PREFIX",  // PMIx
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "MPI_LOCALNRANKS",  // PMI-1
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_ID",
    "SLURM_JOB_ID",
});

[[noreturn]] void refuse(std::string_view name, const std::string& value) {
  for (const EnvVar& var : table) {
    if (var.name != name) continue;
    throw Error(Code::invalid_config, "environment", fmt::format("{}='{}' can't be used", name, value),
                fmt::format("valid values of {}: {} ({})", name, var.values, var.meaning));
  }
  throw Error(Code::invalid_config, "environment", fmt::format("{}='{}' can't be used", name, value));
}

std::optional<int> read_int(Env::Lookup lookup, std::string_view name, int least) {
  const auto value = lookup(name);
  if (!value || value->empty()) return std::nullopt;
  int number = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc{} || stop != end || number < least) refuse(name, *value);
  return number;
}

std::chrono::nanoseconds read_seconds(Env::Lookup lookup, std::string_view name, std::chrono::nanoseconds fallback) {
  const auto value = lookup(name);
  if (!value || value->empty()) return fallback;
  double seconds = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, seconds);
  // The limit, 10^8 s (three years), prevents the overflow of a deadline in nanoseconds.
  if (error != std::errc{} || stop != end || !(seconds > 0) || seconds > 1e8) refuse(name, *value);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

std::string read_word(Env::Lookup lookup, std::string_view name, std::initializer_list<std::string_view> allowed = {}) {
  const std::string value = lookup(name).value_or("");
  if (value.empty() || allowed.size() == 0) return value;
  for (const std::string_view word : allowed)
    if (value == word) return value;
  refuse(name, value);
}

LogLevel read_level(Env::Lookup lookup) {
  const std::string word = read_word(lookup, "HMC_LOG", {"error", "warn", "info", "debug"});
  if (word == "error") return LogLevel::error;
  if (word == "info") return LogLevel::info;
  if (word == "debug") return LogLevel::debug;
  return LogLevel::warn;
}

/// XDG base directory specification: a relative XDG_CACHE_HOME counts as not set.
std::string cache_folder(Env::Lookup lookup) {
  const std::string given = read_word(lookup, "HMC_CACHE");
  if (given == "off") return {};
  if (!given.empty()) return given;
  const auto absolute = [&](std::string_view name) {
    auto value = lookup(name).value_or("");
    return value.starts_with('/') ? value : std::string();
  };
  if (const std::string home = absolute("XDG_CACHE_HOME"); !home.empty()) return home + "/hmc";
  const std::string home = absolute("HOME");
  return home.empty() ? home : home + "/.cache/hmc";
}

/// Edit distance: insertions, deletions and replacements of a letter, and swaps of two neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last.back();
}

std::optional<std::string> from_getenv(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace

std::span<const EnvVar> env_table() noexcept { return table; }

std::string Env::library(std::string_view variable) { return from_getenv(variable).value_or(""); }

std::string Env::device_sharing() {
  return read_word(&from_getenv, "HMC_DEVICE_SHARING", {"process", "vmm", "fabric", "ipc", "staged"});
}

std::string Env::runtime_folder() {
  const std::string folder = from_getenv("XDG_RUNTIME_DIR").value_or("");
  return folder.starts_with('/') ? folder : std::string();
}

std::string Env::net() { return from_getenv("HMC_NET").value_or(""); }

int Env::lost_host_s() {
  const int seconds = read_int(&from_getenv, "HMC_LOST_HOST_S", 1).value_or(10);
  if (seconds > longest_lost_host_s) refuse("HMC_LOST_HOST_S", std::to_string(seconds));
  return seconds;
}

bool Env::uses_tls() { return read_word(&from_getenv, "HMC_TLS", {"0", "1"}) == "1"; }

std::vector<Env::Misspelt> Env::misspelt() {
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  return misspelt({environ, count});
}

std::vector<Env::Misspelt> Env::misspelt(std::span<const char* const> environment) {
  constexpr std::string_view prefix = "HMC_";
  std::vector<Misspelt> found;
  for (const std::string_view entry : environment) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(prefix)) continue;
    const EnvVar* nearest = nullptr;
    // At most one letter in three may differ, so that a program's own HMC_* variables aren't reported.
    std::size_t least = std::max<std::size_t>(1, (name.size() - prefix.size()) / 3) + 1;
    for (const EnvVar& var : table) {
      const std::size_t apart = distance(name, var.name);
      if (apart >= least) continue;
      least = apart;
      nearest = &var;
    }
    if (nearest != nullptr && least > 0) found.push_back({std::string(name), nearest->name});
  }
  return found;
}

Env Env::from_process() { return from(&from_getenv); }

Env Env::from(Lookup lookup) {
  Env env;
  env.rank = read_int(lookup, "HMC_RANK", 0);
  env.size = read_int(lookup, "HMC_SIZE", 1);
  if (env.rank && env.size && *env.rank >= *env.size) refuse("HMC_RANK", std::to_string(*env.rank));
  env.store = read_word(lookup, "HMC_STORE");
  env.secret = read_word(lookup, "HMC_SECRET");
  env.node = read_word(lookup, "HMC_NODE");
  env.launcher = read_word(lookup, "HMC_LAUNCHER");
  for (const std::string_view name : foreign_table) {
    if (auto value = lookup(name); value && !value->empty()) env.foreign.emplace(name, *std::move(value));
  }
  env.transport = read_word(lookup, "HMC_TRANSPORT", {"shm", "verbs", "ucx", "tcp"});
  env.rdma_device = read_word(lookup, "HMC_RDMA_DEVICE");
  env.rdma_gid = read_int(lookup, "HMC_RDMA_GID", 0).value_or(-1);
  if (env.rdma_gid > 255) refuse("HMC_RDMA_GID", std::to_string(env.rdma_gid));
  env.rdma_queue_pairs = read_int(lookup, "HMC_RDMA_QPS", 1).value_or(1);
  if (env.rdma_queue_pairs > 8) refuse("HMC_RDMA_QPS", std::to_string(env.rdma_queue_pairs));
  env.keeps_tcp_congestion = read_word(lookup, "HMC_TCP_CONGESTION", {"auto", "system"}) == "system";
  env.log = read_level(lookup);
  env.timeout = read_seconds(lookup, "HMC_TIMEOUT_S", env.timeout);
  env.report = read_seconds(lookup, "HMC_REPORT_S", env.report);
  env.coll = read_word(lookup, "HMC_COLL");
  env.coll_file = read_word(lookup, "HMC_COLL_FILE");
  env.coll_private = read_word(lookup, "HMC_COLL_PRIVATE", {"auto", "allow", "read", "staged"});
  env.cache = cache_folder(lookup);
  env.deterministic = read_word(lookup, "HMC_DETERMINISTIC", {"0", "1"}) == "1";
  env.wait = read_word(lookup, "HMC_WAIT", {"spin", "sleep"});
  env.progress = read_word(lookup, "HMC_PROGRESS", {"auto", "caller"});
  return env;
}

}  // namespace hmc::base
