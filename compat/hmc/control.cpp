#include "compat/hmc/control.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/interrupt.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::compat {

using base::Status;
using control::Connection;
using control::Frame;
using control::PeerLoop;

namespace {

constexpr auto answer_timeout = std::chrono::seconds(10);
constexpr auto connect_timeout = std::chrono::seconds(10);
constexpr std::uint8_t control_version = 2;

std::string with_port(const std::string& ip, std::uint16_t port) {
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port) : fmt::format("[{}]:{}", ip, port);
}

/// False for a host name.
bool is_numeric(const std::string& ip) noexcept {
  std::array<std::byte, sizeof(in6_addr)> address;
  return ::inet_pton(AF_INET, ip.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, ip.c_str(), address.data()) == 1;
}

/// True if the IP is an address of this machine, in this network namespace.
bool is_own(const std::string& ip) noexcept {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else if (::inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
  } else {
    return false;
  }
  const base::UniqueFd probe(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                         address.ss_family == AF_INET ? sizeof v4 : sizeof v6) == 0;
}

/// The name of the abstract Unix socket beside a TCP listener: the user, a hash of the key, and the listener's address.
/// So jobs with different secrets don't connect to each other.
std::string socket_name(const Access& access, const std::string& ip, std::uint16_t port) {
  return fmt::format("hmc-ctrl-{}-{}-{}-{}", ::geteuid(),
                     access.key.derive({base::as_bytes("hmc socket name")}).hex().substr(0, 16), ip, port);
}

CtrlTransport transport_of(const std::string& text) {
  if (text.empty()) return CtrlTransport::automatic;
  if (text == "tcp") return CtrlTransport::tcp;
  if (text == "uds") return CtrlTransport::uds;
  throw Error(Code::invalid_config, "CTRL_TRANSPORT", fmt::format("'{}' isn't one of: tcp, uds", text));
}

std::uint16_t port_of(const std::string& text) {
  constexpr std::uint16_t standard_port = 5555;
  if (text.empty()) return standard_port;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error == std::errc{} && stop == end && port != 0) return port;
  throw Error(Code::invalid_config, "HMC_CTRL_PORT", fmt::format("'{}' isn't one of: 1..65535", text));
}

struct Introduction {
  Instance instance{};
  std::uint64_t closes = 0;  ///< how often this process has closed its connections to the other
  std::string name;
};
base::Bytes encode(const Introduction& mine) {
  base::ByteWriter out;
  out.number(control_version).raw(mine.instance).number(mine.closes).text(mine.name);
  return out.take();
}
std::optional<Introduction> decode_introduction(base::ByteView bytes) {
  base::ByteReader in(bytes);
  Introduction theirs;
  const auto version = in.number<std::uint8_t>();
  const base::ByteView instance = in.raw(theirs.instance.size());
  theirs.closes = in.number<std::uint64_t>();
  theirs.name = in.text();
  if (!in.complete() || version != control_version || theirs.name.empty()) return std::nullopt;
  std::copy(instance.begin(), instance.end(), theirs.instance.begin());
  return theirs;
}

/// Logs once, after a second, that a connection isn't there yet.
class LateNotice {
 public:
  LateNotice(const base::Log& log, std::string at, base::Deadline limit)
      : log_(log), at_(std::move(at)), limit_(limit) {}
  void update() {
    if (given_ || !silent_.expired() || limit_.expired()) return;
    given_ = true;
    log_.warn("control: no process accepts connections at {} yet; trying for another {} s", at_, whole_seconds(limit_));
  }
  /// For calls that block.
  std::chrono::nanoseconds left() const { return given_ ? limit_.left() : std::min(silent_.left(), limit_.left()); }

 private:
  const base::Log& log_;
  const std::string at_;
  const base::Deadline limit_;
  const base::Deadline silent_ = base::Deadline::after(std::chrono::seconds(1));
  bool given_ = false;
};

