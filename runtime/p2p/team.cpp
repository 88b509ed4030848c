// The public calls of Team for messages: each call checks its arguments.
#include <fmt/format.h>

#include <hmc/team.hpp>

#include "runtime/rma/team_core.hpp"

namespace hmc {

namespace {

using base::Activity;
using Call = rma::MessageCall;

[[noreturn]] void refuse(const rma::TeamCore& team, const char* name, Code code, int peer, std::size_t bytes,
                         std::string text) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = name;
  detail.rank = team.fabric().rank;
  detail.peer = peer;
  detail.size = bytes;
  detail.message = std::move(text);
  throw Error(std::move(detail));
}

rma::Messages& messages_of(const rma::TeamCore* team, const char* name) {
  if (team == nullptr) throw Error(Code::closed, name, "the team is empty: this rank isn't a member");
  if (team->fabric().closed() || team->fabric().messages == nullptr) rma::throw_closed_runtime(team->fabric(), name);
  if (team->closed) throw Error(Code::closed, name, "the team is closed");
  return *team->fabric().messages;
}

/// `lowest`: 0, or -1 if the rank or tag may be any.
const Call& checked(const Call& call, int lowest) {
  if (call.peer < lowest || call.peer >= call.team.size()) [[unlikely]]
    refuse(call.team, call.name, Code::bad_rank, call.peer, call.bytes,
           fmt::format("there is no rank {} in a team of {}", call.peer, call.team.size()));
  if (call.tag < lowest) [[unlikely]]
    refuse(call.team, call.name, Code::invalid_argument, call.peer, call.bytes,
           fmt::format("a tag is at least 0, and not {}", call.tag));
  if (call.data == nullptr && call.bytes > 0) [[unlikely]]
    refuse(call.team, call.name, Code::invalid_argument, call.peer, call.bytes, "the buffer is null");
  return call;
}

}  // namespace

void Team::send_bytes(const void* data, std::size_t bytes, int destination, int tag) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "send");
  messages.send(checked({*team, "send", Activity::send, destination, tag, const_cast<void*>(data), bytes}, 0));
}

MessageStatus Team::recv_bytes(void* data, std::size_t capacity, int source, int tag) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "recv");
  return messages.recv(checked({*team, "recv", Activity::recv, source, tag, data, capacity}, -1));
}

Request Team::isend_bytes(const void* data, std::size_t bytes, int destination, int tag) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "isend");
  return messages.isend(checked({*team, "isend", Activity::send, destination, tag, const_cast<void*>(data), bytes}, 0));
}

Request Team::irecv_bytes(void* data, std::size_t capacity, int source, int tag, MessageStatus* status) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "irecv");
  return messages.irecv(checked({*team, "irecv", Activity::recv, source, tag, data, capacity}, -1), status);
}

MessageStatus Team::sendrecv_bytes(const void* out, std::size_t bytes, int destination, int send_tag, void* in,
                                   std::size_t capacity, int source, int recv_tag) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "sendrecv");
  return messages.sendrecv(
      checked({*team, "sendrecv", Activity::send, destination, send_tag, const_cast<void*>(out), bytes}, 0),
      checked({*team, "sendrecv", Activity::recv, source, recv_tag, in, capacity}, -1));
}

MessageStatus Team::probe(int source, int tag) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "probe");
  return messages.probe(checked({*team, "probe", Activity::probe, source, tag, nullptr, 0}, -1));
}

bool Team::iprobe(int source, int tag, MessageStatus* status) {
  const rma::TeamCore* const team = core();
  rma::Messages& messages = messages_of(team, "iprobe");
  MessageStatus found;
  const bool is_there =
      messages.iprobe(checked({*team, "iprobe", Activity::probe, source, tag, nullptr, 0}, -1), found);
  if (is_there && status != nullptr) *status = found;
  return is_there;
}

}  // namespace hmc
