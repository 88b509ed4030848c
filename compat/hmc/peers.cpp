#include "compat/hmc/peers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "compat/hmc/control_words.hpp"
#include "job/wires.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/control/socket.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc::compat {

using base::Deadline;
using control::Connection;
using control::Frame;
using rma::Endpoint;

namespace {

constexpr auto commit_within = std::chrono::seconds(30);
constexpr auto retry_after = std::chrono::milliseconds(20);

std::string address_text(const PeerName& name) {
  return name.ip.find(':') == std::string::npos ? fmt::format("{}:{}", name.ip, name.port)
                                                : fmt::format("[{}]:{}", name.ip, name.port);
}

bool is_wildcard(const std::string& ip) { return ip.empty() || ip == "0.0.0.0" || ip == "::"; }

bool is_unix(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 && address.ss_family == AF_UNIX;
}

template <typename Array> Array random_array() {
  Array array;
  const auto bytes = control::random_bytes();
  static_assert(sizeof array <= sizeof bytes);
  std::memcpy(array.data(), bytes.data(), sizeof array);
  return array;
}

/// Otherwise the peer could shrink the file, and an access of this process would raise SIGBUS.
void require_sealed(const base::UniqueFd& memfd) {
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw Error(Code::refused, "connectTo", "the peer's memfd isn't sealed against shrinking");
}

/// Connects to a server that may still start. Throws Error{timeout, invalid_config}.
base::UniqueFd connect_or_log(const std::string& at, Deadline deadline, const base::Log& log) {
  constexpr std::chrono::nanoseconds silent = std::chrono::seconds(1);
  std::string why;
  const auto attempt = [&](Deadline until) {
    try {
      return control::connect_tcp(at, until);
    } catch (const Error& error) {
      why = error.detail().message;
      if (error.code() != Code::timeout) throw Error(error.code(), "connectTo", why);
      why = why.substr(why.rfind(": ") + 2);
      return base::UniqueFd();
    }
  };
  base::UniqueFd socket = attempt(Deadline::after(std::min(silent, deadline.left())));
  if (!socket && !deadline.expired() && !base::is_interrupted()) {
    log.warn("connectTo: no process accepts connections at {} yet ({}); trying for another {} s", at, why,
             whole_seconds(deadline));
    socket = attempt(deadline);
  }
  if (!socket)
    throw Error(Code::timeout, "connectTo", fmt::format("no process accepts connections at {}: {}", at, why),
                "check that the server is running, and that no firewall is in the way");
  return socket;
}

/// The next message of a connection that the caller's thread uses. Throws Error.
Frame await_frame(Connection& connection, std::vector<base::UniqueFd>& fds, const std::string& from,
                  Deadline deadline) {
  for (;;) {
    if (auto frame = connection.next(fds)) return *std::move(frame);
    if (connection.ended()) {
      throw Error(
          Code::refused, "connectTo",
          fmt::format("{} closed the connection{}{}", from, connection.fault().empty() ? "" : ": ", connection.fault()),
          control::same_secret_hint);
    }
    if (deadline.expired()) throw Error(Code::timeout, "connectTo", fmt::format("{} doesn't answer", from));
    control::move_or_sleep(connection, deadline.left_ms());
  }
}

}  // namespace

Peers::Peers(std::shared_ptr<ConnBuffer> buffer, const std::vector<std::string>& wires, std::size_t channels,
             const base::Env& env, base::Log log)
    : buffer_(std::move(buffer)),
      relay_(buffer_->allocation()->host_accessible
                 ? nullptr
                 : memory::provider_for(MemoryType::CPU).allocate(0, RelayLayout::bytes, memory::Backing::plain)),
      log_(log),
      shares_memory_((env.transport.empty() || env.transport == "shm") &&
                     (relay_ != nullptr || buffer_->allocation()->segment != nullptr)),
      access_(Access::of(env, "hmc control")),
      uid_(random_array<Uid>()),
      endpoint_(
          buffer_->allocation(), relay_,
          [&] {
            std::vector<std::string> why_not;
            auto made = wires.empty() ? Endpoint::Wires{}
                                      : job::make_open_wires(wires, Endpoint::most_peers, channels, log, why_not);
            for (const std::string& why : why_not) log.info("a wire isn't used: {}", why);
            return made;
          }(),
          log),
      loop_(access_.key, *this, &handshake_limit, log) {
  const auto bytes = control::random_bytes();
  std::memcpy(&nonce_, bytes.data(), sizeof nonce_);
  std::memcpy(endpoint_.control()->base() + Endpoint::nonce_at, &nonce_, sizeof nonce_);
  loop_.start("hmc-peers");
}

