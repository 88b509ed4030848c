// QueuePair: one reliable connection, and the records of its requests in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/transport/rdma/device.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport::rdma {

/// The peer's half of a connection, from the handshake.
struct Remote {
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;
  std::uint8_t mtu = IBV_MTU_1024;
  std::uint8_t reads = 1;  ///< READs and atomics that the peer accepts at once
};

/// The device repeats a request that isn't acknowledged this many times. Soft-RoCE repeats forever with 7.
inline constexpr int retries = 6;
/// The device's timeout of an acknowledgement: 4.096 us * 2^result. It is the longest with which 1 + retries attempts
/// end within `lost_host_s`, and at least 0.27 s: a shorter one would repeat requests that are only slow.
std::uint8_t acknowledge_timeout(int lost_host_s) noexcept;

inline std::uint64_t number_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

/// A request without flags. `part` may be null.
inline ibv_send_wr make_request(ibv_wr_opcode opcode, ibv_sge* part, std::uint64_t remote, std::uint32_t key) noexcept {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.sg_list = part;
  request.num_sge = part != nullptr ? 1 : 0;
  request.wr.rdma = {remote, key};
  return request;
}

/// The effect of a completed request.
struct Record {
  enum class Kind : std::uint8_t { none, ticket, copy_out, atomic, loop };
  Kind kind = Kind::none;
  bool is_stripe = false;
  std::uint16_t slot = 0;            ///< 1 + the index of the bounce buffer that becomes free; 0: none
  std::uint32_t bytes = 0;           ///< of copy_out
  std::byte* destination = nullptr;  ///< of copy_out
  Ticket ticket = done;
};

/// The send queue is a ring: request number n has record n % depth. The device completes the requests of one queue pair
/// in order, so the completion of a signalled request completes all earlier ones. At least one request in a quarter of
/// the queue is signalled, so a full queue always empties. A request on an idle queue pair is signalled too: then the
/// flush of a single put posts no further request.
/// Threads: created and connected under Connections' lock, by the wire or by Connections' thread. Afterwards it is used
/// under the wire's lock.
class QueuePair {
 public:
  static constexpr std::uint32_t wanted_depth = 256;
  static constexpr std::uint32_t wanted_inline = 220;

  /// Throws Error{unavailable}.
  QueuePair(const Device& device, ibv_cq* completions, std::uint64_t id);

  std::uint32_t number() const noexcept { return pair_->qp_num; }
  std::uint32_t first_packet() const noexcept { return first_packet_; }
  /// `lost_host_s`: HMC_LOST_HOST_S. Throws Error{unavailable}.
  void connect(const Device& device, const Remote& remote, int lost_host_s);
  /// All requests in flight fail with completions.
  void fail() noexcept;

  std::uint32_t depth() const noexcept { return depth_; }
  std::uint32_t inline_max() const noexcept { return inline_max_; }
  bool has_room(std::uint32_t requests) const noexcept { return head_ - tail_ + requests <= depth_; }
  bool is_idle() const noexcept { return head_ == tail_; }
  /// True if the last request in flight is signalled: its completion completes all requests in flight.
  bool is_covered() const noexcept { return is_idle() || last_signalled_ == head_; }

  /// Adds a request; post() then posts it. The caller has checked has_room(). `request` may have IBV_SEND_INLINE; add()
  /// sets the other flags and the id.
  void add(ibv_send_wr& request, const Record& record, bool signal) noexcept;
  /// Makes the completion of the last request, if it is signalled and has no ticket, also complete `ticket`. Returns
  /// false otherwise.
  bool attach(Ticket ticket) noexcept {
    Record& last = records_[(head_ - 1) % depth_];
    if (is_idle() || last_signalled_ != head_ || last.kind != Record::Kind::none) return false;
    last.kind = Record::Kind::ticket;
    last.ticket = ticket;
    return true;
  }
  /// Posts the requests that were added since the last post(), linked by `next`. Returns 0 or errno.
  int post(ibv_send_wr& first) noexcept {
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(pair_.get(), &first, &bad);
  }
  /// The id of the last request of add().
  std::uint64_t last_id() const noexcept { return id_ | (head_ - 1); }
  /// The next request starts after the READs and atomics in flight.
  void fence() noexcept { fences_next_ = fences_next_ || static_cast<std::int32_t>(last_read_ - tail_) > 0; }

  /// The registered word into which the device writes the result of the next request.
  ibv_sge next_result() const noexcept {
    return {reinterpret_cast<std::uint64_t>(&results_[head_ % depth_]), 8, results_registration_->lkey};
  }

  /// Calls `effect(record, result, is_last)` for every request that the completion with this id completes, oldest
  /// first. The record's place in the queue is free before its effect is called.
  template <typename Effect> void complete(std::uint64_t id, Effect&& effect) noexcept {
    const auto last = static_cast<std::uint32_t>(id);
    while (static_cast<std::int32_t>(last - tail_) >= 0) {
      const Record record = records_[tail_ % depth_];
      const std::uint64_t result = results_[tail_ % depth_];
      ++tail_;
      effect(record, result, last == tail_ - 1);
    }
  }

 private:
  std::vector<std::uint64_t> results_;
  Owned<ibv_mr> results_registration_;
  Owned<ibv_qp> pair_;
  std::vector<Record> records_;
  std::uint64_t id_ = 0;  // the upper half of the requests' ids
  std::uint32_t depth_ = 0;
  std::uint32_t inline_max_ = 0;
  std::uint32_t first_packet_ = 0;
  std::uint32_t head_ = 0;            // the number of the next request
  std::uint32_t tail_ = 0;            // the number of the oldest request in flight
  std::uint32_t last_signalled_ = 0;  // 1 + the number of the last signalled request
  std::uint32_t last_read_ = 0;       // 1 + the number of the last READ or atomic
  bool fences_next_ = false;
};

}  // namespace hmc::transport::rdma
