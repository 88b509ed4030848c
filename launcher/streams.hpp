// The standard streams of the ranks: JobStreams opens them, OutputPump tags output, TerminalInput passes input to rank
// 0.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/mailbox.hpp"
#include "launcher/options.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/poller.hpp"

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
  base::UniqueFd file;       ///< receives the untagged bytes; may be empty
  std::string program = {};  ///< its name, if the job has several programs
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

/// Owns a thread, so that a slow reader of hmcrun's output doesn't delay the supervisor's handling of exits and
/// signals. It writes only whole lines, with unchanged bytes.
class OutputPump {
 public:
  /// Posts output_done when all pipes are at end-of-file and all output is written. Its value is not 0 if some couldn't
  /// be written (a full disk). Without sources it does nothing.
  OutputPump(std::vector<OutputSource> sources, Mailbox& mailbox);
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;
  ~OutputPump();  ///< joins

 private:
  struct Stream {
    OutputSource source;
    std::string tag;
    std::string line;  ///< an incomplete line
  };
  void run(Mailbox& mailbox);
  void read_from(Stream& stream);
  void take(Stream& stream, const char* bytes, std::size_t size);
  void finish(Stream& stream);
  void close(Stream& stream);
  void put_out(Stream& stream, const std::string& lines);

  std::vector<Stream> streams_;
  std::optional<base::Poller> poller_;  // if there are streams
  std::size_t open_ = 0;                // streams
  std::string out_;                     // reused
  bool broken_[2] = {false, false};     // stdout, stderr: true if its reader has closed it, or after an error
  bool failed_ = false;                 // some output is lost by an error
  std::thread thread_;
};

/// Copies stdin to a pipe, in the turns of hmcrun's poller. Without a pipe it does nothing, because rank 0 inherits
/// stdin.
class TerminalInput {
 public:
  explicit TerminalInput(base::Poller& poller) : poller_(poller), foreground_(poller, [this] { choose(); }) {}
  void open(base::UniqueFd feed);

 private:
  void choose();
  void read_terminal();
  void write_feed();
  void end();

  base::Poller& poller_;
  base::UniqueFd feed_;
  std::string pending_;  // input that the feed hasn't accepted yet; meanwhile no more is read
  // Set while hmcrun is in the background and may not read the terminal: a shell's `fg` causes no event.
  base::Poller::Timer foreground_;
};

}  // namespace hmc::launcher