Peers::~Peers() { loop_.stop(); }

void Peers::listen(const std::string& ip, std::uint16_t port) {
  {
    const std::lock_guard guard(lock_);
    if (!unix_name_.empty()) throw Error(Code::invalid_config, "initServer", "the server is already running");
  }
  base::UniqueFd tcp = control::listen_tcp(address_text({is_wildcard(ip) && ip != "::" ? "" : ip, port}));
  const std::string bound = control::address_of(tcp.get());
  const auto actual = static_cast<std::uint16_t>(std::stoi(bound.substr(bound.rfind(':') + 1)));
  std::string name = "hmc-data-";
  for (const std::uint8_t each : random_array<Token>()) name += fmt::format("{:02x}", each);
  base::UniqueFd local = control::listen_unix(name);
  if (!access_.has_secret && !ip.starts_with("127.") && ip != "::1" && ip != "localhost") {
    log_.warn("initServer: HMC_SECRET isn't set, so {} accepts only processes of this user on this machine",
              address_text({ip, actual}));
  }
  {
    const std::lock_guard guard(lock_);
    unix_name_ = name;
    server_ = {ip, actual};
  }
  // A task of the loop must be copyable.
  auto listeners = std::make_shared<std::pair<base::UniqueFd, base::UniqueFd>>(std::move(tcp), std::move(local));
  loop_.post([this, listeners] {
    loop_.add_listener(std::move(listeners->first));
    if (listeners->second) loop_.add_listener(std::move(listeners->second));
  });
}

void Peers::stop_listening() {
  {
    const std::lock_guard guard(lock_);
    if (unix_name_.empty()) return;
    unix_name_.clear();
    server_ = {};
  }
  // Returns when the address is free for another listener.
  const auto closed = std::make_shared<std::pair<std::mutex, std::condition_variable>>();
  const auto is_closed = std::make_shared<bool>(false);
  loop_.post([this, closed, is_closed] {
    loop_.close_listeners();
    const std::lock_guard guard(closed->first);
    *is_closed = true;
    closed->second.notify_all();
  });
  std::unique_lock wait(closed->first);
  closed->second.wait(wait, [&] { return *is_closed; });
}

std::uint16_t Peers::port() const {
  const std::lock_guard guard(lock_);
  return server_.port;
}

// ---- the client's side, on the caller's thread

std::shared_ptr<Peer> Peers::connect(const PeerName& server, std::optional<Ids> ids, Deadline deadline) {
  for (;;) {
    if (auto peer = try_connect(server, ids, deadline); peer != nullptr) return peer;
  }
}

