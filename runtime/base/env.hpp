// Env: the only reader of the environment.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hmc::base {

enum class LogLevel { error, warn, info, debug };

/// Every HMC_* variable. hmcinfo prints this table; no code reads a variable that isn't in it.
struct EnvVar {
  std::string_view name;
  std::string_view values;    ///< the allowed values
  std::string_view fallback;  ///< the default
  std::string_view meaning;
};
std::span<const EnvVar> env_table() noexcept;

/// The environment's settings, read once and immutable. Throws Error{invalid_config} with the
/// variable, its value and the allowed values.
class Env {
 public:
  using Lookup = std::optional<std::string> (*)(std::string_view name);
  static Env from_process();
  static Env from(Lookup lookup);  ///< for tests

  // the job, as set by a launcher or by hand
  std::optional<int> rank;
  std::optional<int> size;
  std::string store;     ///< host:port, [v6]:port
  std::string secret;    ///< the job's secret in hex
  std::string node;      ///< a label; ranks with different labels are on different (emulated) nodes
  std::string launcher;  ///< the launcher that set these variables; empty: set by hand

  // variables of other launchers that are set
  std::map<std::string, std::string, std::less<>> foreign;

  /// The value of an HMC_*_LIBRARY variable; empty if not set. Read at the first use of the library.
  static std::string library(std::string_view variable);

  /// HMC_DEVICE_SHARING: restricts access to peers' device memory to one method; empty: all methods are tried. Read
  /// when a window is created. Throws Error{invalid_config}.
  static std::string device_sharing();

  /// HMC_TLS. Read when a TCP connection is made. Throws Error{invalid_config}.
  static bool uses_tls();

  /// HMC_NET: the network interfaces to use; empty: all. See base/interfaces.hpp.
  static std::string net();

  /// XDG_RUNTIME_DIR; empty: not set, or relative.
  static std::string runtime_folder();

  /// HMC_LOST_HOST_S, in seconds. Throws Error{invalid_config}.
  static int lost_host_s();

  /// HMC_* variables of this process that aren't in the table, but whose names are similar to a name in the table. They
  /// are probably misspelt.
  struct Misspelt {
    std::string name;
    std::string_view nearest;
  };
  static std::vector<Misspelt> misspelt();
  static std::vector<Misspelt> misspelt(std::span<const char* const> environment);  ///< "NAME=value"

  // behaviour
  std::string transport;              ///< the forced wire; empty: the best per pair
  std::string rdma_device;            ///< "device" or "device:port"; empty: the best
  int rdma_gid = -1;                  ///< the index of the local address; negative: by preference
  int rdma_queue_pairs = 1;           ///< per peer
  bool keeps_tcp_congestion = false;  ///< sockets keep the system's congestion control
  LogLevel log = LogLevel::warn;
  /// HMC_TIMEOUT_S. No limit: three years, so that sums of deadlines don't overflow.
  static constexpr std::chrono::nanoseconds no_timeout{std::chrono::seconds{100'000'000}};
  static constexpr std::chrono::seconds start_timeout{60};  ///< of the start of a job, if it isn't set
  std::chrono::nanoseconds timeout{no_timeout};
  std::chrono::nanoseconds timeout_or(std::chrono::nanoseconds other) const noexcept {
    return timeout == no_timeout ? other : timeout;
  }
  std::chrono::nanoseconds report{std::chrono::seconds{60}};  ///< HMC_REPORT_S: a longer wait is reported
  std::string coll;            ///< forced algorithms: "allreduce:ring,broadcast:binomial"
  std::string coll_file;       ///< a file of rules for the choice of algorithms
  std::string coll_private;    ///< access to a peer's buffer outside all windows: "staged", "allow", "read", "auto";
                               ///< empty: auto; see transport::PeerReads
  std::string cache;           ///< the directory of this machine's measurements; empty: none
  bool deterministic = false;  ///< the result of a reduction depends bitwise only on team size and contributions
  std::string wait;            ///< "spin", "sleep"; empty: as the use of the cores requires
  std::string progress;        ///< "caller": no progress thread for started collectives; "auto" or empty: one thread
};

}  // namespace hmc::base