/// The next frame before the deadline; nullopt if the connection has ended.
std::optional<Frame> await_frame(Connection& connection, base::Deadline deadline) {
  std::vector<base::UniqueFd> fds;
  for (;;) {
    if (auto frame = connection.next(fds)) return frame;
    if (connection.ended() || deadline.expired()) return std::nullopt;
    control::move_or_sleep(connection, deadline.left_ms());
  }
}

}  // namespace

std::optional<std::size_t> control_limit(control::MessageType type) noexcept {
  switch (static_cast<ControlType>(type)) {
    case ControlType::introduction:
    case ControlType::answer: return 4096;
    case ControlType::message: return longest_message_bytes + sizeof(std::uint32_t);
  }
  return std::nullopt;
}

status_t to_status(Code code) noexcept {
  switch (code) {
    case Code::success: return status_t::SUCCESS;
    case Code::unsupported:
    case Code::unavailable: return status_t::UNSUPPORT;
    case Code::invalid_config:
    case Code::invalid_argument: return status_t::INVALID_CONFIG;
    case Code::timeout: return status_t::TIMEOUT;
    case Code::not_found: return status_t::NOT_FOUND;
    default: return status_t::ERROR;
  }
}

const Instance& own_instance() {
  static const Instance instance = [] {
    const auto random = control::random_bytes();
    Instance drawn;
    std::copy_n(random.begin(), drawn.size(), drawn.begin());
    return drawn;
  }();
  return instance;
}

// ---- ControlPlane

ControlPlane::ControlPlane()
    : env_(base::Env::from_process()),
      log_(env_.log),
      access_(Access::of(env_, "hmc control")),
      transport_(transport_of(base::Env::library("CTRL_TRANSPORT"))),
      port_(port_of(base::Env::library("HMC_CTRL_PORT"))) {}
ControlPlane::~ControlPlane() { stop(); }

void ControlPlane::start(const std::string& ip, std::uint16_t port, const std::string& path) {
  const std::lock_guard serving(serving_);
  if (loop_ != nullptr) return;
  auto loop =
      std::make_unique<control::PeerLoop>(access_.key, static_cast<PeerLoop::Handler&>(*this), &control_limit, log_);
  if (port != 0 && transport_ != CtrlTransport::tcp) {
    base::UniqueFd listener = control::listen_unix(socket_name(access_, ip, port));
    if (!listener)
      throw Error(Code::invalid_config, "control",
                  fmt::format("another process of this job listens on {}", with_port(ip, port)));
    loop->add_listener(std::move(listener));
  }
  if (port != 0 && transport_ != CtrlTransport::uds) {
    try {
      loop->add_listener(control::listen_tcp(with_port(ip, port)));
    } catch (const Error& error) {
      // Its hint is about HMC_STORE.
      const bool in_use = error.detail().sys_errno == EADDRINUSE;
      throw Error(in_use ? Code::invalid_config : error.code(), "control", error.detail().message);
    }
  }
  if (!path.empty() && transport_ != CtrlTransport::tcp) {
    file_ = std::make_unique<SocketFile>(path);
    loop->add_listener(file_->take());
  }
  if (port != 0 && transport_ != CtrlTransport::uds && !access_.has_secret)
    log_.warn("control: HMC_SECRET isn't set, so {} accepts only processes of this user on this machine",
              with_port(ip, port));
  loop_ = std::move(loop);  // before its thread starts, because on_frame() uses loop_
  try {
    loop_->start("hmc-control");
  } catch (...) {
    loop_.reset();
    throw;
  }
  const std::lock_guard guard(mutex_);
  listens_ = true;
  listener_port_ = port;
}

void ControlPlane::stop() {
  const std::lock_guard serving(serving_);
  if (loop_ != nullptr) loop_->stop();  // its thread uses loop_ until it ends
  loop_.reset();
  file_.reset();
  {
    const std::lock_guard guard(mutex_);
    listens_ = false;
  }
  changed_.notify_all();
}

bool ControlPlane::listens() {
  const std::lock_guard guard(mutex_);
  return listens_;
}

bool ControlPlane::listens_at(const std::string& ip, std::uint16_t port) {
  const std::lock_guard guard(mutex_);
  return listens_ && listener_port_ == port && is_own(ip);
}

