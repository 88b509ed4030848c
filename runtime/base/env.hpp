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

/// Every HMC_* variable; hmcinfo prints this table, and no code asks for a name that isn't in it.
struct EnvVar {
  std::string_view name;
  std::string_view values;    ///< what may be given
  std::string_view fallback;  ///< what holds when it isn't set
  std::string_view meaning;
};
std::span<const EnvVar> env_table() noexcept;

/// The environment's settings, read once and immutable. Throws Error{invalid_config} naming the
/// variable, its value and what may be given.
class Env {
 public:
  using Lookup = std::optional<std::string> (*)(std::string_view name);
  static Env from_process();
  static Env from(Lookup lookup);  ///< for tests

  // the job, as a launcher or a person says it
  std::optional<int> rank;
  std::optional<int> size;
  std::string store;     ///< host:port, [v6]:port
  std::string secret;    ///< hex, the job's
  std::string node;      ///< a label; ranks with different labels are on different (pretended) nodes
  std::string launcher;  ///< who set the above; empty: by hand

  // what other launchers say: those of foreign_names() that are set
  std::map<std::string, std::string, std::less<>> foreign;
  static std::span<const std::string_view> foreign_names() noexcept;

  /// The file that HMC_*_LIBRARY names; empty when it isn't set. Read when a library is first wanted.
  static std::string library(std::string_view variable);

  /// HMC_DEVICE_SHARING: the only way into peers' device memory that is tried; empty: all of them. Read when a window
  /// is made. Throws Error{invalid_config}.
  static std::string device_sharing();

  /// HMC_* variables of this process that no code reads and whose names are close to one that is in the table: likely
  /// misspelt.
  struct Misspelt {
    std::string name;
    std::string_view nearest;
  };
  static std::vector<Misspelt> misspelt();
  static std::vector<Misspelt> misspelt(std::span<const char* const> environment);  ///< "NAME=value"

  // behaviour
  std::string transport;              ///< the forced wire; empty: the best per pair
  bool keeps_tcp_congestion = false;  ///< sockets keep the system's congestion control
  LogLevel log = LogLevel::warn;
  std::chrono::nanoseconds timeout{std::chrono::seconds{300}};
  std::string coll;          ///< forced algorithms: "allreduce:ring,broadcast:binomial"
  std::string coll_file;     ///< rows that say which algorithm is taken when
  std::string coll_private;  ///< "staged", "allow", "read", or "auto" or empty: how peers get at buffers that lie in no
                             ///< window; see transport::PeerReads
  std::string cache;         ///< the folder of what was measured of this machine; empty: none
  bool deterministic = false;  ///< reductions' bits depend on the team's size and the contributions alone
  std::string wait;            ///< "spin", "sleep", or empty: by whether ranks outnumber cores
  std::string progress;        ///< "caller": no thread goes on with started collectives; "auto" or empty: one does
};

}  // namespace hmc::base
