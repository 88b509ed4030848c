#include "runtime/transport/ucx/peers.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include <hmc/error.hpp>

#include "runtime/transport/ucx/tsan_order.hpp"

namespace hmc::transport::ucx {

namespace {

/// Each of close()'s two steps takes no longer than this.
constexpr std::int64_t longest_close_ns = 1'000'000'000;

}  // namespace

Peers::~Peers() { close(); }

void Peers::know(std::vector<base::Bytes> addresses) {
  peers_.resize(addresses.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.rank = static_cast<int>(i);
    peer.owner = this;
    if (addresses[i].empty()) continue;
    if (addresses[i][0] != std::byte{protocol_version}) {
      throw Error(Code::refused, "ucx",
                  fmt::format("rank {} speaks version {} of this wire, and we speak {}", i,
                              static_cast<int>(addresses[i][0]), protocol_version),
                  "all ranks must run the same build");
    }
    peer.address.assign(addresses[i].begin() + 1, addresses[i].end());
  }
  failed_.reserve(peers_.size());
}

base::Status Peers::send(Peer& peer, const Message& message, const void* data, std::uint64_t bytes, Ticket ticket,
                         std::uint64_t* reading) noexcept {
  if (!peer.failure.ok()) return peer.failure;
  if (peer.endpoint == nullptr) {
    const base::Status status = connect(peer);
    if (!status.ok()) return status;
  }
  Sending* const record = take();
  if (record == nullptr) return base::Status::failure(Code::out_of_memory, "no memory for a message", peer.rank);
  record->message = message;
  record->message.sequence = peer.sent++;
  record->ticket = ticket;
  record->reading = reading;
  if (reading != nullptr) ++*reading;
  if (bytes > 0 && bytes <= inline_bytes) {
    std::memcpy(record->data, data, bytes);
    data = record->data;
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_sent;
  param.user_data = record;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;  // it needn't look the address up
  TsanOrder::sends(message.origin);
  void* const request =
      worker_.ucp().ucp_am_send_nbx(peer.endpoint, 0, &record->message, sizeof(Message), data, bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return {};
  const ucs_status_t sent = request == nullptr ? UCS_OK : UCS_PTR_STATUS(request);
  finish(*record, sent);
  if (sent == UCS_OK) return {};
  fail(peer, base::Status::failure(Code::peer_failed, worker_.ucp().ucs_status_string(sent), peer.rank));
  return peer.failure;
}

base::Status Peers::connect(Peer& peer) noexcept {
  if (peer.address.empty()) return base::Status::failure(Code::unavailable, "that rank has no UCX", peer.rank);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  const ucs_status_t status = worker_.ucp().ucp_ep_create(worker_.handle(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    log_.warn("ucx: no connection to rank {}: {}", peer.rank, worker_.ucp().ucs_status_string(status));
    fail(peer, base::Status::failure(Code::unavailable, worker_.ucp().ucs_status_string(status), peer.rank));
    return peer.failure;
  }
  if (log_.wants(base::LogLevel::info)) describe(peer);
  return {};
}

/// UCX tells the devices it took only in this text.
void Peers::describe(const Peer& peer) const {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return;
  worker_.ucp().ucp_ep_print_info(peer.endpoint, stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  const std::string all(text, size);
  const auto lane = all.find("lane[0]:");
  const auto line = lane == std::string::npos ? std::string("?") : all.substr(lane, all.find('\n', lane) - lane);
  log_.info("ucx: connected to rank {} by {}", peer.rank, line);
}

Sending* Peers::take() {
  if (free_.empty()) {
    // A message that finds no free record is the only one that allocates.
    auto record = std::unique_ptr<Sending>(new (std::nothrow) Sending);
    if (record == nullptr) return nullptr;
    record->owner = this;
    if (free_.capacity() <= records_.size())
      free_.reserve(2 * records_.size() + 16);  // so that finish() never allocates
    free_.push_back(record.get());
    records_.push_back(std::move(record));
  }
  Sending* const record = free_.back();
  free_.pop_back();
  return record;
}

void Peers::finish(Sending& record, ucs_status_t status) noexcept {
  if (record.reading != nullptr) --*record.reading;
  if (record.ticket != done) {
    if (status == UCS_OK)
      tickets_.advance(record.ticket, 1);
    else
      tickets_.fail(record.ticket, base::Status::failure(Code::peer_failed, "the connection was lost"));
  }
  free_.push_back(&record);
}

void Peers::on_sent(void* request, ucs_status_t status, void* user_data) noexcept {
  auto& record = *static_cast<Sending*>(user_data);
  const Library& ucp = record.owner->worker_.ucp();
  record.owner->finish(record, status);
  ucp.ucp_request_free(request);
}

void Peers::on_error(void* argument, ucp_ep_h, ucs_status_t status) noexcept {
  auto& peer = *static_cast<Peer*>(argument);
  Peers& peers = *peer.owner;
  peers.log_.debug("ucx: rank {}: {}", peer.rank, peers.worker_.ucp().ucs_status_string(status));
  peers.fail(peer, base::Status::failure(Code::peer_failed, "the connection was lost", peer.rank));
}

void Peers::fail(Peer& peer, base::Status status) noexcept {
  if (!peer.failure.ok()) return;
  peer.failure = status;
  failed_.push_back(peer.rank);
}

void Peers::bury() noexcept {
  for (const int rank : failed_) {
    tickets_.fail_peer(rank, at(rank).failure);
    close_endpoint(at(rank), UCP_EP_CLOSE_FLAG_FORCE);
  }
  failed_.clear();
}

void Peers::close_endpoint(Peer& peer, unsigned flags) noexcept {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  void* const request = worker_.ucp().ucp_ep_close_nbx(peer.endpoint, &param);
  peer.endpoint = nullptr;
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Peers::wait_closing(std::int64_t limit_ns) noexcept {
  const std::int64_t limit = base::now_ns() + limit_ns;
  while (!closing_.empty() && base::now_ns() < limit) {
    if (worker_.progress() == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::erase_if(closing_, [&](void* request) {
      if (worker_.ucp().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      worker_.ucp().ucp_request_free(request);
      return true;
    });
  }
}

void Peers::close() noexcept {
  // Windows were flushed before, so there is next to nothing to deliver: answers to others at most.
  // A peer that is gone or stuck must not hold us.
  bury();
  const std::int64_t limit = base::now_ns() + longest_close_ns;
  while (sending() > 0 && base::now_ns() < limit) (void)worker_.progress();
  const unsigned flags = sending() > 0 ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  for (Peer& peer : peers_) {
    if (peer.failure.ok()) peer.failure = base::Status::failure(Code::closed, "the wire was closed", peer.rank);
    close_endpoint(peer, flags);
  }
  wait_closing(longest_close_ns);
  // UCX wants to be told that nobody will ask about the rest; otherwise it ends the process.
  for (void* const request : closing_) worker_.ucp().ucp_request_free(request);
  if (!closing_.empty()) log_.debug("ucx: {} connections didn't end in time", closing_.size());
  closing_.clear();
}

}  // namespace hmc::transport::ucx
