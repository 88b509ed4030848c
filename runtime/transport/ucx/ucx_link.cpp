#include "runtime/transport/ucx/ucx_link.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/rdma_port.hpp"
#include "runtime/transport/ucx/remote_memory.hpp"

namespace hmc::transport::ucx {

using am::Message;
using am::Sending;

namespace {

constexpr std::int64_t longest_settle_ns = 50'000'000;

/// With its header a message must be smaller than UCX's receive segment of 64 KiB, so that it is one fragment:
/// fragments of one sender arrive in order, and each is read from the socket into one buffer. README.md has the
/// measurements. The number in flight limits how much of a large transfer UCX holds, and how long an abandoned transfer
/// waits.
constexpr am::ByteLink::Traits ucx_traits{.name = "ucx", .chunk_bytes = 60 * 1024, .most_in_flight = 32};

}  // namespace

UcxLink::UcxLink(int job_size, const std::string& transports, base::Log log) : log_(log) {
  const bool tries_memory = has_active_rdma_port();
  worker_ = std::make_unique<Worker>(job_size, transports, tries_memory);
  if (tries_memory) {
    const MemoryTrial trial = try_remote_memory(*worker_);
    why_messages_ = trial.why_not;
    if (why_messages_.empty()) memory_ = std::make_unique<RemoteMemory>(*worker_, *this, log);
    if (trial.is_connecting) {  // see MemoryTrial
      worker_->leak_resources();
      worker_ = std::make_unique<Worker>(job_size, transports, false);
    }
  } else {
    why_messages_ = "no RDMA port is active";
  }
  log_.info("{}", describe());
}

UcxLink::~UcxLink() = default;

const am::ByteLink::Traits& UcxLink::traits() const noexcept { return ucx_traits; }

std::string UcxLink::describe() const {
  const std::string ucx =
      fmt::format("UCX {} (transports {})", worker_->ucp().ucp_get_version_string(), worker_->transports());
  return memory_ != nullptr ? fmt::format("one-sided put and get by {}; atomics by the target's CPU", ucx)
                            : fmt::format("messages by {}; no one-sided put and get: {}", ucx, why_messages_);
}

/// UCX reports the devices in use only in this text.
std::string UcxLink::describe(int rank) const {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return "?";
  worker_->ucp().ucp_ep_print_info(peers_[static_cast<std::size_t>(rank)].endpoint, stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  const std::string all(text, size);
  const auto lane = all.find("lane[0]:");
  return lane == std::string::npos ? "?" : all.substr(lane, all.find('\n', lane) - lane);
}

void UcxLink::serve(am::LinkUser& user, int /*rank*/, int ranks) {
  user_ = &user;
  peers_.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    peer(rank).link = this;
    peer(rank).rank = rank;
  }
  worker_->on_message(on_message, user_);
}

base::Status UcxLink::status_of(ucs_status_t status, int rank) const noexcept {
  if (status == UCS_OK) return {};
  return base::Status::failure(Code::peer_failed, worker_->ucp().ucs_status_string(status), rank);
}

base::Status UcxLink::connect(int rank, base::ByteView address) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  const ucs_status_t status = worker_->ucp().ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  if (status != UCS_OK) peer.endpoint = nullptr;
  return status_of(status, rank);
}

base::Status UcxLink::send(Sending& record) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(record.peer->rank)];
  record.context = &peer;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_sent;
  param.user_data = &record;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;  // UCX then doesn't detect the memory type of the address
  void* const request = worker_->ucp().ucp_am_send_nbx(peer.endpoint, 0, &record.message, sizeof(Message),
                                                       record.source, record.bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return base::Status::in_progress();
  return status_of(request == nullptr ? UCS_OK : UCS_PTR_STATUS(request), peer.rank);
}

void UcxLink::on_sent(void* request, ucs_status_t status, void* user_data) noexcept {
  auto& record = *static_cast<Sending*>(user_data);
  const Peer& peer = *static_cast<Peer*>(record.context);
  UcxLink& link = *peer.link;
  link.user_->sent(record, link.status_of(status, peer.rank));
  link.worker_->ucp().ucp_request_free(request);
}

void UcxLink::on_error(void* argument, ucp_ep_h, ucs_status_t status) noexcept {
  const Peer& peer = *static_cast<Peer*>(argument);
  peer.link->user_->lost(peer.rank, peer.link->worker_->ucp().ucs_status_string(status), 0);
}

ucs_status_t UcxLink::on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) noexcept {
  am::LinkUser& user = *static_cast<am::LinkUser*>(argument);
  // Ranks send eager messages with a Message as header; anything else isn't from a rank of this job.
  if (header_bytes != sizeof(Message) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    user.stranger(-1);
    return UCS_OK;
  }
  Message message;
  std::memcpy(&message, header, sizeof message);
  user.received(message, static_cast<const std::byte*>(data), bytes);
  return UCS_OK;
}

void UcxLink::disconnect(int rank, bool at_once) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.endpoint == nullptr) return;
  for (ucp_rkey_h key : std::exchange(peer.keys, {}))
    if (key != nullptr) worker_->ucp().ucp_rkey_destroy(key);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = at_once ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  void* const request = worker_->ucp().ucp_ep_close_nbx(peer.endpoint, &param);
  peer.endpoint = nullptr;
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

std::size_t UcxLink::ending() noexcept {
  std::erase_if(closing_, [&](void* request) {
    if (worker_->ucp().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    worker_->ucp().ucp_request_free(request);
    return true;
  });
  return closing_.size();
}

void UcxLink::leave(bool all_left) noexcept {
  // UCX ends the process if a close request wasn't freed.
  for (void* const request : closing_) worker_->ucp().ucp_request_free(request);
  closing_.clear();
  // A rank that has just connected to this rank waits for UCX's reply, which UCX may not have sent yet. If the worker
  // is destroyed in this state, UCX 1.13 ends the process.
  if (!all_left && !worker_->flush(longest_settle_ns)) {
    log_.warn("ucx: ranks were still connecting when this one left; its sockets stay open");
    memory_.reset();
    worker_->leak_resources();
  }
  memory_.reset();
  worker_->destroy();
}

}  // namespace hmc::transport::ucx
