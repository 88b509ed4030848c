// Messenger: the two-sided messages of one rank, of all teams of a job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hmc/message.hpp>
#include <hmc/request.hpp>

#include "runtime/base/wait.hpp"
#include "runtime/device/host_copies.hpp"
#include "runtime/p2p/layout.hpp"
#include "runtime/p2p/matching.hpp"
#include "runtime/p2p/ring.hpp"
#include "runtime/progress/started_operations.hpp"
#include "runtime/rma/begin.hpp"
#include "runtime/rma/team_core.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::p2p {

using Call = rma::MessageCall;

enum class Stage : std::uint8_t {
  queued,     ///< a send that waits for room for its header
  sending,    ///< a rendezvous send that waits for room for further pieces
  published,  ///< a rendezvous send that waits for an answer
  posted,     ///< a receive without a message
  arriving,   ///< a receive whose message arrives in pieces through the ring
  granting,   ///< a receive whose message arrives in pieces through slots
  over,
};

struct Peer;

/// A send or receive in flight.
struct Operation {
  Stage stage = Stage::over;
  bool is_send = false;
  bool is_held = false;  ///< the call that has started it releases it; else its completion, or the test of a failure
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t team = 0;
  std::int32_t source = -1;  ///< send: this rank in the team
  std::int32_t tag = 0;
  Peer* peer = nullptr;  ///< null: a receive from any source
  std::uint64_t ticket = 0;
  std::uint64_t order = 0;  ///< of posted receives
  base::Status outcome;
  MessageStatus got;
  int got_from = -1;  ///< world rank
  MessageStatus* status = nullptr;
  std::unique_ptr<device::HostCopies> copies;
  Remote remote{};            ///< send: where the bytes are; arriving, granting: of the matched message
  std::uint64_t total = 0;    ///< bytes of the matched message
  std::uint64_t granted = 0;  ///< of these: may be sent in pieces
  std::uint64_t moved = 0;    ///< of these: were sent, or have arrived
  std::array<transport::Ticket, 2 * Layout::slots> pieces{};  ///< puts in flight
  Operation* next = nullptr;
  bool is_under_way() const noexcept { return stage != Stage::over; }
};

/// An answer to a peer.
struct Control {
  Kind kind;
  std::uint64_t bytes;
  std::array<std::uint64_t, 4> words;
};

/// What this rank knows of another rank, from the first message on.
struct Peer {
  int world = -1;
  std::byte* area = nullptr;  ///< the peer's Layout, if this rank can store into it
  transport::Channel* channel = nullptr;
  int wire = 0;
  bool announced = false;
  bool busy = false;  ///< in busy_
  bool revoked = false;
  // to the peer
  RingWriter ring;
  std::unique_ptr<std::byte[]> copy_of_ring;  ///< from which the wire puts
  std::uint64_t sent_cost = 0;                ///< of all eager messages and early bytes
  std::uint64_t matched_cost = 0;             ///< of those that the peer has matched, as far as known
  Fifo<Operation> waiting;
  std::vector<Control> controls;
  std::vector<transport::Ticket> puts;  ///< of records, in flight on the wire
  // from the peer
  RingReader inbox;
  std::uint64_t matched = 0, returned_matched = 0;
  std::uint64_t credit = 0;  ///< source of a put on the wire: `matched`
  transport::Ticket credit_put = transport::done;
  Fifo<Unexpected> unexpected;
  Fifo<Operation> posted;
  Fifo<Operation> arriving;
};

/// A slot of this rank, for a piece from another node.
struct Slot {
  Operation* operation = nullptr;  ///< null: free
  std::uint64_t at = 0;            ///< in the message
  std::uint64_t bytes = 0;
  std::uint64_t stamp = 0;
  bool is_direct = false;
  rma::DirectReceive direct;
};

