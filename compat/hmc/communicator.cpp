#include "compat/hmc/communicator_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <hmc.h>

#include "job/wires.hpp"
#include "runtime/base/env.hpp"

namespace hmc {

using base::Deadline;
using base::Status;
using compat::Move;
using compat::Peer;
using compat::PeerName;
using compat::to_status;

namespace {

constexpr std::size_t default_chunk_bytes = std::size_t{4} << 20;
constexpr auto longest_connect = std::chrono::seconds(30);
constexpr std::uint64_t no_transfer = 0;  // DataPlane's ids begin with 1

/// The wires for peers on other nodes, in order of preference.
std::vector<std::string> wires_for(ConnType type, const base::Env& env, const base::Log& log) {
  if (env.transport == "shm") return {};
  if (!env.transport.empty()) return {env.transport};
  bool has_ucx = false, has_verbs = false;
  std::string why_no_verbs;
  for (const job::WireInfo& wire : job::list_wires()) {
    has_ucx = has_ucx || (wire.name == "ucx" && wire.available);
    if (wire.name != "verbs") continue;
    has_verbs = wire.available;
    why_no_verbs = wire.why;
  }
  static std::atomic<bool> warned_rdma{false}, warned_ucx{false};
  if (type == ConnType::RDMA && !has_verbs && !warned_rdma.exchange(true))
    log.warn("ConnType::RDMA uses {} between nodes: {}", has_ucx ? "UCX" : "TCP", why_no_verbs);
  if (type == ConnType::UCX && !has_ucx && !warned_ucx.exchange(true))
    log.warn("ConnType::UCX uses TCP between nodes: this build has no UCX");
  std::vector<std::string> wires;
  if (type == ConnType::RDMA && has_verbs) wires.emplace_back("verbs");
  if (has_ucx) wires.emplace_back("ucx");
  wires.emplace_back("tcp");
  return wires;
}

base::Env env_or_defaults() {
  try {
    return base::Env::from_process();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Communicator::Core::Plane& Communicator::Core::open(ConnType type) {
  const std::size_t index = index_of(type);
  const std::lock_guard guard(lock);
  if (planes[index] != nullptr) return *planes[index];
  if (buffer == nullptr || buffer->allocation() == nullptr)
    throw Error(Code::invalid_config, "Communicator", "it has no ConnBuffer");
  const base::Env env = base::Env::from_process();
  planes[index] = std::make_unique<Plane>(buffer, wires_for(type, env, log), channels, env, log, halves);
  // Release: pairs with the acquire loads of `opened`, after which the plane is complete.
  opened[index].store(planes[index].get(), std::memory_order_release);
  return *planes[index];
}

std::array<Communicator::Core::Plane*, 2> Communicator::Core::in_order(ConnType type) const noexcept {
  Plane* const first = find(type);
  Plane* const other = find(type == ConnType::UCX ? ConnType::RDMA : ConnType::UCX);
  return first != nullptr ? std::array{first, other} : std::array{other, first};
}

template <typename Wait> Status Communicator::Core::wait_in_each(Wait&& wait) const {
  for (const ConnType type : types) {
    Plane* const plane = find(type);
    if (plane == nullptr) continue;
    const Status status = wait(*plane);
    if (status.code != Code::not_found) return status;
  }
  return Status::failure(Code::not_found, "no transfer in flight has this id");
}

status_t Communicator::Core::report(const char* operation, Code code, std::string_view what) noexcept {
  const status_t status = to_status(code);
  try {
    // An Error's text begins with its operation. The caller expects these two in normal operation, except that a server
    // is missing.
    const bool expected =
        status == status_t::NOT_FOUND || (status == status_t::TIMEOUT && std::string_view(operation) != "connectTo");
    const std::string prefix = fmt::format("{}: ", operation);
    if (what.starts_with(prefix)) what.remove_prefix(prefix.size());
    if (expected)
      log.info("{}: {}", operation, what);
    else
      log.warn("{}: {}", operation, what);
  } catch (...) {  // no memory for the text
  }
  return status;
}

template <typename Body> status_t Communicator::Core::run(const char* operation, Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? status_t::SUCCESS
                       : report(operation, status.code, status.what != nullptr ? status.what : name_of(status.code));
  } catch (const Error& error) {
    return report(operation, error.detail().code, error.what());
  } catch (const std::exception& error) {
    return report(operation, Code::error, error.what());
  }
}

template <typename Name, typename Body>
status_t Communicator::Core::with_peer(const char* operation, ConnType type, const Name& name, Body&& body) noexcept {
  return run(operation, [&]() -> Status {
    for (Plane* const plane : in_order(type)) {
      const auto peer = plane != nullptr ? plane->peers.find(name) : nullptr;
      if (peer != nullptr) return body(*plane, peer);
    }
    return Status::failure(Code::not_found, "no peer has this address, or several peers have this IP");
  });
}

namespace {

/// The peer of a thread's last put or get. It holds only the number, which the Endpoint checks and never uses again, so
/// a peer that was disconnected isn't found.
struct LastPeer {
  std::uint64_t communicator = 0;  ///< Core::id
  ConnType type = ConnType::RDMA;  ///< of the call
  void* plane = nullptr;           ///< the Core::Plane of the peer
  std::uint16_t port = 0;
  int number = -1;
  std::string ip;
};
thread_local LastPeer last_peer;

}  // namespace

std::uint64_t Communicator::Core::next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only the number matters
}

status_t Communicator::Core::move(const char* operation, ConnType type, Move move, const std::string& ip,
                                  std::uint16_t port, const compat::Range& range) noexcept {
  LastPeer& last = last_peer;
  if (last.communicator == id && last.type == type && last.port == port && last.ip == ip) {
    Plane& plane_of_last = *static_cast<Plane*>(last.plane);  // lives as long as this object, whose id is unique
    const Status status = plane_of_last.data.move_at_once(move, last.number, range, timeout);
    if (status.ok()) return status_t::SUCCESS;
    // Nothing has moved: the peer was removed, so look its address up again, or it has device memory.
    if (status.code != Code::not_found && status.code != Code::unsupported)
      return run(operation, [&] { return status; });
  }
  return with_peer(operation, type, PeerName{ip, port}, [&](Plane& plane, const std::shared_ptr<Peer>& peer) {
    const Status status = plane.data.move(move, *peer, range, SIZE_MAX, 1, deadline());
    // Not a peer that was found by its IP alone: later another peer may have the same IP.
    if (status.ok() && plane.data.moves_at_once() && plane.peers.has_name(*peer, {ip, port}))
      last = {id, type, &plane, port, peer->number, ip};
    return status;
  });
}

Communicator::Communicator(std::shared_ptr<ConnBuffer> buffer, std::size_t num_chs)
    : core_(std::make_unique<Core>(std::move(buffer), num_chs, env_or_defaults())) {}

Communicator::~Communicator() = default;

// ---- one-sided

status_t Communicator::put(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                           std::size_t size, ConnType connType) {
  return core_->move("put", connType, Move::put, ip, port, {local_off, remote_off, size});
}

status_t Communicator::get(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                           std::size_t size, ConnType connType) {
  return core_->move("get", connType, Move::get, ip, port, {local_off, remote_off, size});
}

status_t Communicator::putNB(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                             std::size_t size, std::uint64_t* wr_id, ConnType connType) {
  return core_->with_peer(
      "putNB", connType, PeerName{ip, port}, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
        if (wr_id == nullptr) return Status::failure(Code::invalid_argument, "wr_id is null");
        return plane.data.start(Move::put, peer, {local_off, remote_off, size}, core_->deadline(), *wr_id);
      });
}

status_t Communicator::getNB(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                             std::size_t size, std::uint64_t* wr_id, ConnType connType) {
  return core_->with_peer(
      "getNB", connType, PeerName{ip, port}, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
        if (wr_id == nullptr) return Status::failure(Code::invalid_argument, "wr_id is null");
        return plane.data.start(Move::get, peer, {local_off, remote_off, size}, core_->deadline(), *wr_id);
      });
}

