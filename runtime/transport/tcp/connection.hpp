// Connection: one socket to a peer, with what is half written and half read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/message.hpp"
#include "runtime/transport/tcp/addresses.hpp"

namespace hmc::transport::tcp {

/// How long an address may take to answer while there is another to try; and the last one, as TCP asks again after 1,
/// 3, 7 and 15 seconds.
struct Patience {
  std::int64_t each_ns = 3'000'000'000;
  std::int64_t last_ns = 30'000'000'000;
  /// How long the higher of two ranks waits for the lower one to make their connection, before it does so itself.
  std::int64_t call_ns = 1'000'000;
};

/// What happens to a socket whose congestion control is bbr and whose peer is near. keep: it stays bbr.
enum class Bbr : std::uint8_t { replace, keep };

/// Bytes on the socket are frames: a length, a Message, and so many bytes after it (Sending has them in a row). A small
/// frame is gathered in a buffer and told whole; the bytes of a large one are read to where they belong. Under the
/// engine's lock.
class Connection {
 public:
  enum class Outcome : std::uint8_t {
    idle,    ///< nothing was there
    moved,   ///< something was, and that was all, or enough for a turn
    more,    ///< something was, and there may be more
    ended,   ///< the other side has closed it, or it broke
    strange  ///< what came is no frame of this job
  };

  /// Of this side's making: it may still have to connect.
  Connection(int rank, std::vector<Candidate> ways, Patience patience, Bbr bbr = Bbr::replace)
      : rank_(rank), ways_(std::move(ways)), patience_(patience), bbr_(bbr) {}
  /// Accepted: whose it is, its first message says.
  explicit Connection(base::UniqueFd socket) : socket_(std::move(socket)), open_(true) {}

  int fd() const noexcept { return socket_.get(); }
  int rank() const noexcept { return rank_; }
  bool open() const noexcept { return open_; }
  bool dead() const noexcept { return dead_; }
  std::string describe() const;

  // ---- connecting
  /// Instead of the first attempt, for a while: the peer may be about to make a connection.
  void await_call() noexcept;
  bool awaits_call() const noexcept { return !open_ && !dead_ && next_way_ == 0; }
  /// Begins with the next address; false: there is none left. `error` is the last one's.
  bool connect_next() noexcept;
  /// After the socket became writable: whether it is connected.
  bool connected() noexcept;
  bool overdue(std::int64_t now) const noexcept { return !open_ && !dead_ && now >= connect_until_; }
  void timed_out() noexcept;
  /// Of the last attempt to connect, or of the read that ended it; 0: the other side closed it.
  int error() const noexcept { return error_; }

  // ---- writing
  bool writes() const noexcept { return current_ != nullptr; }
  am::Sending* current() const noexcept { return current_; }
  /// Takes `record` and writes what the socket takes. ok: all of it; in_progress; or broken.
  base::Status write(am::Sending& record) noexcept;
  /// Takes it for write_on().
  void hold(am::Sending& record) noexcept {
    current_ = &record;
    written_ = 0;
  }
  /// Goes on with what it has.
  base::Status write_on() noexcept;
  /// What it has and hasn't written, given up.
  am::Sending* drop_current() noexcept { return std::exchange(current_, nullptr); }
  bool wants_writable = false;  ///< as the poll set knows it
  /// Bytes that the peer's kernel doesn't have yet.
  bool has_unsent() const noexcept;
  void end_writing() noexcept;
  bool ending = false;

  // ---- reading
  /// One or a few reads. `waste` takes what has no place.
  Outcome read(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;

  void kill() noexcept {
    dead_ = true;
    socket_.reset();
  }

 private:
  /// As long as this a frame is gathered, so a message of up to 8 KiB comes with one read and one short copy.
  static constexpr std::size_t gathered_bytes = 8 * 1024 + 256;
  Outcome read_once(am::LinkUser& user, std::vector<std::byte>& waste) noexcept;
  /// Tells of the frames that are there; false: strange.
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
  std::uint64_t written_ = 0;  // of the frame

  bool large_ = false;    // in the middle of one, and then the buffer is empty
  am::Message message_;   // of the large one
  std::uint64_t at_ = 0;  // of its bytes
  std::size_t begin_ = 0, end_ = 0;
  std::array<std::byte, gathered_bytes> buffer_;
};

/// True if a socket whose congestion control is `current` changes to reno. bbr paces for long paths: on loopback or
/// within one network the same transfer takes 1.2 to 4 times as long with it.
bool prefers_reno(std::string_view current, Distance distance, Bbr bbr) noexcept;

/// Sets the options of every TCP socket: no delay of small segments, reno in place of bbr where `prefers_reno` says so,
/// and keepalive probes to other machines.
void prepare(int fd, Distance distance, Bbr bbr) noexcept;

}  // namespace hmc::transport::tcp