std::shared_ptr<Peer> Peers::try_connect(const PeerName& server, std::optional<Ids> ids, Deadline deadline) {
  if (const auto known = find(server); known != nullptr) {
    if (status(*known).ok()) return known;
    disconnect(known);
  }
  const std::string at = address_text(server);
  base::UniqueFd socket = connect_or_log(at, deadline, log_);
  if (!access_.admits(socket.get())) {
    throw Error(Code::invalid_config, "connectTo", fmt::format("HMC_SECRET isn't set, and {} is another machine", at),
                control::same_secret_hint);
  }
  Connection connection(std::move(socket), access_.key, Connection::Side::client, &handshake_limit);

  const auto peer = std::make_shared<Peer>();
  peer->outgoing = true;
  peer->names.push_back(server);
  if (ids) peer->id = ids->peer;
  peer->number = endpoint_.reserve();
  if (peer->number < 0) throw Error(Code::error, "connectTo", "this Communicator has too many peers");
  struct Undo {  // unless the peer is connected
    Peers& peers;
    std::shared_ptr<Peer> peer;
    ~Undo() {
      if (peer != nullptr) peers.forget(peer);
    }
  } undo{*this, peer};

  ConnectRequest request;
  request.uid = uid_;
  request.wires = endpoint_.wire_names();
  request.offer = endpoint_.offer(peer->number);
  {
    const std::lock_guard guard(lock_);
    if (ids) {
      if (self_id_ && *self_id_ != ids->self) {
        throw Error(Code::invalid_config, "connectTo",
                    fmt::format("this Communicator has the id {} already, not {}", *self_id_, ids->self));
      }
      self_id_ = ids->self;
      request.self_id = ids->self;
      request.peer_id = ids->peer;
    }
    request.ip = is_wildcard(server_.ip) ? control::own_ip(connection.fd()) : server_.ip;
    request.port = server_.port;
  }
  connection.send(request);

  std::vector<base::UniqueFd> fds;
  const Frame answer = await_frame(connection, fds, at, deadline);
  if (const auto refused = decode_step<Refused>(answer))
    throw Error(refused->code, "connectTo", fmt::format("{} refuses: {}", at, refused->text));
  if (const auto already = decode_step<AlreadyConnected>(answer))
    return await_connected(already->uid, server, ids, deadline);
  const auto accepted = decode_step<Accepted>(answer);
  if (!accepted) throw Error(Code::refused, "connectTo", fmt::format("{} sent an unexpected message", at));
  {
    std::unique_lock guard(lock_);
    if (ids) {
      const std::string why = refusal_of(accepted->uid, ids->peer);
      if (!why.empty()) throw Error(Code::refused, "connectTo", why);
    }
    const auto other = with_uid(accepted->uid);
    // Both sides connect at once. The side with the larger uid drops its own connection; see Peers.
    if (other != nullptr && (other->state == Peer::State::connected || accepted->uid < uid_)) {
      guard.unlock();
      return await_connected(accepted->uid, server, ids, deadline);
    }
    peer->uid = accepted->uid;
    peers_.push_back(peer);
  }

  Endpoint::Mapped mapped = share_with(*accepted, deadline);
  Commit commit;
  commit.mapped = mapped.control != nullptr;
  if (!commit.mapped && accepted->wire.empty()) {
    throw Error(Code::unavailable, "connectTo",
                fmt::format("{} and this process have no wire in common, and no shared memory", at));
  }
  endpoint_.connect(peer->number, accepted->offer, accepted->wire, std::move(mapped));
  connection.send(commit);
  if (!decode_step<Ready>(await_frame(connection, fds, at, deadline)))
    throw Error(Code::refused, "connectTo", fmt::format("{} sent an unexpected message", at));
  {
    const std::lock_guard guard(lock_);
    take_over(peer);
    undo.peer = nullptr;
  }
  changed_.notify_all();
  log_.info("connected to {} by {}", at, endpoint_.path(peer->number));
  const auto link = std::make_shared<Connection>(std::move(connection));
  loop_.post([this, link, peer] {
    control::Peer& added = loop_.add(std::move(*link));
    links_[&added] = peer;
    const std::lock_guard guard(lock_);
    if (peer->state == Peer::State::failed) loop_.drop(added);  // another thread has disconnected it meanwhile
  });
  return peer;
}

std::shared_ptr<Peer> Peers::await_connected(const Uid& uid, const PeerName& name, std::optional<Ids> ids,
                                             Deadline deadline) {
  std::unique_lock guard(lock_);
  std::shared_ptr<Peer> peer;
  const auto connected = [&] {
    peer = with_uid(uid);
    return peer != nullptr && peer->state == Peer::State::connected;
  };
  // The reply may refer to an earlier connection whose end the server hasn't detected. Then a new attempt succeeds.
  if (!changed_.wait_for(guard, std::min<std::chrono::nanoseconds>(deadline.left(), retry_after), connected)) {
    if (!deadline.expired()) return nullptr;
    throw Error(Code::timeout, "connectTo",
                fmt::format("{} has another connection to this process, but doesn't complete it", address_text(name)));
  }
  if (std::find(peer->names.begin(), peer->names.end(), name) == peer->names.end()) peer->names.push_back(name);
  if (ids && !peer->id) peer->id = ids->peer;
  return peer;
}

Endpoint::Mapped Peers::share_with(const Accepted& accepted, Deadline deadline) {
  base::UniqueFd socket;
  if (!shares_memory_ || accepted.unix_name.empty() ||
      control::connect_unix(accepted.unix_name, socket) != control::ConnectResult::connected ||
      !access_.admits(socket.get()))
    return {};  // another node, another network namespace or another user
  Connection connection(std::move(socket), access_.key, Connection::Side::client, &handshake_limit);
  std::vector<control::SharedFd> mine;
  ShareMemory memory = own_memory(mine);
  memory.token = accepted.token;
  connection.send(memory, std::move(mine));
  std::vector<base::UniqueFd> fds;
  const auto theirs = decode_step<ShareMemory>(await_frame(connection, fds, "the peer's Unix socket", deadline));
  if (!theirs) throw Error(Code::refused, "connectTo", "the peer sent an unexpected message by its Unix socket");
  return map(*theirs, fds);
}

