// OutputPump: carries ranks' lines to hmcrun's stdout and stderr, each with its tag.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "launcher/mailbox.hpp"
#include "launcher/streams.hpp"

namespace hmc::launcher {

/// Its own thread, so that a reader who is slow to take our output doesn't keep the supervisor from
/// seeing deaths and signals. A line goes out whole, or not yet; the bytes of a line are untouched.
class OutputPump {
 public:
  /// Posts output_done when every pipe has ended and all is written. Nothing to do without sources.
  OutputPump(std::vector<OutputSource> sources, Mailbox& mailbox);
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;
  ~OutputPump();  ///< joins

 private:
  struct Stream {
    OutputSource source;
    std::string tag;
    std::string line;  ///< the begin of a line whose end hasn't come yet
  };
  void run(Mailbox& mailbox);
  void read_from(Stream& stream);
  void take(Stream& stream, const char* bytes, std::size_t size);
  void finish(Stream& stream);
  void put_out(Stream& stream, const std::string& lines);

  std::vector<Stream> streams_;
  std::string out_;                  // reused
  bool broken_[2] = {false, false};  // stdout, stderr: nobody reads it any more
  std::thread thread_;
};

}  // namespace hmc::launcher