status_t Communicator::wait(std::uint64_t wr_id) { return wait(wr_id, core_->timeout); }

status_t Communicator::wait(std::uint64_t wr_id, std::chrono::nanoseconds timeout) {
  if (wr_id == no_transfer) return status_t::SUCCESS;
  return core_->run("wait", [&] {
    const auto deadline = Deadline::after(timeout);
    return core_->wait_in_each([&](Core::Plane& plane) { return plane.data.wait(wr_id, deadline); });
  });
}

status_t Communicator::wait(const std::vector<std::uint64_t>& wr_ids) { return wait(wr_ids, core_->timeout); }

status_t Communicator::wait(const std::vector<std::uint64_t>& wr_ids, std::chrono::nanoseconds timeout) {
  return core_->run("wait", [&] {
    std::vector<std::uint64_t> started;
    std::copy_if(wr_ids.begin(), wr_ids.end(), std::back_inserter(started),
                 [](std::uint64_t each) { return each != no_transfer; });
    const auto deadline = Deadline::after(timeout);
    Status first;
    for (const std::uint64_t each : started) {
      const Status status = core_->wait_in_each([&](Core::Plane& plane) { return plane.data.wait(each, deadline); });
      if (first.ok()) first = status;
    }
    return first;
  });
}

status_t Communicator::putPipeline(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                                   std::size_t size, std::size_t chunk_size, std::size_t max_inflight,
                                   ConnType connType) {
  return core_->with_peer(
      "putPipeline", connType, PeerName{ip, port}, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
        return plane.data.move(Move::put, *peer, {local_off, remote_off, size},
                               chunk_size > 0 ? chunk_size : default_chunk_bytes, max_inflight, core_->deadline());
      });
}

