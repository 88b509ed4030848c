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

/// Owns a listener, a poll set, and one connection per peer. The rank that sends first connects. If two ranks connect
/// at about the same time, the higher rank first waits for a connection from the lower rank, because a single
/// connection piggybacks acknowledgements and two need one more segment per message. If both still connect, each rank
/// sends on its own connection, so its messages stay in order.
class TcpLink final : public am::ByteLink {
 public:
  /// Throws Error{unavailable} if no sockets can be created. `waiter`: used to report to all ranks of the job that no
  /// descriptor is free for a connection with a rank; null: the link only logs it. `tls`: encrypts all connections.
  explicit TcpLink(base::Log log, Patience patience = {}, Reachable reachable = Reachable::by_all_interfaces,
                   const base::Waiter* waiter = nullptr, Bbr bbr = Bbr::replace,
                   const std::optional<base::TlsKey>& tls = std::nullopt);

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
  bool watch(AmConnection& connection, int operation, bool writable) noexcept;
  /// Removes the socket from the poll set before it is closed. Otherwise the poll set would continue to report it if a
  /// forked process also has it open.
  void forget(const AmConnection& connection) noexcept;
  int accept_all() noexcept;
  /// Accepts a connection with the spare descriptor when no other is free. Its first message shows whether it comes
  /// from a rank of this job. `error`: EMFILE or ENFILE.
  void accept_by_spare(int error) noexcept;
  /// Closes the connection that uses the spare descriptor, if any, and reserves the descriptor again.
  void free_spare() noexcept;
  /// Reports to all ranks that this rank has no free descriptor for a connection with a rank.
  void report_no_descriptor(int error) const noexcept;
  /// The text of the status; `error` is AmConnection::error() after connect_next() failed.
  const char* connect_failure(int error) const noexcept;
  /// Removes the listener from the poll set while no connection can be accepted; otherwise it would always be readable.
  void disable_listener(std::int64_t span_ns) noexcept;
  void enable_listener() noexcept;
  AmConnection* other_of(const AmConnection& connection) const noexcept;
  base::Status hand_to(AmConnection& connection, am::Sending& record) noexcept;
  int handle(AmConnection& connection, std::uint32_t events) noexcept;
  int read(AmConnection& connection) noexcept;
  /// Reads all remaining data from the rank's connections before the rank is reported lost.
  void read_the_rest(int rank) noexcept;
  int write(AmConnection& connection) noexcept;
  const base::TlsKey* tls_key() const noexcept { return tls_ ? &*tls_ : nullptr; }
  /// True if a connection has decrypted bytes that the poll set doesn't report.
  bool has_decrypted() const noexcept;
  /// False if there is no timer.
  bool start_clock() noexcept;
  void give_way(AmConnection& connection, AmConnection& other) noexcept;
  int go_on_connecting(AmConnection& connection, bool failed) noexcept;
  /// Closes the connection, releases the message that it held, and reports its rank as lost.
  void lose(AmConnection& connection, const char* why, int error = 0) noexcept;
  void drop_strangers() noexcept;
  void sweep() noexcept;

  base::Log log_;
  am::LinkUser* user_ = nullptr;
  int rank_ = 0;
  Patience patience_;
  const base::Waiter* waiter_;
  Bbr bbr_;
  const std::optional<base::TlsKey> tls_;
  Address own_;
  base::UniqueFd poll_set_;
  base::UniqueFd listener_;
  base::UniqueFd spare_;
  base::UniqueFd clock_;  // timer of pending connections, in the poll set: it wakes a thread that sleeps in poll
  std::vector<std::unique_ptr<AmConnection>> connections_;
  std::vector<AmConnection*> by_rank_;  // the connection that this rank sends on
  std::vector<std::byte> waste_;        // receives bytes that no longer have a destination
  unsigned turn_ = 0;
  int connecting_ = 0;
  int blocked_ = 0;  // connections whose sockets currently accept no bytes
  std::uint64_t rejected_connections_ = 0;
  const AmConnection* by_spare_ = nullptr;  // the connection on the spare descriptor
  int spare_error_ = 0;                     // the errno of the accept() that needed the spare descriptor
  int without_spare_ = 0;                   // consecutive accepts that failed although the spare descriptor was closed
  std::int64_t listener_disabled_until_ = 0;  // end of the time in which the listener is disabled; 0: it is enabled
  std::uint64_t sent_in_turn_ = 0;
  bool any_dead_ = false;
};

}  // namespace hmc::transport::tcp