/// Sends.
///  - eager: the bytes go into the receiver's ring with the header. The send is complete.
///  - rendezvous: the header goes into the ring. On a node the bytes follow in pieces through the ring: the first
///    ones at once, the rest when the receiver answers `grant`. From a window the receiver copies them itself, and
///    answers `finished`. Between nodes it grants slots of its own memory, and the sender puts pieces there.
///
/// Flow control. A send without room in the ring waits (isend: stays in flight), in order. The receiver moves messages
/// without a receive out of the ring, so a ring never blocks a later message that has a receive. Their memory is
/// bounded: if the eager messages that no receive has matched exceed a budget per pair, the sender chooses rendezvous.
///
/// Progress and threads: see StartedOperations. A blocking call without operations in flight takes no lock.
///
/// Failure. After a death or an abort all operations end, and all later calls throw that error. After a timeout of a
/// rendezvous send the pair has failed in this direction, because the receiver may be reading the buffer, or has a part
/// of the message.
class Messenger final : public rma::Messages, public progress::StartedOperations<Operation>, public base::Watch {
 public:
  /// `window`: of the world; it has this rank's Layout at `offset`, and outlives this object.
  Messenger(rma::TeamCore& world, const std::shared_ptr<rma::WindowCore>& window, std::uint64_t offset,
            const Layout& layout);
  ~Messenger() override;
  /// Waits until no peer needs this rank, then ends the operations in flight. Before the world's barrier of the close.
  void close() override;
  void report_unreceived() noexcept override;

  // ---- the calls. The arguments are checked. Throw Error.
  void send(const Call& call) override;
  MessageStatus recv(const Call& call) override;
  Request isend(const Call& call) override;
  Request irecv(const Call& call, MessageStatus* status) override;
  MessageStatus sendrecv(const Call& out, const Call& in) override;
  MessageStatus probe(const Call& call) override;
  bool iprobe(const Call& call, MessageStatus& status) override;

  // ---- for waits, requests and the progress thread
  bool is_quick() const noexcept override { return true; }
  void expired(std::uint64_t) noexcept override {}
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  std::string text_at_timeout() override { return text_of_unmatched(); }
  base::Watch* watch() noexcept override { return this; }
  bool is_transfer() const noexcept override { return true; }
  int step(By who) noexcept override;
  bool goes_on() const noexcept override { return in_flight_ > 0 || !busy_.empty(); }
  bool waits_for_stream() const noexcept override { return false; }
  void end() noexcept override;
  base::Status look(const base::WaitNote& note, std::int64_t now) noexcept override;

 private:
  const base::Status& failed_by() const noexcept override { return failure_; }
  void fail_all(const base::Status& status) noexcept override;
  bool is_idle() const noexcept override { return !goes_on(); }
  base::Status outcome_of(Operation& operation, std::uint64_t ticket) noexcept override;
  /// Cancels a receive that no message has matched. Any other operation continues, and its buffer stays in use.
  void give_up(Operation& operation) noexcept override;
  base::Status abort_dropped(const Operation& operation, const char* call) noexcept override;
  Peer& peer_of(int world);
  void mark_busy(Peer& peer) noexcept;
  void require_usable(const Call& call) const;
  Peer* begin(const Call& call);

  // sends
  bool send_at_once(const Call& call);
  Operation& start_send(const Call& call);
  bool write_record(Peer& peer, Kind kind, const Header& header, const void* payload) noexcept;
  std::uint64_t unmatched_room(Peer& peer, std::uint64_t wanted) noexcept;
  bool try_eager(Peer& peer, std::uint32_t team, int source, int tag, const void* data, std::size_t bytes) noexcept;
  void put_word(Peer& peer, std::uint64_t offset, std::uint64_t value) noexcept;
  void wake(const Peer& peer) const noexcept;
  void answer(Peer& peer, const Control& control) noexcept;
  int push(Peer& peer) noexcept;
  bool push_send(Peer& peer) noexcept;
  void take_grant(Peer& peer, const Header& grant, const std::uint64_t* words) noexcept;
  int complete_pieces() noexcept;

