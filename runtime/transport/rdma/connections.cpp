#include "runtime/transport/rdma/connections.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <hmc/error.hpp>

#include "runtime/base/limits.hpp"
#include "runtime/transport/nonce.hpp"
#include "runtime/transport/signal_mask.hpp"

namespace hmc::transport::rdma {

namespace {

constexpr std::uint32_t protocol_version = 2;
/// In an address: the peer sends its own rank as origin.
constexpr std::uint32_t own_rank = UINT32_MAX;
constexpr std::int64_t first_repeat_ns = 5'000'000;
constexpr std::int64_t longest_repeat_ns = 200'000'000;

const Library& verbs() { return Library::get(); }

}  // namespace

Connections::Connections(const Options& options)
    : options_(options),
      secret_(make_nonce()),
      datagram_key_(static_cast<std::uint32_t>(make_nonce()) & 0x7fffffff),  // the upper bit is for privileged keys
      device_(options.device, options.gid_index, options.log) {
  reserved_completions_ = 64;
  completions_.reset(
      verbs().ibv_create_cq(device_.context(), static_cast<int>(reserved_completions_), nullptr, nullptr, 0));
  if (completions_ == nullptr) throw_errno("can't create a completion queue", errno);
  create_datagrams();
  poller_.add(channel_->fd, {.read = true}, [this](base::Readiness) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    if (verbs().ibv_get_cq_event(channel_.get(), &queue, &context) != 0) return;
    verbs().ibv_ack_cq_events(queue, 1);
    // Armed before the queue is polled: a completion after the poll causes an event.
    ::ibv_req_notify_cq(queue, 0);
  });
  const SignalMask mask;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    base::throw_no_thread("the progress thread of a wire", error);
  }
  ::pthread_setname_np(thread_.native_handle(), "hmc-verbs");
}

Connections::~Connections() {
  poller_.stop();
  thread_.join();
}

void Connections::create_datagrams() {
  memory_.resize(receives * (header + most_bytes) + sends * most_bytes);
  buffers_ = memory_.data();
  registration_ = device_.register_memory(buffers_, memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (registration_ == nullptr) throw_errno("can't register memory for handshakes", errno);
  channel_.reset(verbs().ibv_create_comp_channel(device_.context()));
  if (channel_ == nullptr) throw_errno("can't create a completion channel", errno);
  // Non-blocking, so that a spurious wake-up doesn't block the progress thread.
  if (::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0)
    throw_errno("can't set up a completion channel", errno);
  datagrams_done_.reset(
      verbs().ibv_create_cq(device_.context(), static_cast<int>(receives + sends), nullptr, channel_.get(), 0));
  if (datagrams_done_ == nullptr) throw_errno("can't create a completion queue", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = datagrams_done_.get();
  wanted.recv_cq = datagrams_done_.get();
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap = {sends, receives, 1, 1, 0};
  wanted.sq_sig_all = 1;
  datagrams_.reset(verbs().ibv_create_qp(device_.pd(), &wanted));
  if (datagrams_ == nullptr) throw_errno("can't create a datagram queue pair", errno);

  const auto modify = [&](ibv_qp_attr attributes, int mask) {
    if (const int error = verbs().ibv_modify_qp(datagrams_.get(), &attributes, mask); error != 0)
      throw_errno("can't start a datagram queue pair", error);
  };
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port();
  attributes.qkey = datagram_key_;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  modify(attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  for (std::uint32_t i = 0; i < receives; ++i) post_receive(i);
  if (const int error = ::ibv_req_notify_cq(datagrams_done_.get(), 0); error != 0)
    throw_errno("can't arm a completion channel", error);
}

base::Bytes Connections::encode_address(std::uint64_t secret, std::uint32_t origin) const {
  base::ByteWriter out;
  out.number(protocol_version).number(secret).number(origin).number(datagram_key_).number(datagrams_->qp_num);
  out.raw(std::as_bytes(std::span(device_.gid().raw))).number(device_.port_attributes().lid);
  out.number(static_cast<std::uint8_t>(device_.port_attributes().active_mtu));
  out.number(static_cast<std::uint8_t>(std::clamp(device_.attributes().max_qp_rd_atom, 1, 16)));
  out.number(static_cast<std::uint8_t>(options_.queue_pairs));
  return out.take();
}

base::Bytes Connections::address() const { return encode_address(secret_, own_rank); }

void Connections::create_peers(std::size_t count) {
  peers_.clear();
  for (std::size_t number = 0; number < count; ++number) {
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.rank = static_cast<int>(number);
  }
}

void Connections::know(Peer& peer, base::ByteView address) const {
  base::ByteReader in(address);
  if (const auto version = in.number<std::uint32_t>(); version != protocol_version)
    throw Error(Code::invalid_config, "verbs",
                fmt::format("rank {} uses protocol version {} of this wire, this rank uses {}", peer.rank, version,
                            protocol_version),
                "all ranks must run the same build");
  peer.secret = in.number<std::uint64_t>();
  peer.origin = in.number<std::uint32_t>();
  if (peer.origin == own_rank) peer.origin = static_cast<std::uint32_t>(options_.rank);
  peer.datagram_key = in.number<std::uint32_t>();
  peer.datagram_number = in.number<std::uint32_t>();
  const base::ByteView gid = in.raw(sizeof peer.remote.gid.raw);
  if (in.ok()) std::memcpy(peer.remote.gid.raw, gid.data(), gid.size());
  peer.remote.lid = in.number<std::uint16_t>();
  peer.remote.mtu = in.number<std::uint8_t>();
  peer.remote.reads = in.number<std::uint8_t>();
  const auto theirs = in.number<std::uint8_t>();
  peer.queue_pairs = std::min<std::uint32_t>(theirs, static_cast<std::uint32_t>(options_.queue_pairs));
  if (!in.complete() || peer.queue_pairs == 0)
    throw Error(Code::refused, "verbs", fmt::format("rank {} sent a malformed address", peer.rank));
  peer.has_address = true;
}

void Connections::set_addresses(const std::vector<base::Bytes>& addresses) {
  const std::lock_guard guard(lock_);
  create_peers(addresses.size());
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    peers_[rank]->accepted_secret = secret_;
    if (!addresses[rank].empty()) know(*peers_[rank], addresses[rank]);
  }
}

base::Bytes Connections::offer(int number) {
  const std::lock_guard guard(lock_);
  if (peers_.empty()) create_peers(static_cast<std::size_t>(options_.size));
  Peer& peer = at(number);
  if (!peer.pairs.empty())
    throw Error(Code::error, "verbs", fmt::format("requests of an earlier peer {} are still in flight", number));
  peer.accepted_secret = make_nonce();
  return encode_address(peer.accepted_secret, static_cast<std::uint32_t>(number));
}

void Connections::add(int number, base::ByteView address) {
  const std::lock_guard guard(lock_);
  know(at(number), address);
}

void Connections::refuse(Peer& peer) noexcept {
  const std::lock_guard guard(lock_);
  peer.accepted_secret = 0;
}

void Connections::forget(Peer& peer) noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& pair : peer.pairs) reserved_completions_ -= pair->depth();
  const int rank = peer.rank;
  std::destroy_at(&peer);
  std::construct_at(&peer);
  peer.rank = rank;
}

