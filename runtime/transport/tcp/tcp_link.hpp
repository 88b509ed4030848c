// TcpLink: messages over TCP sockets of our own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/tcp/addresses.hpp"
#include "runtime/transport/tcp/connection.hpp"

namespace hmc::transport::tcp {

/// Which interfaces the listener of a rank takes connections on. By loopback: where all ranks share it.
enum class Reachable : std::uint8_t { by_loopback, by_all_interfaces };

/// A listener, a poll set, and a connection per rank that was talked to, made by whoever talks first. Of two ranks that
/// begin at about the same time the higher one waits for the lower one's call: on one connection what goes one way
/// acknowledges what came the other way, and on two each message costs a segment more. If it has waited in vain and
/// they still make two, each goes on with its own, so what one of them sends stays in order.
class TcpLink final : public am::Link {
 public:
  /// Throws Error{unavailable} if there are no sockets to be had. `waiter`: of a rank in a job, which ends when a peer
  /// can't be let in; null: that is only logged.
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
  /// False, with errno: the poll set takes no more.
  bool watch(Connection& connection, int operation, bool writable) noexcept;
  /// Before its socket is closed: while a forked process has it open too, the poll set would go on telling of it.
  void forget(const Connection& connection) noexcept;
  int accept_all() noexcept;
  /// No descriptor is left for the next connection: it takes the spare one until its first message tells whether a rank
  /// of this job made it. `error`: EMFILE or ENFILE.
  void accept_by_spare(int error) noexcept;
  /// Ends a connection on the spare descriptor that hasn't sent a message, or was none of this job.
  void free_spare() noexcept;
  /// A connection to or from a rank can't be had: all ranks are told that this rank has no descriptor.
  void report_no_descriptor(int error) const noexcept;
  /// As the text of the status: `error` is of Connection::connect_next.
  const char* connect_failure(int error) const noexcept;
  /// Nobody can be let in: the poll set shall not say all the time that somebody knocks.
  void close_ears(std::int64_t span_ns) noexcept;
  void open_ears() noexcept;
  Connection* other_of(const Connection& connection) const noexcept;
  base::Status hand_to(Connection& connection, am::Sending& record) noexcept;
  int handle(Connection& connection, std::uint32_t events) noexcept;
  int read(Connection& connection) noexcept;
  /// Before a rank is called lost: what it had said by then, on whichever connection.
  void read_the_rest(int rank) noexcept;
  int write(Connection& connection) noexcept;
  /// False: there is no clock.
  bool start_clock() noexcept;
  void give_way(Connection& connection, Connection& other) noexcept;
  int go_on_connecting(Connection& connection, bool failed) noexcept;
  /// Ends it, gives back what it held, and tells of its rank.
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
  base::UniqueFd clock_;  // of calls that are awaited: in the poll set, so that a thread that sleeps there wakes
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> by_rank_;  // on which we send
  std::vector<std::byte> waste_;      // takes bytes that have no place any more
  unsigned turn_ = 0;
  int connecting_ = 0;
  int blocked_ = 0;  // whose sockets take no more at the moment
  std::uint64_t turned_away_ = 0;
  const Connection* by_spare_ = nullptr;  // it has the spare descriptor
  int spare_error_ = 0;                   // why
  int without_spare_ = 0;                 // accepts in a row that failed with the spare descriptor too
  std::int64_t deaf_until_ = 0;           // 0: it listens
  std::uint64_t sent_in_turn_ = 0;
  bool any_dead_ = false;
};

}  // namespace hmc::transport::tcp