  // receives
  bool receive_at_once(const Call& call, Peer* from, MessageStatus& status);
  Operation& start_receive(const Call& call, MessageStatus* status);
  void find_new_senders() noexcept;
  int receive_from(Peer& peer) noexcept;
  void take_message(Peer& peer, const Header& record) noexcept;
  void take_piece(Peer& peer, const Header& record) noexcept;
  Operation* match_posted(Peer& peer, const Envelope& message) noexcept;
  Unexpected* find_unexpected(Peer* only, const Wanted& wanted) noexcept;
  void note_matched(Peer& peer, std::uint64_t bytes) noexcept;
  void return_credit(Peer& peer) noexcept;
  void deliver(Operation& receive, Peer& peer, const Envelope& message, const std::byte* data,
               std::uint64_t arrived) noexcept;
  bool copy_from_sender(const Peer& peer, const Envelope& message, std::byte* to) noexcept;
  void receive_pieces(Operation& receive, Peer& peer, const Envelope& message, std::uint64_t arrived) noexcept;
  /// Not ok if a send of the peer was given up: this rank may have read other bytes than those that were sent.
  base::Status revocation(const Peer& peer) const noexcept;
  bool is_revoked(const Peer& peer) const noexcept { return !revocation(peer).ok(); }
  void give_slots() noexcept;
  int receive_slots() noexcept;

  // operations
  Operation& open(const Call& call, bool is_send);
  std::string text_of_unmatched();
  bool is_stuck(const Peer* only, const rma::TeamCore& team) const noexcept;
  base::Status complete_puts() noexcept;
  void finish(Operation& operation, const base::Status& status) noexcept;
  void release(Operation& operation) noexcept;
  void cancel(Operation& operation) noexcept;
  MessageStatus wait_for(const Call& call, Operation& operation);
  Request leave_in_flight(Operation& operation, const Call& call);
  [[noreturn]] void throw_error(const base::Status& status, const char* name, int world, std::size_t bytes);
  [[noreturn]] void throw_stuck(const Call& call);
  void end_send(std::uint64_t ticket, Request& sent) noexcept;

  rma::Fabric& fabric_;
  rma::WindowCore& window_;
  std::weak_ptr<rma::WindowCore> shared_window_;
  std::uint64_t offset_;
  Layout layout_;
  std::byte* area_;          // this rank's
  std::size_t payload_max_;  ///< of a record: the largest eager message, and the largest piece
  std::uint64_t unmatched_max_;

  std::vector<std::unique_ptr<Peer>> peers_;  // by world rank; null: no message yet
  std::vector<Peer*> senders_;                // peers that have announced a message
  std::size_t next_sender_ = 0;      // in senders_: where a receive from any source starts, so that all get a turn
  std::vector<Peer*> busy_;          // peers with records to send, or puts in flight
  std::vector<Operation*> putting_;  // sends with puts of pieces in flight
  Fifo<Operation> posted_any_;
  Fifo<Operation> wanting_slots_;
  std::array<Slot, Layout::slots> slots_;
  std::uint64_t slot_stamps_ = 0;
  int slots_in_use_ = 0;
  std::uint64_t orders_ = 0;
  std::size_t unexpected_ = 0;
  std::size_t in_flight_ = 0;
  bool by_owner_ = true;
  base::Status failure_;

  // Of the operation whose failure is being reported.
  struct Failed {
    bool is_truncation = false;
    std::size_t capacity = 0;
    MessageStatus got;
    int world = -1;
  };
  Failed failed_;
  bool threw_truncation_ = false;  // the last error that was thrown
  bool is_closed_ = false;         // by close(), without a failure
  std::uint64_t moves_seen_ = 0;   // in long waits
  std::int64_t moved_at_ = 0;
  int closing_peer_ = -1;
  std::int64_t closing_since_ = 0;
};

}  // namespace hmc::p2p
