// AmConnection: one socket to a peer, with the state of its partially sent and received frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

struct iovec;

#include "runtime/base/fd.hpp"
#include "runtime/base/tls.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/message.hpp"
#include "runtime/transport/am/tcp/addresses.hpp"

namespace hmc::transport::tcp {

/// Time limits for connection attempts. While an address may answer later and none refuses, all are tried again: the
/// network may be away.
struct Patience {
  std::int64_t each_ns = 3'000'000'000;    ///< for one address
  std::int64_t whole_ns = 30'000'000'000;  ///< for all attempts
  /// How long the higher of two ranks waits for a connection from the lower one before it connects itself.
  std::int64_t call_ns = 1'000'000;
  /// The connections outlive shorter outages.
  int lost_host_s = 10;
};

/// replace: sockets to near peers use reno instead of bbr. keep: they keep bbr.
enum class Bbr : std::uint8_t { replace, keep };

/// The socket carries frames: a length, a Message, and as many data bytes as the length states (contiguous in Sending).
/// A small frame is received into a buffer and reported complete; the bytes of a large one are read directly to their
/// destination. Threads: under AmWire's lock.
class AmConnection {
 public:
  enum class Outcome : std::uint8_t {
    idle,    ///< no bytes were available
    moved,   ///< bytes were read; no more are available, or the limit of this round is reached
    more,    ///< bytes were read; more may be available
    ended,   ///< the peer closed the connection, or the connection failed
    strange  ///< the bytes are not a frame of this job
  };

  /// An outgoing connection, not yet connected. `key`: encrypts it; null: no encryption. It must outlive the
  /// connection.
  AmConnection(int rank, std::vector<Candidate> candidates, Patience patience, Bbr bbr = Bbr::replace,
               const base::TlsKey* key = nullptr)
      : rank_(rank), candidates_(std::move(candidates)), patience_(patience), bbr_(bbr), key_(key) {}
  /// An accepted connection; its first message shows its rank.
  explicit AmConnection(base::UniqueFd socket, const base::TlsKey* key = nullptr)
      : socket_(std::move(socket)), open_(true), key_(key) {
    if (key != nullptr) tls_.emplace(fd(), base::Tls::Side::server, *key);
  }

  int fd() const noexcept { return socket_.get(); }
  int rank() const noexcept { return rank_; }
  bool open() const noexcept { return open_; }
  bool dead() const noexcept { return dead_; }
  std::string describe() const;

  // ---- connecting
  /// Delays the first attempt for a short time, in which the peer may connect.
  void await_call() noexcept;
  /// True in this time, and in a pause of connect_next(): there is no attempt.
  bool awaits_call() const noexcept { return !open_ && !dead_ && next_candidate_ == 0; }
  /// Starts an attempt with the next address. After the last address it continues with the first one after a pause, in
  /// which awaits_call() is true. Returns false if one of them refused the connection, if none of them may answer
  /// later, or if the time is over; error() is ECONNREFUSED or the last attempt's.
  bool connect_next() noexcept;
  /// Called when the socket became writable. Returns true if it is connected.
  bool connected() noexcept;
  bool overdue(std::int64_t now) const noexcept { return !open_ && !dead_ && now >= connect_until_; }
  /// Called when it is overdue(): the attempt has failed, or the wait for a call or the pause has ended.
  void timed_out() noexcept;
  /// The errno of the last connection attempt, or of the read that ended the connection; 0: the peer closed it.
  int error() const noexcept { return error_; }

  // ---- writing
  bool writes() const noexcept { return current_ != nullptr; }
  am::Sending* current() const noexcept { return current_; }
  /// Starts to write `record`. Returns ok if all of it is written, in_progress if a part is, or the failure.
  base::Status write(am::Sending& record) noexcept;
  /// Keeps the record for write_on().
  void hold(am::Sending& record) noexcept {
    current_ = &record;
    written_ = 0;
  }
  /// Continues to write the current record.
  base::Status write_on() noexcept;
  /// Drops the current record and returns it; null if there is none.
  am::Sending* drop_current() noexcept { return std::exchange(current_, nullptr); }
  bool wants_writable = false;  ///< the state in the poll set
  /// True if some bytes aren't written, or the peer's kernel hasn't acknowledged them.
  bool has_unsent() const noexcept;
  void end_writing() noexcept;
  bool ending = false;

  // ---- reading
  /// True if read() has bytes although the socket may have none.
  bool has_decrypted() const noexcept { return tls_ && !dead_ && tls_->has_decrypted(); }
  /// Reads a limited number of times. `waste` receives bytes that have no destination.
  Outcome read(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;

  void kill() noexcept {
    dead_ = true;
    tls_.reset();
    socket_.reset();
  }

 private:
  /// The largest frame that is received into the buffer. A message of up to 8 KiB takes one read and one short copy.
  static constexpr std::size_t gathered_bytes = 8 * 1024 + 256;
  /// As recvmsg(2) and send(2) of these parts.
  ssize_t receive(iovec* parts, std::size_t count) noexcept;
  void attempt_failed(int error) noexcept;
  ssize_t transmit(iovec* parts, std::size_t count) noexcept;
  Outcome read_once(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;
  /// Reports the complete frames in the buffer. Returns false if they aren't from this job.
  bool take_frames(am::LinkUser& user) noexcept;
  bool begin_large(am::LinkUser& user, const am::Message& message, std::size_t there) noexcept;

  base::UniqueFd socket_;
  int rank_ = -1;
  bool open_ = false;
  bool dead_ = false;
  std::vector<Candidate> candidates_;
  std::size_t next_candidate_ = 0;
  Patience patience_;
  Bbr bbr_ = Bbr::replace;
  const base::TlsKey* key_ = nullptr;
  std::optional<base::Tls> tls_;
  std::int64_t connect_until_ = 0;
  std::int64_t give_up_at_ = 0;  // 0: no attempt yet
  // Of the addresses tried in this round:
  bool later_ = false;    // one may answer later
  bool refused_ = false;  // one refused the connection: its machine is there, the peer isn't
  int error_ = 0;

  am::Sending* current_ = nullptr;
  std::uint64_t written_ = 0;  // bytes of the frame

  bool large_ = false;    // in the middle of a large message; then the buffer is empty
  am::Message message_;   // header of the large message
  std::uint64_t at_ = 0;  // bytes of the large message that were read
  std::size_t begin_ = 0, end_ = 0;
  std::array<std::byte, gathered_bytes> buffer_;
};

/// True if a socket whose congestion control is `current` should use reno. bbr paces for long paths: on loopback or
/// within one network a transfer with bbr takes 1.2 to 4 times as long.
bool prefers_reno(std::string_view current, Distance distance, Bbr bbr) noexcept;

/// Sets the options of every TCP socket: TCP_NODELAY, reno instead of bbr if prefers_reno(), and to other machines
/// keepalive probes and repetitions that let the connection outlive an outage shorter than `lost_host_s`.
void prepare(int fd, Distance distance, Bbr bbr, int lost_host_s) noexcept;

}  // namespace hmc::transport::tcp
