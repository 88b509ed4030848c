// OutputPump: copies the ranks' lines to hmcrun's stdout and stderr, each with its tag.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "launcher/mailbox.hpp"
#include "launcher/streams.hpp"

namespace hmc::launcher {

/// Owns a thread, so that a slow reader of hmcrun's output doesn't delay the supervisor's handling of exits and
/// signals. It writes only whole lines, with unchanged bytes.
class OutputPump {
 public:
  /// Posts output_done when all pipes are at end-of-file and all output is written. Without sources it does nothing.
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
  void put_out(Stream& stream, const std::string& lines);

  std::vector<Stream> streams_;
  std::string out_;                  // reused
  bool broken_[2] = {false, false};  // stdout, stderr: true if its reader has closed it
  std::thread thread_;
};

}  // namespace hmc::launcher
