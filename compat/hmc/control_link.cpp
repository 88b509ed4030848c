#include "compat/hmc/control_link.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/interrupt.hpp"

namespace hmc::compat {

using base::Status;
using control::Connection;

namespace {

/// True also while messages that the peer sent before are unread.
bool closed_by_peer(int socket) noexcept {
  pollfd state{socket, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

void ControlLink::add(Connection connection, std::uint64_t peer_closes) {
  const std::lock_guard guard(mutex_);
  std::vector<base::UniqueFd> none;
  std::erase_if(lines_, [&](const std::shared_ptr<Line>& line) {
    const std::lock_guard line_guard(line->mutex);
    if (line->peer_closes == peer_closes) return false;
    // The peer has closed it. Without unread messages its socket isn't kept, also if this process never receives.
    line->connection.read();
    while (auto frame = line->connection.next(none))
      if (frame->type == type_of(ControlType::message)) line->unread.push_back(std::move(frame->payload));
    return line->connection.ended() && line->unread.empty();
  });
  lines_.push_back(std::make_shared<Line>(std::move(connection), peer_closes));
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const auto& a, const auto& b) { return a->peer_closes < b->peer_closes; });
}

std::vector<std::shared_ptr<ControlLink::Line>> ControlLink::lines() {
  const std::lock_guard guard(mutex_);
  if (closed_) return {};
  return lines_;
}

std::shared_ptr<ControlLink::Line> ControlLink::first_open() {
  const auto all = lines();
  for (const auto& line : all) {
    if (line->peer_closes != all.back()->peer_closes) continue;  // the peer has closed it
    const std::lock_guard guard(line->mutex);
    if (!line->connection.ended() && !closed_by_peer(line->connection.fd())) return line;
  }
  return nullptr;
}

bool ControlLink::alive() { return first_open() != nullptr; }

int ControlLink::fd() {
  const auto line = first_open();
  return line == nullptr ? -1 : line->connection.fd();
}

Status ControlLink::send(const base::Bytes& message, base::Deadline deadline) {
  const Status gone = Status::failure(Code::peer_failed, "the peer has disconnected or died");
  const auto open = first_open();
  if (open == nullptr) return gone;
  Line& line = *open;
  std::unique_lock guard(line.mutex);
  line.connection.send_encoded(type_of(ControlType::message), message);
  while (line.connection.wants_write() && !line.connection.ended()) {
    if (deadline.expired()) return Status::failure(Code::timeout, "the peer hasn't read the message in time");
    guard.unlock();  // add() locks in the other order
    const auto now_open = lines();
    if (now_open.empty()) return gone;
    // Read all connections, so that two processes that send to each other don't both wait for space. The peer may send
    // on a connection that appears meanwhile, so poll again after a short time.
    std::vector<pollfd> waits{{line.connection.fd(), POLLIN | POLLOUT, 0}};
    for (const auto& other : now_open) {
      if (other.get() == &line) continue;
      const std::lock_guard reading(other->mutex);
      if (!other->connection.ended()) waits.push_back({other->connection.fd(), POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), std::min(deadline.left_ms(), interrupt_poll_ms)) <= 0 &&
        base::is_interrupted())
      return Status::failure(Code::timeout, "the program interrupted the wait");
    for (const auto& other : now_open) {
      if (other.get() == &line) continue;
      const std::lock_guard reading(other->mutex);
      other->connection.read();
    }
    guard.lock();
    line.connection.read();
    line.connection.write();
  }
  return line.connection.ended() ? gone : Status{};
}

Status ControlLink::receive(base::Bytes& message, base::Deadline deadline) {
  std::vector<base::UniqueFd> none;
  std::vector<pollfd> waits;
  for (;;) {
    std::vector<std::shared_ptr<Line>> all;
    {
      const std::lock_guard guard(mutex_);
      if (closed_) return Status::failure(Code::closed, "the connection was closed");
      all = lines_;
    }
    waits.clear();
    std::optional<std::uint64_t> open_closes;
    for (const auto& line : all) {
      if (open_closes && line->peer_closes > *open_closes) break;
      const std::lock_guard guard(line->mutex);
      if (!line->unread.empty()) {
        message = std::move(line->unread.front());
        line->unread.pop_front();
        return {};
      }
      auto frame = line->connection.next(none);
      if (!frame) {
        line->connection.read();
        frame = line->connection.next(none);
      }
      if (frame && frame->type == type_of(ControlType::message)) {
        message = std::move(frame->payload);
        return {};
      }
      if (line->connection.ended()) continue;
      open_closes = line->peer_closes;
      waits.push_back({line->connection.fd(), POLLIN, 0});
    }
    if (waits.empty()) {
      if (lines() != all) continue;  // the peer has connected again
      return Status::failure(Code::peer_failed, "the peer has disconnected or died");
    }
    if (deadline.expired()) return Status::failure(Code::timeout, "no message has arrived in time");
    // A second connection of the peer may appear meanwhile; its first message is received after this poll.
    if (::poll(waits.data(), waits.size(), std::min(deadline.left_ms(), interrupt_poll_ms)) <= 0 &&
        base::is_interrupted())
      return Status::failure(Code::timeout, "the program interrupted the wait");
  }
}

void ControlLink::close() {
  const std::lock_guard guard(mutex_);
  closed_ = true;
  for (const auto& line : lines_) (void)::shutdown(line->connection.fd(), SHUT_RDWR);
  lines_.clear();
}

}  // namespace hmc::compat