void Connections::create(Peer& peer) {
  if (!peer.pairs.empty()) return;
  if (peer.route == nullptr && peer.rank != options_.rank) {
    ibv_ah_attr route = device_.route(peer.remote.gid, peer.remote.lid);
    peer.route.reset(verbs().ibv_create_ah(device_.pd(), &route));
    if (peer.route == nullptr) throw_errno(fmt::format("no route to rank {}", peer.rank).c_str(), errno);
  }
  std::vector<std::unique_ptr<QueuePair>> pairs;
  for (std::uint32_t i = 0; i < peer.queue_pairs; ++i)
    pairs.push_back(std::make_unique<QueuePair>(device_, completions_.get(),
                                                static_cast<std::uint32_t>(peer.rank) | std::uint64_t{i} << 24));
  // After a failure each request completes separately, so there must be space for all of them.
  for (const auto& pair : pairs) reserved_completions_ += pair->depth();
  if (static_cast<int>(reserved_completions_) > completions_->cqe)
    if (const int error =
            verbs().ibv_resize_cq(completions_.get(), static_cast<int>(std::max(reserved_completions_, 1024U)));
        error != 0)
      throw_errno("can't extend the completion queue", error);
  peer.pairs = std::move(pairs);
}

void Connections::connect_pairs(Peer& peer, base::ByteReader& in) {
  if (peer.is_connected) return;
  create(peer);
  for (const auto& pair : peer.pairs) {
    Remote remote = peer.remote;
    remote.number = in.number<std::uint32_t>();
    remote.first_packet = in.number<std::uint32_t>();
    pair->connect(device_, remote, options_.lost_host_s);
  }
  peer.is_connected = true;
  options_.log.debug("verbs: connected to rank {} by {} queue pairs", peer.rank, peer.pairs.size());
}

void Connections::send(Peer& peer, Kind kind) noexcept {
  if (sends_in_flight_ == sends || peer.route == nullptr) return;  // the peer, or this rank, repeats its request
  base::ByteWriter out;
  out.number(kind).number(peer.secret).number(peer.origin);
  if (kind == Kind::refusal)
    out.text(std::string_view(peer.refusal).substr(0, 200));
  else
    for (const auto& pair : peer.pairs) out.number(pair->number()).number(pair->first_packet());
  std::byte* const buffer = send_buffer(next_send_++ % sends);
  std::memcpy(buffer, out.view().data(), out.view().size());
  ibv_sge part{reinterpret_cast<std::uint64_t>(buffer), static_cast<std::uint32_t>(out.view().size()),
               registration_->lkey};
  ibv_send_wr request{};
  request.wr_id = receives;
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {peer.route.get(), peer.datagram_number, peer.datagram_key};
  ibv_send_wr* bad = nullptr;
  if (::ibv_post_send(datagrams_.get(), &request, &bad) == 0) ++sends_in_flight_;
}

