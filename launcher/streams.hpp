// Streams: where each rank's stdin, stdout and stderr come from and go to.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::launcher {

/// A rank's side. Without a descriptor or a file, it inherits hmcrun's: nothing is cheaper.
struct RankStreams {
  int in = -1;  ///< not owned: /dev/null is shared by all
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
  base::UniqueFd file;  ///< gets the plain bytes; may be none
};

/// All descriptors are close-on-exec.
struct JobStreams {
  std::vector<RankStreams> ranks;
  std::vector<OutputSource> sources;  ///< empty unless lines are tagged
  base::UniqueFd null;
  base::UniqueFd terminal_in;    ///< rank 0's side of terminal_feed
  base::UniqueFd terminal_feed;  ///< where to write what is typed; none unless stdin is a terminal
};

/// Creates pipes, folders and files as the options ask. Throws Failure.
JobStreams open_streams(const Options& options);

/// Raises the limit on open descriptors as far as allowed; the ranks get back what hmcrun was given.
void raise_descriptor_limit() noexcept;
/// Throws Failure if hmcrun couldn't open what a job of this size takes.
void require_descriptors(int ranks, int nodes);
/// A closed stdin, stdout or stderr would be given to the next file opened. Opens /dev/null there.
void fill_standard_descriptors() noexcept;

}  // namespace hmc::launcher