status_t Communicator::getPipeline(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                                   std::size_t size, std::size_t chunk_size, std::size_t max_inflight,
                                   ConnType connType) {
  return core_->with_peer(
      "getPipeline", connType, PeerName{ip, port}, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
        return plane.data.move(Move::get, *peer, {local_off, remote_off, size},
                               chunk_size > 0 ? chunk_size : default_chunk_bytes, max_inflight, core_->deadline());
      });
}

status_t Communicator::writeTo(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType) {
  return core_->with_peer("writeTo", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.data.move(Move::put, *peer, {ptr_bias, ptr_bias, size}, SIZE_MAX, 1, core_->deadline());
  });
}

status_t Communicator::readFrom(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType) {
  return core_->with_peer("readFrom", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.data.move(Move::get, *peer, {ptr_bias, ptr_bias, size}, SIZE_MAX, 1, core_->deadline());
  });
}

// ---- paired

status_t Communicator::send(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType) {
  return core_->with_peer("send", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.data.send(*peer, ptr_bias, size, core_->deadline());
  });
}

status_t Communicator::recv(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType) {
  return core_->with_peer("recv", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.data.receive(*peer, ptr_bias, size, core_->deadline());
  });
}

status_t Communicator::sendDataTo(std::string ip, void* send_buf, std::size_t buf_size, MemoryType buf_type,
                                  ConnType connType) {
  return core_->with_peer("sendDataTo", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.data.send_data(*peer, send_buf, buf_size, buf_type, core_->deadline());
  });
}

status_t Communicator::sendDataTo(std::string ip, std::uint16_t port, void* send_buf, std::size_t buf_size,
                                  MemoryType buf_type, ConnType connType) {
  return core_->with_peer("sendDataTo", connType, PeerName{ip, port},
                          [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
                            return plane.data.send_data(*peer, send_buf, buf_size, buf_type, core_->deadline());
                          });
}

status_t Communicator::recvDataFrom(std::string ip, void* recv_buf, std::size_t buf_size, MemoryType buf_type,
                                    std::size_t* flag, ConnType connType) {
  return core_->with_peer("recvDataFrom", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    std::size_t received = 0;
    const Status status = plane.data.receive_data(*peer, recv_buf, buf_size, buf_type, received, core_->deadline());
    if (flag != nullptr) *flag = received;
    return status;
  });
}