ShareMemory Peers::own_memory(std::vector<control::SharedFd>& fds) const {
  const auto add = [&](const base::Segment& segment) {
    fds.push_back(std::make_shared<base::UniqueFd>(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)));
    if (!*fds.back()) throw Error(Code::error, "connectTo", "no descriptor is free");
  };
  const memory::Allocation& exposed = endpoint_.exposed();
  ShareMemory memory;
  memory.nonce = nonce_;
  memory.control_bytes = endpoint_.control()->bytes();
  add(*endpoint_.control());
  memory.buffer_bytes = exposed.segment->bytes();
  memory.file_offset = exposed.segment->file_offset();
  memory.buffer_offset = exposed.segment_offset;
  add(*exposed.segment);
  return memory;
}

Endpoint::Mapped Peers::map(const ShareMemory& message, std::vector<base::UniqueFd>& fds) const {
  if (fds.size() != 2 || message.control_bytes < Endpoint::control_bytes)
    throw Error(Code::refused, "connectTo", "the peer sent more or fewer descriptors than it announced");
  std::for_each(fds.begin(), fds.end(), &require_sealed);
  Endpoint::Mapped mapped;
  mapped.control = base::Segment::map(std::move(fds[0]), message.control_bytes);
  std::uint64_t nonce = 0;
  std::memcpy(&nonce, mapped.control->base() + Endpoint::nonce_at, sizeof nonce);
  if (nonce != message.nonce)
    throw Error(Code::refused, "connectTo", "the descriptor isn't that of the peer's memory: the nonce differs");
  mapped.buffer = base::Segment::map(std::move(fds[1]), message.buffer_bytes, message.file_offset);
  mapped.offset = message.buffer_offset;
  return mapped;
}

// ---- the server's side, on the service thread

std::string Peers::refusal_of(int socket) {
  if (!is_unix(socket)) control::tune_tcp(socket);
  return access_.refusal_of(socket);
}

void Peers::refuse(control::Peer& to, Code code, std::string text) {
  log_.warn("a peer is refused: {}", text);
  Refused refused;
  refused.code = code;
  refused.text = std::move(text);
  to.connection.send(refused);
  loop_.drop(to);
}

void Peers::on_frame(control::Peer& from, const Frame& frame, std::vector<base::UniqueFd> fds) {
  try {
    if (const auto request = decode_step<ConnectRequest>(frame)) return handle(from, *request);
    if (const auto memory = decode_step<ShareMemory>(frame)) return handle(from, *memory, fds);
    if (const auto commit = decode_step<Commit>(frame)) return handle(from, *commit);
    refuse(from, Code::refused, "it sent an unexpected message");
  } catch (const Error& error) {
    refuse(from, error.detail().code, error.detail().message);
  } catch (const std::exception& error) {
    refuse(from, Code::error, error.what());
  }
}

