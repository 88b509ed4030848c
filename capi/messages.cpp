// The C ABI: two-sided messages.
#include <cstddef>

#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

using hmc::MessageStatus;
static_assert(HMC_ANY_SOURCE == hmc::any_source && HMC_ANY_TAG == hmc::any_tag);

void give(const MessageStatus& from, hmc_message_status* to, const char* operation) {
  if (to != nullptr) copy_out({0, from.source, from.tag, from.bytes}, to, operation);
}

// irecv writes the status at completion, in the caller's struct.
constexpr std::size_t status_at = offsetof(hmc_message_status, source);
static_assert(sizeof(MessageStatus) == sizeof(hmc_message_status) - status_at &&
              offsetof(MessageStatus, tag) == offsetof(hmc_message_status, tag) - status_at &&
              offsetof(MessageStatus, bytes) == offsetof(hmc_message_status, bytes) - status_at);

MessageStatus* inner(hmc_message_status* status, const char* operation) {
  if (status == nullptr) return nullptr;
  if (status->struct_size < sizeof(hmc_message_status))
    throw hmc::Error(hmc::Code::invalid_argument, operation, "struct_size isn't set");
  return reinterpret_cast<MessageStatus*>(reinterpret_cast<std::byte*>(status) + status_at);
}

}  // namespace

hmc_code hmc_send(hmc_team_t team, const void* data, std::size_t bytes, int destination, int tag) {
  return with(team, "send", [&](hmc::Team& t) { t.send_bytes(data, bytes, destination, tag); });
}
hmc_code hmc_recv(hmc_team_t team, void* data, std::size_t capacity, int source, int tag, hmc_message_status* status) {
  return with(team, "recv", [&](hmc::Team& t) {
    inner(status, "recv");  // checked before the message is received
    give(t.recv_bytes(data, capacity, source, tag), status, "recv");
  });
}
hmc_code hmc_isend(hmc_team_t team, const void* data, std::size_t bytes, int destination, int tag,
                   hmc_request_t* request) {
  return query(team, "isend", request,
               [&](hmc::Team& t) { return to_c(t.isend_bytes(data, bytes, destination, tag)); });
}
hmc_code hmc_irecv(hmc_team_t team, void* data, std::size_t capacity, int source, int tag, hmc_message_status* status,
                   hmc_request_t* request) {
  return query(team, "irecv", request,
               [&](hmc::Team& t) { return to_c(t.irecv_bytes(data, capacity, source, tag, inner(status, "irecv"))); });
}
hmc_code hmc_sendrecv(hmc_team_t team, const void* out, std::size_t bytes, int destination, int send_tag, void* in,
                      std::size_t capacity, int source, int recv_tag, hmc_message_status* status) {
  return with(team, "sendrecv", [&](hmc::Team& t) {
    inner(status, "sendrecv");
    give(t.sendrecv_bytes(out, bytes, destination, send_tag, in, capacity, source, recv_tag), status, "sendrecv");
  });
}
hmc_code hmc_probe(hmc_team_t team, int source, int tag, hmc_message_status* status) {
  return with(team, "probe", [&](hmc::Team& t) {
    inner(status, "probe");
    give(t.probe(source, tag), status, "probe");
  });
}
hmc_code hmc_iprobe(hmc_team_t team, int source, int tag, int* found, hmc_message_status* status) {
  return query(team, "iprobe", found, [&](hmc::Team& t) {
    MessageStatus seen;
    inner(status, "iprobe");
    const bool is_there = t.iprobe(source, tag, &seen);
    if (is_there) give(seen, status, "iprobe");
    return is_there ? 1 : 0;
  });
}