std::string ControlPlane::refusal_of(int socket) { return access_.refusal_of(socket); }

template <typename Take>
std::string ControlPlane::adopt(const std::string& name, const Instance& instance, std::uint64_t peer_closes,
                                Take&& take) {
  {
    const std::lock_guard guard(mutex_);
    std::shared_ptr<ControlLink>& link = links_[name];
    if (link != nullptr && link->instance() != instance && link->alive())
      return fmt::format("another process is connected as {}", name);
    // The same process keeps its link: messages of its earlier connection may be unread.
    if (link == nullptr || link->instance() != instance) link = std::make_shared<ControlLink>(instance);
    link->add(take(), peer_closes);
  }
  changed_.notify_all();
  return {};
}

void ControlPlane::on_frame(control::Peer& from, const Frame& frame, std::vector<base::UniqueFd>) {
  if (frame.type != type_of(ControlType::introduction)) return loop_->drop(from);
  const auto theirs = decode_introduction(frame.payload);
  if (!theirs) return loop_->drop(from);
  const std::uint64_t closes = closes_of(theirs->name);
  const auto answer = [&](const std::string& refusal) {
    base::ByteWriter out;
    from.connection.send_encoded(type_of(ControlType::answer),
                                 out.raw(own_instance()).number(closes).text(refusal).take());
  };
  const std::string refusal = adopt(theirs->name, theirs->instance, theirs->closes, [&] {
    answer("");
    return loop_->take(from);
  });
  if (refusal.empty()) return;
  log_.warn("control: refused a connection: {}", refusal);
  answer(refusal);
  loop_->drop(from);
}

void ControlPlane::connect(const std::string& name, base::UniqueFd socket, const std::string& mine) {
  if (!access_.admits(socket.get()))
    throw Error(access_.has_secret ? Code::refused : Code::invalid_config, "control",
                fmt::format("{} is on another machine or belongs to another user", name), control::same_secret_hint);
  const std::string stated = mine.empty() ? "@" + control::own_ip(socket.get()) : mine;
  Connection connection(std::move(socket), access_.key, Connection::Side::client, &control_limit);
  connection.send_encoded(type_of(ControlType::introduction),
                          encode(Introduction{own_instance(), closes_of(name), stated}));
  const auto frame =
      await_frame(connection, base::Deadline::after(std::min<std::chrono::nanoseconds>(timeout(), answer_timeout)));
  if (!frame && !connection.ended())
    throw Error(Code::timeout, "control", fmt::format("{} doesn't answer", name), "check that it isn't stopped");
  if (!frame) {
    throw Error(
        Code::refused, "control",
        fmt::format("{} ended the handshake{}{}", name, connection.fault().empty() ? "" : ": ", connection.fault()),
        control::same_secret_hint);
  }
  base::ByteReader in(frame->payload);
  Instance instance{};
  const base::ByteView bytes = in.raw(instance.size());
  const auto peer_closes = in.number<std::uint64_t>();
  std::string refusal = in.text();
  if (frame->type != type_of(ControlType::answer) || !in.complete()) refusal = "its answer is malformed";
  if (!refusal.empty()) throw Error(Code::refused, "control", fmt::format("{} refused: {}", name, refusal));
  std::copy(bytes.begin(), bytes.end(), instance.begin());
  refusal = adopt(name, instance, peer_closes, [&] { return std::move(connection); });
  if (!refusal.empty()) throw Error(Code::refused, "control", refusal, "close the other connection first");
}