void Peers::handle(control::Peer& from, const ConnectRequest& request) {
  if (request.version != handshake_version)
    return refuse(from, Code::refused,
                  fmt::format("it uses version {} of the handshake, not {}", request.version, handshake_version));
  if (request.uid == uid_) return refuse(from, Code::invalid_config, "a Communicator can't connect to itself");
  if (accepting_.contains(&from) || links_.contains(&from))
    return refuse(from, Code::refused, "it sent a second connect request on one connection");
  Accepting accepting{std::make_shared<Peer>(),      request.offer, {}, random_array<Token>(), {},
                      Deadline::after(commit_within)};
  Peer& peer = *accepting.peer;
  Accepted answer;
  {
    const std::lock_guard guard(lock_);
    if (const auto known = with_uid(request.uid);
        known != nullptr && (known->outgoing || known->state == Peer::State::connected)) {
      AlreadyConnected already;
      already.uid = uid_;
      from.connection.send(already);
      return loop_.drop(from);
    }
    std::string why;
    if (request.self_id != no_id) why = refusal_of(request.uid, request.self_id);
    if (why.empty() && request.peer_id != no_id && self_id_ && *self_id_ != request.peer_id)
      why = fmt::format("it expects the id {} here, but this is {}", request.peer_id, *self_id_);
    if (!why.empty()) return refuse(from, Code::refused, why);
    peer.uid = request.uid;
    if (request.self_id != no_id) peer.id = static_cast<std::uint32_t>(request.self_id);
    peer.names.push_back({request.ip, request.port});
    if (shares_memory_) answer.unix_name = unix_name_;
    peers_.push_back(accepting.peer);
  }
  peer.number = endpoint_.reserve();
  if (peer.number < 0) {
    forget(accepting.peer);
    return refuse(from, Code::error, "this Communicator has too many peers");
  }
  const auto mine = endpoint_.wire_names();
  for (const std::string& wire : request.wires) {
    if (answer.wire.empty() && std::find(mine.begin(), mine.end(), wire) != mine.end()) answer.wire = wire;
  }
  accepting.wire = answer.wire;
  answer.uid = uid_;
  answer.offer = endpoint_.offer(peer.number);
  answer.token = accepting.token;
  accepting_.emplace(&from, std::move(accepting));
  from.connection.send(answer);
}

void Peers::handle(control::Peer& from, const ShareMemory& message, std::vector<base::UniqueFd>& fds) {
  const auto found = std::find_if(accepting_.begin(), accepting_.end(),
                                  [&](const auto& each) { return each.second.token == message.token; });
  if (found == accepting_.end() || !is_unix(from.connection.fd()))
    return refuse(from, Code::refused, "it shares memory for an unknown handshake");
  found->second.mapped = map(message, fds);
  std::vector<control::SharedFd> mine;
  ShareMemory answer = own_memory(mine);
  answer.token = message.token;
  from.connection.send(answer, std::move(mine));
  loop_.drop(from);
}

void Peers::handle(control::Peer& from, const Commit& commit) {
  const auto found = accepting_.find(&from);
  if (found == accepting_.end()) return refuse(from, Code::refused, "it commits an unknown handshake");
  Accepting accepting = std::move(found->second);
  accepting_.erase(found);
  const std::shared_ptr<Peer>& peer = accepting.peer;
  try {
    if (!commit.mapped) accepting.mapped = {};
    if (commit.mapped && accepting.mapped.control == nullptr)
      throw Error(Code::refused, "connectTo", "it announced shared memory but sent no descriptors");
    endpoint_.connect(peer->number, accepting.offer, accepting.wire, std::move(accepting.mapped));
  } catch (...) {
    forget(peer);
    throw;
  }
  links_[&from] = peer;
  {
    const std::lock_guard guard(lock_);
    take_over(peer);
  }
  changed_.notify_all();
  log_.info("{} has connected by {}", address_text(peer->names.front()), endpoint_.path(peer->number));
  from.connection.send(Ready{});
}

void Peers::on_end(control::Peer& gone) {
  if (const auto found = accepting_.find(&gone); found != accepting_.end()) {
    forget(found->second.peer);
    accepting_.erase(found);
  }
  if (const auto found = links_.find(&gone); found != links_.end()) {
    const std::string& fault = gone.connection.fault();
    fail(*found->second, fault.empty() ? "the peer has closed the connection or has died" : fault);
    links_.erase(found);
  }
}

int Peers::on_turn() {
  int next = -1;
  for (auto& [link, accepting] : accepting_) {
    if (link->dropped) continue;
    const int left = accepting.commit_by.left_ms();
    if (left == 0) {
      loop_.drop(*link);
    } else {
      next = next < 0 ? left : std::min(next, left);
    }
  }
  return next;
}

// ---- the table

std::shared_ptr<Peer> Peers::with_uid(const Uid& uid) const {
  std::shared_ptr<Peer> found;
  for (const auto& peer : peers_) {
    if (peer->uid != uid || peer->state == Peer::State::failed) continue;
    if (found == nullptr || peer->outgoing || peer->state == Peer::State::connected) found = peer;
  }
  return found;
}