status_t Communicator::recvDataFrom(std::string ip, std::uint16_t port, void* recv_buf, std::size_t buf_size,
                                    MemoryType buf_type, std::size_t* flag, ConnType connType) {
  return core_->with_peer(
      "recvDataFrom", connType, PeerName{ip, port}, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
        std::size_t received = 0;
        const Status status = plane.data.receive_data(*peer, recv_buf, buf_size, buf_type, received, core_->deadline());
        if (flag != nullptr) *flag = received;
        return status;
      });
}

// ---- control messages. CtrlSocketManager logs failures to listen and to connect.

template <typename Call> status_t Communicator::Core::with_manager(const char* operation, Call&& call) noexcept {
  status_t status = status_t::SUCCESS;
  // Only instance() throws, if the environment is invalid.
  const status_t made = run(operation, [&] {
    status = call(CtrlSocketManager::instance());
    return Status{};
  });
  return made == status_t::SUCCESS ? status : made;
}

status_t Communicator::ctrlSend(CtrlId peer, std::uint64_t tag) {
  return core_->with_manager(
      "ctrlSend", [&](CtrlSocketManager& manager) { return manager.try_send(peer, CTRL_INT, &tag, sizeof tag, 0); });
}

status_t Communicator::ctrlRecv(CtrlId peer, std::uint64_t* tag) {
  std::uint64_t unused = 0;
  std::uint64_t& into = tag != nullptr ? *tag : unused;
  return core_->with_manager("ctrlRecv", [&](CtrlSocketManager& manager) {
    CtrlMsgHeader header{};
    std::vector<std::uint8_t> bytes;
    const status_t status = manager.try_recv(peer, header, bytes);
    if (status != status_t::SUCCESS) return status;
    return manager.unpack(header, bytes, CTRL_INT, &into, sizeof into) ? status_t::SUCCESS : status_t::ERROR;
  });
}

status_t Communicator::initCtrlServer(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path) {
  return core_->with_manager("initCtrlServer", [&](CtrlSocketManager& manager) {
    const bool was_running = manager.isServer();
    const status_t status = manager.try_start(bind_ip, tcp_port, uds_path);
    if (status == status_t::SUCCESS && !was_running) core_->runs_ctrl_server = true;
    return status;
  });
}

status_t Communicator::closeCtrl() {
  CtrlSocketManager::instance().closeAll();
  CtrlSocketManager::instance().stop();
  core_->runs_ctrl_server = false;
  return status_t::SUCCESS;
}

status_t Communicator::connectCtrl(CtrlId peer_id, CtrlId self_id, const CtrlLink& link) {
  const bool by_path = link.transport == CtrlTransport::UDS;
  if (by_path ? link.uds_path.empty() : link.ip.empty() || link.port == 0) return status_t::INVALID_CONFIG;
  return core_->with_manager("connectCtrl", [&](CtrlSocketManager& manager) {
    return by_path ? manager.try_connect(peer_id, link.uds_path, self_id)
                   : manager.try_connect(peer_id, link.ip, link.port, self_id);
  });
}

status_t Communicator::closeCtrlPeer(CtrlId peer_id) {
  CtrlSocketManager::instance().close(peer_id);
  return status_t::SUCCESS;
}

std::string Communicator::udsPathFor(const std::string& dir, CtrlId peer_id) {
  return CtrlSocketManager::udsPathFor(dir, peer_id);
}

// ---- connections

status_t Communicator::Core::listen(const std::string& ip, std::uint16_t port, ConnType type) noexcept {
  return run("initServer", [&] {
    open(type).peers.listen(ip, port);
    return Status{};
  });
}

status_t Communicator::initServer(std::string ip, std::uint16_t port, ConnType serverType) {
  const status_t status = core_->listen(ip, port, serverType);
  if (status != status_t::SUCCESS) return status;
  return core_->with_manager("initServer", [&](CtrlSocketManager& manager) {
    manager.set_server(ip);
    core_->has_older_server = true;
    return status;
  });
}

