// PartOrder: the order of the user's hmcrun (Head) to the hmcrun of one host (`hmcrun --part`).
#pragma once

#include <optional>
#include <string>

#include "launcher/options.hpp"
#include "launcher/plan.hpp"
#include "runtime/base/bytes.hpp"

namespace hmc::launcher {

/// The values of a Command to the parts; all others are signals for the ranks.
inline constexpr int command_describe = 0;
inline constexpr int command_start_no_more = -1;

/// Head writes it to the standard input of `hmcrun --part`, because a secret on the command line would be visible to
/// other users. The bytes after it are rank 0's input.
struct PartOrder {
  Options options;        ///< of the part: its ranks, output, binding, program
  std::string host;       ///< its name on the command line
  std::string store;      ///< addresses of the job's store
  std::string secret;     ///< hexadecimal
  std::string folder;     ///< the working directory
  Environment variables;  ///< HMC_*, UCX_* and -x

  base::Bytes encode() const;  ///< with the length in front
  /// Without the length. nullopt if it isn't valid.
  static std::optional<PartOrder> decode(base::ByteView bytes);
  /// Reads exactly the order from a descriptor. Throws LaunchError.
  static PartOrder read(int fd);
};

}  // namespace hmc::launcher
