// Connection: one socket to a peer, with its partly written and partly read frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/message.hpp"
#include "runtime/transport/am/tcp/addresses.hpp"

namespace hmc::transport::tcp {

/// Time limits for a connection attempt: for each address while there is another one to try, and for the last one. TCP
/// repeats its SYN after 1, 3, 7 and 15 seconds.
struct Patience {
  std::int64_t each_ns = 3'000'000'000;
  std::int64_t last_ns = 30'000'000'000;
  /// How long the higher of two ranks waits for a connection from the lower one before it connects itself.
  std::int64_t call_ns = 1'000'000;
};

/// replace: a socket to a near peer whose congestion control is bbr uses reno. keep: it stays bbr.
enum class Bbr : std::uint8_t { replace, keep };

/// The bytes on the socket are frames: a length, a Message, and as many bytes as the length says (contiguous in
/// Sending). A small frame is received into a buffer and reported complete; the bytes of a large one are read directly
/// to their destination. Threads: under AmWire's lock.
class Connection {
 public:
  enum class Outcome : std::uint8_t {
    idle,    ///< no bytes were available
    moved,   ///< bytes were read; no more are available, or enough for this round
    more,    ///< bytes were read; more may be available
    ended,   ///< the peer has closed the connection, or it broke
    strange  ///< the bytes are not a frame of this job
  };

  /// An outgoing connection, not yet connected.
  Connection(int rank, std::vector<Candidate> ways, Patience patience, Bbr bbr = Bbr::replace)
      : rank_(rank), ways_(std::move(ways)), patience_(patience), bbr_(bbr) {}
  /// An accepted connection; its first message shows its rank.
  explicit Connection(base::UniqueFd socket) : socket_(std::move(socket)), open_(true) {}

  int fd() const noexcept { return socket_.get(); }
  int rank() const noexcept { return rank_; }
  bool open() const noexcept { return open_; }
  bool dead() const noexcept { return dead_; }
  std::string describe() const;

  // ---- connecting
  /// Waits a short time for a connection from the peer, before the first attempt.
  void await_call() noexcept;
  bool awaits_call() const noexcept { return !open_ && !dead_ && next_way_ == 0; }
  /// Starts an attempt with the next address; false: there is none left, and error() is that of the last one.
  bool connect_next() noexcept;
  /// After the socket became writable: true if it is connected.
  bool connected() noexcept;
  bool overdue(std::int64_t now) const noexcept { return !open_ && !dead_ && now >= connect_until_; }
  void timed_out() noexcept;
  /// The errno of the last connection attempt, or of the read that ended the connection; 0: the peer closed it.
  int error() const noexcept { return error_; }

  // ---- writing
  bool writes() const noexcept { return current_ != nullptr; }
  am::Sending* current() const noexcept { return current_; }
  /// Starts to write `record`. ok: all of it is written; in_progress: a part; otherwise the failure.
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
  /// True if there are bytes that the peer's kernel hasn't acknowledged, or that aren't written.
  bool has_unsent() const noexcept;
  void end_writing() noexcept;
  bool ending = false;

  // ---- reading
  /// Reads up to a few times. `waste` receives bytes without a destination.
  Outcome read(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;

  void kill() noexcept {
    dead_ = true;
    socket_.reset();
  }

 private:
  /// The largest frame that is received into the buffer: a message of up to 8 KiB takes one read and one short copy.
  static constexpr std::size_t gathered_bytes = 8 * 1024 + 256;
  Outcome read_once(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;
  /// Reports the complete frames in the buffer; false: they are not of this job.
  bool take_frames(am::LinkUser& user) noexcept;
  bool begin_large(am::LinkUser& user, const am::Message& message, std::size_t there) noexcept;

  base::UniqueFd socket_;
  int rank_ = -1;
  bool open_ = false;
  bool dead_ = false;
  std::vector<Candidate> ways_;
  std::size_t next_way_ = 0;
  Patience patience_;
  Bbr bbr_ = Bbr::replace;
  std::int64_t connect_until_ = 0;
  int error_ = 0;

  am::Sending* current_ = nullptr;
  std::uint64_t written_ = 0;  // bytes of the frame

  bool large_ = false;    // in the middle of a large message; then the buffer is empty
  am::Message message_;   // header of the large message
  std::uint64_t at_ = 0;  // bytes of it that were read
  std::size_t begin_ = 0, end_ = 0;
  std::array<std::byte, gathered_bytes> buffer_;
};

/// True if a socket whose congestion control is `current` should use reno. bbr paces for long paths: on loopback or
/// within one network a transfer takes 1.2 to 4 times as long with it.
bool prefers_reno(std::string_view current, Distance distance, Bbr bbr) noexcept;

/// Sets the options of every TCP socket: no delay of small segments, reno in place of bbr where `prefers_reno` says so,
/// and keepalive probes to other machines.
void prepare(int fd, Distance distance, Bbr bbr) noexcept;

}  // namespace hmc::transport::tcp