void Connections::post_receive(std::uint32_t index) noexcept {
  ibv_sge part{reinterpret_cast<std::uint64_t>(receive_buffer(index)), header + most_bytes, registration_->lkey};
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ::ibv_post_recv(datagrams_.get(), &request, &bad);
}

void Connections::receive(base::ByteView bytes) noexcept {
  if (peers_.empty()) return;  // this rank doesn't have the addresses yet: the peer repeats its request
  base::ByteReader in(bytes);
  const auto kind = in.number<Kind>();
  const auto secret = in.number<std::uint64_t>();
  const auto rank = in.number<std::uint32_t>();
  const bool is_known = in.ok() && kind <= Kind::refusal && rank < peers_.size() &&
                        peers_[rank]->accepted_secret != 0 && secret == peers_[rank]->accepted_secret;
  // The peer has received this side's offer, but this side doesn't have the peer's address yet. The peer repeats its
  // request.
  if (is_known && !peers_[rank]->has_address) return;
  if (!is_known || (kind != Kind::refusal && in.left() != peers_[rank]->queue_pairs * 8)) {
    const bool is_first = refusals_.fetch_add(1, std::memory_order_relaxed) == 0;
    if (is_first && options_.rank < 0)
      options_.log.info("verbs: dropped a handshake message from an unknown or removed peer");
    else if (is_first)
      options_.log.warn("verbs: dropped a handshake message from outside the job");
    return;
  }
  Peer& peer = *peers_[rank];
  try {
    if (kind == Kind::refusal)
      peer.refusal = fmt::format("the peer can't connect: {}", in.text());
    else
      connect_pairs(peer, in);
  } catch (const std::exception& error) {
    peer.refusal = error.what();
  }
  if (kind == Kind::request) send(peer, peer.refusal.empty() ? Kind::reply : Kind::refusal);
  if (!peer.refusal.empty())
    peer.is_refused.store(true, std::memory_order_release);
  else if (kind == Kind::reply)
    peer.is_ready.store(true, std::memory_order_release);
}

int Connections::serve() noexcept {
  const std::lock_guard guard(lock_);
  ibv_wc completions[16];
  const int count = ::ibv_poll_cq(datagrams_done_.get(), 16, completions);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[i];
    if (completion.wr_id == receives) {
      --sends_in_flight_;
      continue;
    }
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS && completion.byte_len > header)
      receive(base::ByteView(receive_buffer(index) + header, completion.byte_len - header));
    post_receive(index);
  }
  return count;
}

void Connections::run() noexcept {
  while (!poller_.stopped())
    if (serve() == 0 && !poller_.wait()) return;
}

base::Status Connections::connect(Peer& peer) noexcept {
  const auto failure = [&](Code code, const char* what) { return base::Status::failure(code, what, peer.rank); };
  if (!peer.has_address) return failure(Code::unavailable, "that rank has no verbs wire");
  if (peer.rank == options_.rank) {  // a queue pair that is connected to itself
    const std::lock_guard guard(lock_);
    base::ByteWriter own;
    try {
      create(peer);
      for (const auto& pair : peer.pairs) own.number(pair->number()).number(pair->first_packet());
      const base::Bytes bytes = own.take();
      base::ByteReader in(bytes);
      connect_pairs(peer, in);
    } catch (const std::exception& error) {
      options_.log.warn("verbs: {}", error.what());
      return failure(Code::unavailable, "can't create the queue pairs");
    }
    peer.is_ready.store(true, std::memory_order_relaxed);
    return {};
  }
  const std::int64_t end = base::now_ns() + options_.timeout_ns;
  std::int64_t repeat = first_repeat_ns;
  std::int64_t next = 0;
  while (!peer.is_ready.load(std::memory_order_acquire)) {
    const std::int64_t now = base::now_ns();
    if (peer.is_refused.load(std::memory_order_acquire)) {
      options_.log.warn("verbs: rank {}: {}", peer.rank, peer.refusal);
      return failure(Code::unavailable, "can't create the queue pairs to the peer");
    }
    if (now >= end) return failure(Code::timeout, "the peer doesn't answer the connection request");
    if (options_.waiter != nullptr)
      if (const base::Status status = options_.waiter->page().aborted(); !status.ok()) return status;
    if (now >= next) {
      const std::lock_guard guard(lock_);
      try {
        create(peer);
      } catch (const std::exception& error) {
        peer.refusal = error.what();
        peer.is_refused.store(true, std::memory_order_release);
        continue;
      }
      send(peer, Kind::request);
      next = now + repeat;
      repeat = std::min(2 * repeat, longest_repeat_ns);
    }
    const timespec nap{0, 20'000};
    ::nanosleep(&nap, nullptr);
  }
  return {};
}

}  // namespace hmc::transport::rdma