std::string Peers::refusal_of(const Uid& uid, std::int64_t claimed) const {
  if (claimed < 0 || claimed > UINT32_MAX) return fmt::format("{} isn't an id", claimed);
  if (self_id_ && *self_id_ == claimed) return fmt::format("the id {} is this side's own", claimed);
  for (const auto& peer : peers_) {
    if (peer->id == static_cast<std::uint32_t>(claimed) && peer->uid != uid && peer->state != Peer::State::failed)
      return fmt::format("the id {} belongs to another peer", claimed);
  }
  return {};
}

/// Under lock_: the peer is connected. It replaces failed peers of the same name or id.
void Peers::take_over(const std::shared_ptr<Peer>& peer) {
  std::erase_if(peers_, [&](const std::shared_ptr<Peer>& other) {
    if (other->state != Peer::State::failed) return false;
    return (peer->id && other->id == peer->id) ||
           std::any_of(peer->names.begin(), peer->names.end(), [&](const PeerName& name) {
             return std::find(other->names.begin(), other->names.end(), name) != other->names.end();
           });
  });
  peer->state = Peer::State::connected;
}

void Peers::forget(const std::shared_ptr<Peer>& peer) {
  {
    const std::lock_guard guard(lock_);
    std::erase(peers_, peer);
  }
  changed_.notify_all();
  if (peer->number >= 0) endpoint_.remove(peer->number);
}

void Peers::fail(Peer& peer, std::string why) {
  {
    const std::lock_guard guard(lock_);
    if (peer.state == Peer::State::failed) return;
    peer.state = Peer::State::failed;
    peer.why_failed = std::move(why);
  }
  changed_.notify_all();
  endpoint_.remove(peer.number);
}

void Peers::disconnect(const std::shared_ptr<Peer>& peer) {
  bool was_connected = false;
  {
    const std::lock_guard guard(lock_);
    was_connected = peer->state == Peer::State::connected;
    peer->state = Peer::State::failed;
    peer->why_failed = "disConnect was called";
    std::erase(peers_, peer);
  }
  if (was_connected) endpoint_.remove(peer->number);
  loop_.post([this, peer] {
    for (const auto& [link, of] : links_) {
      if (of == peer) loop_.drop(*link);
    }
  });
}

std::shared_ptr<Peer> Peers::find(const PeerName& name) const {
  const std::lock_guard guard(lock_);
  std::shared_ptr<Peer> by_ip;
  int with_ip = 0;
  for (const auto& peer : peers_) {
    if (peer->state == Peer::State::connecting) continue;
    for (const PeerName& each : peer->names) {
      if (each == name) return peer;
      if (each.ip != name.ip || each.port != 0) continue;
      by_ip = peer;
      ++with_ip;
    }
  }
  return with_ip == 1 ? by_ip : nullptr;
}

bool Peers::answers_to(const Peer& peer, const std::string& ip) {
  return peer.state != Peer::State::connecting &&
         std::any_of(peer.names.begin(), peer.names.end(), [&](const PeerName& each) { return each.ip == ip; });
}

bool Peers::knows(const std::string& ip) const {
  const std::lock_guard guard(lock_);
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) { return answers_to(*peer, ip); });
}

std::shared_ptr<Peer> Peers::find(const std::string& ip) const {
  const std::lock_guard guard(lock_);
  std::shared_ptr<Peer> found;
  for (const auto& peer : peers_) {
    if (!answers_to(*peer, ip)) continue;
    if (found != nullptr) {
      log_.warn("several peers have the address {}: name them by address and port", ip);
      return nullptr;
    }
    found = peer;
  }
  return found;
}

bool Peers::has_name(const Peer& peer, const PeerName& name) const {
  const std::lock_guard guard(lock_);
  return std::find(peer.names.begin(), peer.names.end(), name) != peer.names.end();
}

std::vector<std::shared_ptr<Peer>> Peers::connected() const {
  std::vector<std::shared_ptr<Peer>> all;
  const std::lock_guard guard(lock_);
  std::copy_if(peers_.begin(), peers_.end(), std::back_inserter(all),
               [](const auto& peer) { return peer->state == Peer::State::connected; });
  return all;
}

base::Status Peers::status(const Peer& peer) const {
  {
    const std::lock_guard guard(lock_);
    if (peer.state == Peer::State::failed)
      return base::Status::failure(Code::peer_failed, "the peer has disconnected or died");
    if (peer.state == Peer::State::connecting)
      return base::Status::failure(Code::not_found, "the peer isn't connected");
  }
  return endpoint_.status(peer.number);
}

}  // namespace hmc::compat
