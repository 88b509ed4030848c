// TcpLink: sends messages over TCP sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/tcp/addresses.hpp"
#include "runtime/transport/am/tcp/connection.hpp"

namespace hmc::transport::tcp {

/// The interfaces that a rank's listener is bound to. by_loopback: only if all ranks share the loopback interface.
enum class Reachable : std::uint8_t { by_loopback, by_all_interfaces };

/// Has a listener, a poll set, and one connection per peer, made by the rank that sends first. If two ranks start at
/// about the same time, the higher rank first waits for a connection from the lower one: a single connection piggybacks
/// acknowledgements; with two, each message costs one more segment. If both still connect, each rank sends on the
/// connection that it made, so its messages stay in order.
class TcpLink final : public am::Link {
 public:
  /// Throws Error{unavailable} if no sockets can be created. `waiter`: if no descriptor is left for a connection to or
  /// from a rank, the link reports that to all ranks of the job; null: it only logs it.
  explicit TcpLink(base::Log log, Patience patience = {}, Reachable reachable = Reachable::by_all_interfaces,
                   const base::Waiter* waiter = nullptr, Bbr bbr = Bbr::replace);

  const Traits& traits() const noexcept override;
  std::string describe() const override;
  std::string describe(int rank) const override;
  void serve(am::LinkUser& user, int rank, int ranks) override;
  base::Bytes address() const override;
  int event_fd() const override { return poll_set_.get(); }
  base::Status connect(int rank, base::ByteView address) noexcept override;
  base::Status send(am::Sending& record) noexcept override;
  int progress() noexcept override;
  bool arm() noexcept override;
  void disconnect(int rank, bool at_once) noexcept override;
  std::size_t ending() noexcept override;
  void leave(bool all_left) noexcept override;

 private:
  void listen(Reachable reachable);
  /// False, with errno, if epoll_ctl fails.
  bool watch(Connection& connection, int operation, bool writable) noexcept;
  /// Before the socket is closed: if a forked process also has it open, the poll set would continue to report it.
  void forget(const Connection& connection) noexcept;
  int accept_all() noexcept;
  /// No descriptor is left for the next connection: the spare one is used for it until its first message shows whether
  /// a rank of this job made it. `error`: EMFILE or ENFILE.
  void accept_by_spare(int error) noexcept;
  /// Closes the connection on the spare descriptor, if any, and reserves the descriptor again.
  void free_spare() noexcept;
  /// Reports to all ranks that this rank has no descriptor for a connection to or from a rank.
  void report_no_descriptor(int error) const noexcept;
  /// The text of the status; `error` is that of Connection::connect_next.
  const char* connect_failure(int error) const noexcept;
  /// Removes the listener from the poll set while no connection can be accepted; otherwise it would always be readable.
  void close_ears(std::int64_t span_ns) noexcept;
  void open_ears() noexcept;
  Connection* other_of(const Connection& connection) const noexcept;
  base::Status hand_to(Connection& connection, am::Sending& record) noexcept;
  int handle(Connection& connection, std::uint32_t events) noexcept;
  int read(Connection& connection) noexcept;
  /// Before a rank is reported lost: reads what it has sent, on all its connections.
  void read_the_rest(int rank) noexcept;
  int write(Connection& connection) noexcept;
  /// False if there is no timer.
  bool start_clock() noexcept;
  void give_way(Connection& connection, Connection& other) noexcept;
  int go_on_connecting(Connection& connection, bool failed) noexcept;
  /// Closes the connection, releases the message that it held, and reports its rank as lost.
  void lose(Connection& connection, const char* why, int error = 0) noexcept;
  void drop_strangers() noexcept;
  void sweep() noexcept;

  base::Log log_;
  am::LinkUser* user_ = nullptr;
  int rank_ = 0;
  Patience patience_;
  const base::Waiter* waiter_;
  Bbr bbr_;
  Address own_;
  base::UniqueFd poll_set_;
  base::UniqueFd listener_;
  base::UniqueFd spare_;
  base::UniqueFd clock_;  // timer of awaited connections: in the poll set, so that it wakes a thread that sleeps there
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> by_rank_;  // the connection that this rank sends on
  std::vector<std::byte> waste_;      // receives bytes that have no destination any more
  unsigned turn_ = 0;
  int connecting_ = 0;
  int blocked_ = 0;  // connections whose sockets accept no more bytes at the moment
  std::uint64_t turned_away_ = 0;
  const Connection* by_spare_ = nullptr;  // the connection on the spare descriptor
  int spare_error_ = 0;                   // the errno for which it was used
  int without_spare_ = 0;                 // accepts in a row that failed although the spare descriptor was closed
  std::int64_t deaf_until_ = 0;           // until when the listener is disabled; 0: it is enabled
  std::uint64_t sent_in_turn_ = 0;
  bool any_dead_ = false;
};

}  // namespace hmc::transport::tcp
