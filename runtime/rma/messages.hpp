// Messages: the two-sided messages of a job.
#pragma once

#include <cstddef>

#include <hmc/message.hpp>
#include <hmc/request.hpp>

#include "runtime/base/node_page.hpp"

namespace hmc::rma {

class TeamCore;

/// A call as the user made it.
struct MessageCall {
  const TeamCore& team;
  const char* name;  ///< for errors
  base::Activity activity;
  int peer;  ///< rank in the team; any_source: -1
  int tag;
  void* data;  ///< a send only reads it
  std::size_t bytes;
};

/// Of one rank, of all its teams. runtime/p2p implements it; the world owns it.
class Messages {
 public:
  virtual ~Messages() = default;

  // ---- the arguments are checked. Throw Error.
  virtual void send(const MessageCall& call) = 0;
  virtual MessageStatus recv(const MessageCall& call) = 0;
  virtual Request isend(const MessageCall& call) = 0;
  virtual Request irecv(const MessageCall& call, MessageStatus* status) = 0;
  virtual MessageStatus sendrecv(const MessageCall& out, const MessageCall& in) = 0;
  virtual MessageStatus probe(const MessageCall& call) = 0;
  virtual bool iprobe(const MessageCall& call, MessageStatus& status) = 0;

  /// Before the barrier of Runtime::close: waits until no peer needs this rank, and ends the operations in flight.
  virtual void close() = 0;
  /// After that barrier: warns of the messages that this rank hasn't received.
  virtual void report_unreceived() noexcept = 0;
};

}  // namespace hmc::rma
