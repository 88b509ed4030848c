// CtrlSocketManager of <hmc.h>, on ControlPlane.
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include <hmc.h>

#include "compat/hmc/control.hpp"

namespace hmc {

namespace {

std::string by_id(CtrlSocketManager::CtrlId id) { return std::to_string(id); }
std::string by_ip(const std::string& ip) { return "@" + ip; }

base::Bytes packed(CtrlMsgType type, std::uint16_t flags, const void* payload, std::size_t bytes) {
  base::ByteWriter out;
  out.number(type).number(flags).raw({static_cast<const std::byte*>(payload), bytes});
  return out.take();
}

}  // namespace

class CtrlSocketManager::State {
 public:
  compat::ControlPlane plane;

  /// Logs a failure. Nothing is thrown.
  template <typename Call> status_t attempt(Call&& call) noexcept {
    try {
      const base::Status status = call();
      if (!status.ok()) plane.log().info("control: {}", status.what != nullptr ? status.what : name_of(status.code));
      return compat::to_status(status.code);
    } catch (const Error& error) {
      plane.log().error("{}", error.what());
      return compat::to_status(error.code());
    } catch (const std::exception& error) {
      plane.log().error("{}", error.what());
      return status_t::ERROR;
    }
  }

  status_t send(const std::string& name, CtrlMsgType type, const void* payload, std::size_t bytes,
                std::uint16_t flags) {
    return attempt([&] { return try_send(plane.find(name, false), type, payload, bytes, flags); });
  }

  status_t receive(const std::string& name, CtrlMsgHeader& header, std::vector<std::uint8_t>& payload) {
    return attempt([&] {
      const auto deadline = plane.deadline();
      return try_receive(plane.find(name, true), header, payload, deadline);
    });
  }

  // ---- the older calls: they connect if no peer has this IP

  /// A Communicator has a server at this IP. Empty: it has closed it.
  void set_server(const std::string& ip) {
    const std::lock_guard guard(server_mutex_);
    server_ip_ = ip;
    if (!ip.empty()) return;
    if (listens_beside_server_) plane.stop();
    listens_beside_server_ = false;
  }

  status_t send_to_ip(const std::string& ip, CtrlMsgType type, const void* payload, std::size_t bytes,
                      std::uint16_t flags) {
    listen_beside_server();
    return attempt([&] { return try_send(connected(ip, plane.port()), type, payload, bytes, flags); });
  }

  status_t receive_from_ip(const std::string& ip, CtrlMsgHeader& header, std::vector<std::uint8_t>& payload) {
    listen_beside_server();
    if (plane.listens()) return receive(by_ip(ip), header, payload);
    return attempt([&] {
      const auto deadline = plane.deadline();
      return try_receive(connected(ip, plane.port()), header, payload, deadline);
    });
  }

  /// Throws Error.
  std::shared_ptr<compat::ControlLink> connected(const std::string& ip, std::uint16_t port) {
    const std::string name = by_ip(ip);
    auto link = plane.find(name, false);
    if (link != nullptr || plane.listens_at(ip, port)) return link;
    plane.connect_tcp(name, ip, port, "");
    return plane.find(name, false);
  }

 private:
  void listen_beside_server() {
    const std::lock_guard guard(server_mutex_);
    if (server_ip_.empty() || plane.listens()) return;
    const status_t status = attempt([&] {
      plane.start(server_ip_, plane.port(), "");
      return base::Status{};
    });
    listens_beside_server_ = status == status_t::SUCCESS;
    server_ip_.clear();  // one attempt: another process may have the port
  }

  base::Status try_send(const std::shared_ptr<compat::ControlLink>& link, CtrlMsgType type, const void* payload,
                        std::size_t bytes, std::uint16_t flags) {
    if (bytes > compat::longest_message_bytes || (payload == nullptr && bytes > 0))
      throw Error(
          Code::invalid_argument, "control",
          fmt::format("the payload is null, or is longer than {} bytes: {}", compat::longest_message_bytes, bytes));
    if (link == nullptr) return base::Status::failure(Code::not_found, "no peer has this name");
    return link->send(packed(type, flags, payload, bytes), plane.deadline());
  }

