// Streams: each rank's stdin, stdout and stderr.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// A rank's side of its streams. Without a descriptor or a file the rank inherits hmcrun's stream, which is the
/// cheapest.
struct RankStreams {
  int in = -1;  ///< not owned: all ranks share /dev/null
  base::UniqueFd out;
  base::UniqueFd err;
  std::string out_file;
  std::string err_file;
};

/// hmcrun's side of one rank's stdout or stderr.
struct OutputSource {
  int rank = 0;
  bool is_stderr = false;
  base::UniqueFd pipe;
  base::UniqueFd file;  ///< receives the untagged bytes; may be empty
};

/// All descriptors are close-on-exec.
struct JobStreams {
  std::vector<RankStreams> ranks;
  std::vector<OutputSource> sources;  ///< empty unless lines are tagged
  base::UniqueFd null;
  base::UniqueFd terminal_in;    ///< rank 0's side of terminal_feed
  base::UniqueFd terminal_feed;  ///< hmcrun writes terminal input to it; empty unless stdin is a terminal
};

/// Creates the pipes, directories and files that the options require. Throws LaunchError.
JobStreams open_streams(const Options& options);

/// Raises the limit on open descriptors as far as allowed. The ranks get the inherited limit.
void raise_descriptor_limit() noexcept;
/// Throws LaunchError if the limit is too low for a job of this size.
void require_descriptors(int ranks, int nodes);
/// Opens /dev/null in place of a closed stdin, stdout or stderr. Otherwise the next opened file would get that
/// descriptor number.
void fill_standard_descriptors() noexcept;

}  // namespace hmc::launcher