void ControlPlane::connect_tcp(const std::string& name, const std::string& ip, std::uint16_t port,
                               const std::string& mine) {
  const auto limit = base::Deadline::after(std::min<std::chrono::nanoseconds>(timeout(), connect_timeout));
  if (!access_.has_secret && is_numeric(ip) && !is_own(ip))
    throw Error(Code::invalid_config, "control", fmt::format("{} is on another machine, and HMC_SECRET isn't set", ip),
                control::same_secret_hint);
  const bool near = transport_ != CtrlTransport::tcp && is_own(ip);
  if (!near && transport_ == CtrlTransport::uds)
    throw Error(Code::unavailable, "control", fmt::format("{} isn't an address of this machine", ip),
                "CTRL_TRANSPORT=uds reaches processes of this machine only");
  base::UniqueFd socket;
  Code code = Code::timeout;
  std::string why;
  LateNotice notice(log_, with_port(ip, port), limit);
  do {
    notice.update();
    if (near) {
      // The listener may have bound this IP, or all.
      for (const std::string& bound : {ip, std::string("0.0.0.0"), std::string("::"), std::string()})
        if (control::connect_unix(socket_name(access_, bound, port), socket) == control::ConnectResult::connected)
          return connect(name, std::move(socket), mine.empty() ? "@" + ip : mine);
    }
    if (transport_ == CtrlTransport::uds) {
      (void)::poll(nullptr, 0, 2);
      continue;
    }
    try {
      std::chrono::nanoseconds turn = notice.left();
      if (near) turn = std::min<std::chrono::nanoseconds>(turn, std::chrono::milliseconds(20));
      socket = control::connect_tcp(with_port(ip, port), base::Deadline::after(turn));
      return connect(name, std::move(socket), mine);
    } catch (const Error& error) {
      if (error.detail().operation == "control") throw;
      why = error.detail().message;
      code = error.code();
      if (code != Code::timeout) break;
      why = why.substr(why.rfind(": ") + 2);  // without the name of the store
    }
  } while (!limit.expired() && !base::is_interrupted());
  throw Error(code, "control",
              fmt::format("no connection to {}{}{}", with_port(ip, port), why.empty() ? "" : ": ", why),
              "check that the peer listens at this address");
}

void ControlPlane::connect_file(const std::string& name, const std::string& path, const std::string& mine) {
  if (transport_ == CtrlTransport::tcp)
    throw Error(Code::unavailable, "control", "CTRL_TRANSPORT=tcp excludes Unix sockets", "connect by TCP");
  const auto limit = base::Deadline::after(std::min<std::chrono::nanoseconds>(timeout(), connect_timeout));
  base::UniqueFd socket = SocketFile::connect(path);
  LateNotice notice(log_, path, limit);
  while (!socket && !limit.expired() && !base::is_interrupted()) {
    notice.update();
    (void)::poll(nullptr, 0, 5);
    socket = SocketFile::connect(path);
  }
  if (!socket) throw Error(Code::timeout, "control", fmt::format("no process listens on {}", path));
  connect(name, std::move(socket), mine);
}

std::uint64_t ControlPlane::closes_of(const std::string& name) {
  const std::lock_guard guard(mutex_);
  return closes_[name];
}

std::shared_ptr<ControlLink> ControlPlane::find(const std::string& name, bool wait) {
  std::unique_lock guard(mutex_);
  const auto found = [&] {
    const auto link = links_.find(name);
    return link == links_.end() ? nullptr : link->second;
  };
  if (wait) {
    const auto ready = [&] { return found() != nullptr || !listens_; };
    const auto deadline = base::Deadline::after(timeout());
    constexpr std::chrono::nanoseconds interval{base::interrupt_interval_ns};
    while (!changed_.wait_for(guard, std::min(interval, deadline.left()), ready) && !deadline.expired()) {
      guard.unlock();  // the program's function may take its time
      const bool is_interrupted = base::is_interrupted();
      guard.lock();
      if (is_interrupted) break;
    }
  }
  return found();
}

void ControlPlane::close(const std::string& name) {
  std::shared_ptr<ControlLink> link;
  {
    const std::lock_guard guard(mutex_);
    const auto found = links_.find(name);
    if (found == links_.end()) return;
    link = std::move(found->second);
    links_.erase(found);
    ++closes_[name];
  }
  link->close();
}

void ControlPlane::close_all() {
  std::map<std::string, std::shared_ptr<ControlLink>> all;
  {
    const std::lock_guard guard(mutex_);
    all.swap(links_);
    for (const auto& [name, link] : all) ++closes_[name];
  }
  for (const auto& [name, link] : all) link->close();
}

}  // namespace hmc::compat