  static base::Status try_receive(const std::shared_ptr<compat::ControlLink>& link, CtrlMsgHeader& header,
                                  std::vector<std::uint8_t>& payload, base::Deadline deadline) {
    if (link == nullptr)
      return deadline.expired() ? base::Status::failure(Code::timeout, "the peer hasn't connected in time")
                                : base::Status::failure(Code::not_found, "no peer has this name");
    base::Bytes message;
    if (const base::Status status = link->receive(message, deadline); !status.ok()) return status;
    base::ByteReader in(message);
    header.type = in.number<std::uint16_t>();
    header.flags = in.number<std::uint16_t>();
    header.length = static_cast<std::uint32_t>(in.left());
    const base::ByteView bytes = in.raw(in.left());
    payload.resize(bytes.size());
    if (!bytes.empty()) std::memcpy(payload.data(), bytes.data(), bytes.size());
    return in.complete() ? base::Status{} : base::Status::failure(Code::error, "a message is malformed");
  }

  std::mutex server_mutex_;
  std::string server_ip_;               // under server_mutex_
  bool listens_beside_server_ = false;  // under server_mutex_
};

CtrlSocketManager::CtrlSocketManager() : state_(new State) {}

CtrlSocketManager& CtrlSocketManager::instance() {
  static CtrlSocketManager* const manager = [] {
    auto* const made = new CtrlSocketManager;
    // Removes the socket file. The object stays, because a thread may still use it.
    std::atexit([] { instance().stop(); });
    return made;
  }();
  return *manager;
}

status_t CtrlSocketManager::try_start(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path) {
  return state_->attempt([&] {
    state_->plane.start(bind_ip, tcp_port, uds_path);
    return base::Status{};
  });
}
status_t CtrlSocketManager::try_connect(CtrlId peer_id, const std::string& ip, std::uint16_t port, CtrlId self_id) {
  return state_->attempt([&] {
    state_->plane.connect_tcp(by_id(peer_id), ip, port, by_id(self_id));
    return base::Status{};
  });
}
status_t CtrlSocketManager::try_connect(CtrlId peer_id, const std::string& uds_path, CtrlId self_id) {
  return state_->attempt([&] {
    state_->plane.connect_file(by_id(peer_id), uds_path, by_id(self_id));
    return base::Status{};
  });
}
status_t CtrlSocketManager::try_send(CtrlId peer_id, CtrlMsgType type, const void* payload, std::size_t len,
                                     std::uint16_t flags) {
  return state_->send(by_id(peer_id), type, payload, len, flags);
}
status_t CtrlSocketManager::try_recv(CtrlId peer_id, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload) {
  return state_->receive(by_id(peer_id), hdr, payload);
}

bool CtrlSocketManager::start(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path) {
  return try_start(bind_ip, tcp_port, uds_path) == status_t::SUCCESS;
}
void CtrlSocketManager::stop() {
  state_->set_server("");
  state_->plane.stop();
}
bool CtrlSocketManager::is_connected(CtrlId peer_id) {
  const auto link = state_->plane.find(by_id(peer_id), false);
  return link != nullptr && link->alive();
}
void CtrlSocketManager::set_server(const std::string& ip) { state_->set_server(ip); }
bool CtrlSocketManager::isServer() const { return state_->plane.listens(); }

bool CtrlSocketManager::connectTcp(CtrlId peer_id, const std::string& ip, std::uint16_t port, CtrlId self_id) {
  return try_connect(peer_id, ip, port, self_id) == status_t::SUCCESS;
}

bool CtrlSocketManager::connectUds(CtrlId peer_id, const std::string& uds_path, CtrlId self_id) {
  return try_connect(peer_id, uds_path, self_id) == status_t::SUCCESS;
}

std::string CtrlSocketManager::udsPathFor(const std::string& dir, CtrlId peer_id) {
  std::string job;
  const compat::Access& access = instance().state_->plane.access();
  if (access.has_secret) job = access.key.derive({base::as_bytes("hmc socket path")}).hex().substr(0, 8) + "_";
  const std::string folder = dir.ends_with('/') ? dir.substr(0, dir.size() - 1) : dir;
  return fmt::format("{}/hmc_ctrl_{}rank_{}.sock", folder, job, peer_id);
}

bool CtrlSocketManager::send(CtrlId peer_id, CtrlMsgType type, const void* payload, std::size_t len,
                             std::uint16_t flags) {
  return state_->send(by_id(peer_id), type, payload, len, flags) == status_t::SUCCESS;
}
bool CtrlSocketManager::recv(CtrlId peer_id, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload) {
  return state_->receive(by_id(peer_id), hdr, payload) == status_t::SUCCESS;
}

bool CtrlSocketManager::unpack(const CtrlMsgHeader& header, const std::vector<std::uint8_t>& bytes, CtrlMsgType type,
                               void* to, std::size_t size) {
  if (header.type != type || bytes.size() != size) return false;
  std::memcpy(to, bytes.data(), size);
  return true;
}

bool CtrlSocketManager::sendInt(CtrlId peer_id, int v) { return send(peer_id, CTRL_INT, &v, sizeof v); }
bool CtrlSocketManager::recvInt(CtrlId peer_id, int& v) {
  CtrlMsgHeader header{};
  std::vector<std::uint8_t> bytes;
  return recv(peer_id, header, bytes) && unpack(header, bytes, CTRL_INT, &v, sizeof v);
}
bool CtrlSocketManager::sendU64(CtrlId peer_id, std::uint64_t v) { return send(peer_id, CTRL_INT, &v, sizeof v); }
bool CtrlSocketManager::recvU64(CtrlId peer_id, std::uint64_t& v) {
  CtrlMsgHeader header{};
  std::vector<std::uint8_t> bytes;
  return recv(peer_id, header, bytes) && unpack(header, bytes, CTRL_INT, &v, sizeof v);
}

void CtrlSocketManager::close(CtrlId peer_id) { state_->plane.close(by_id(peer_id)); }
void CtrlSocketManager::closeAll() { state_->plane.close_all(); }

std::uint16_t CtrlSocketManager::port() { return instance().state_->plane.port(); }

int CtrlSocketManager::getCtrlSockFd(const std::string& ip, std::uint16_t at_port) {
  int fd = -1;
  (void)state_->attempt([&] {
    auto link = state_->connected(ip, at_port);
    if (link != nullptr && !link->alive()) {
      state_->plane.connect_tcp(by_ip(ip), ip, at_port, "");
      link = state_->plane.find(by_ip(ip), false);
    }
    fd = link == nullptr ? -1 : link->fd();
    return base::Status{};
  });
  return fd;
}

bool CtrlSocketManager::sendCtrlMsg(const std::string& ip, CtrlMsgType type, const void* payload, std::size_t len,
                                    std::uint16_t flags) {
  return state_->send_to_ip(ip, type, payload, len, flags) == status_t::SUCCESS;
}
bool CtrlSocketManager::recvCtrlMsg(const std::string& ip, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload) {
  return state_->receive_from_ip(ip, hdr, payload) == status_t::SUCCESS;
}
bool CtrlSocketManager::sendCtrlInt(const std::string& ip, int value) {
  return sendCtrlMsg(ip, CTRL_INT, &value, sizeof value);
}
bool CtrlSocketManager::recvCtrlInt(const std::string& ip, int& value) {
  CtrlMsgHeader header{};
  std::vector<std::uint8_t> bytes;
  return recvCtrlMsg(ip, header, bytes) && unpack(header, bytes, CTRL_INT, &value, sizeof value);
}
void CtrlSocketManager::closeConnection(const std::string& ip) { state_->plane.close(by_ip(ip)); }

}  // namespace hmc