status_t Communicator::initServer(const std::string& bind_ip, std::uint16_t data_port, std::uint16_t ctrl_tcp_port,
                                  const std::string& ctrl_uds_path, ConnType serverType) {
  const status_t ctrl = initCtrlServer(bind_ip, ctrl_tcp_port, ctrl_uds_path);
  return ctrl == status_t::SUCCESS ? core_->listen(bind_ip, data_port, serverType) : ctrl;
}

status_t Communicator::closeServer() {
  return core_->run("closeServer", [&] {
    for (const ConnType type : Core::types)
      if (Core::Plane* const plane = core_->find(type)) plane->peers.stop_listening();
    if (core_->runs_ctrl_server.exchange(false)) CtrlSocketManager::instance().stop();
    if (core_->has_older_server.exchange(false)) CtrlSocketManager::instance().set_server("");
    return Status{};
  });
}

status_t Communicator::connectTo(CtrlId peer_id, CtrlId self_id, const std::string& peer_ip, std::uint16_t data_port,
                                 const CtrlLink& ctrl_link, ConnType connType) {
  // Connected already: the server may accept no more control connections.
  const Core::Plane* const opened = core_->find(connType);
  const auto known = opened != nullptr ? opened->peers.find(PeerName{peer_ip, data_port}) : nullptr;
  const bool is_connected = known != nullptr && opened->peers.status(*known).ok();
  if (!is_connected || !CtrlSocketManager::instance().is_connected(peer_id)) {
    const status_t ctrl = connectCtrl(peer_id, self_id, ctrl_link);
    if (ctrl != status_t::SUCCESS) return ctrl;
  }
  return core_->run("connectTo", [&] {
    Core::Plane& plane = core_->open(connType);
    const auto limit = std::min<std::chrono::nanoseconds>(core_->timeout, longest_connect);
    (void)plane.peers.connect({peer_ip, data_port}, compat::Peers::Ids{self_id, peer_id}, Deadline::after(limit));
    return Status{};
  });
}

status_t Communicator::connectTo(std::string ip, std::uint16_t port, ConnType connType) {
  return core_->run("connectTo", [&] {
    Core::Plane& plane = core_->open(connType);
    const auto limit = std::min<std::chrono::nanoseconds>(core_->timeout, longest_connect);
    (void)plane.peers.connect({ip, port}, std::nullopt, Deadline::after(limit));
    return Status{};
  });
}

status_t Communicator::disConnect(const std::string& ip, std::uint16_t port, ConnType connType) {
  return core_->run("disConnect", [&] {
    for (Core::Plane* const plane : core_->in_order(connType)) {
      const auto peer = plane != nullptr ? plane->peers.find(PeerName{ip, port}) : nullptr;
      if (peer == nullptr) continue;
      plane->peers.disconnect(peer);
      break;
    }
    return Status{};
  });
}

status_t Communicator::disConnect(std::string ip, ConnType connType) {
  return core_->run("disConnect", [&] {
    bool is_ambiguous = false;
    for (Core::Plane* const plane : core_->in_order(connType)) {
      const auto peer = plane != nullptr ? plane->peers.find(ip) : nullptr;
      if (peer != nullptr) {
        plane->peers.disconnect(peer);
        return Status{};
      }
      is_ambiguous = is_ambiguous || (plane != nullptr && plane->peers.knows(ip));
    }
    return is_ambiguous ? Status::failure(Code::not_found, "several peers have this IP") : Status{};
  });
}

status_t Communicator::checkConn(const std::string& ip, std::uint16_t port, ConnType connType) {
  return core_->with_peer(
      "checkConn", connType, PeerName{ip, port},
      [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) { return plane.peers.status(*peer); });
}

status_t Communicator::checkConn(std::string ip, ConnType connType) {
  return core_->with_peer("checkConn", connType, ip, [&](Core::Plane& plane, const std::shared_ptr<Peer>& peer) {
    return plane.peers.status(*peer);
  });
}

}  // namespace hmc
