// Error paths of the verbs, with complete error texts. A successful call doesn't run this code, except check_word and
// check_strided.
#include <fmt/format.h>

#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

namespace {

ErrorDetail detail_of(const Fabric& fabric, Code code, const char* operation, int rank, std::uint64_t offset,
                      std::uint64_t bytes, std::string message) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.rank = fabric.rank;
  detail.peer = rank;
  detail.offset = offset;
  detail.size = bytes;
  detail.has_extent = true;
  detail.message = std::move(message);
  return detail;
}

const char* sign_of(Cmp compare) noexcept {
  switch (compare) {
    case Cmp::eq: return "==";
    case Cmp::ne: return "!=";
    case Cmp::lt: return "<";
    case Cmp::le: return "<=";
    case Cmp::gt: return ">";
    case Cmp::ge: return ">=";
  }
  return "?";
}

}  // namespace

void WindowCore::refuse_comparison(const char* operation, std::uint64_t offset, Cmp compare) const {
  throw Error(detail_of(*fabric_, Code::invalid_argument, operation, -1, offset, 8,
                        fmt::format("there is no comparison {}", static_cast<int>(compare))));
}

void WindowCore::throw_wait(const base::Status& status, std::uint64_t offset, Cmp compare, std::uint64_t value,
                            std::uint64_t seen) const {
  const CallSite call{"wait_until", -1, offset, 8, true};
  if (status.code != Code::timeout) throw_status(*fabric_, status, call);
  const std::string text = fmt::format(
      "the deadline passed: waited until the word at offset {} of window {} is {} {}; the last value seen is {}",
      offset, id_, sign_of(compare), value, seen);
  base::Status timeout = status;
  timeout.what = text.c_str();
  throw_status(*fabric_, timeout, call);
}

std::string WindowCore::name_of_rank(int rank) const {
  return team_ == nullptr ? fmt::format("rank {}", rank)
                          : fmt::format("team rank {} (world rank {})", rank, team_->world_rank(rank));
}

void WindowCore::refuse_closed(const char* operation) const {
  if (fabric_->is_forked()) base::throw_forked(operation, fabric_->rank);
  ErrorDetail detail;
  detail.code = Code::closed;
  detail.operation = operation;
  detail.rank = fabric_->rank;
  detail.message = "the window is closed";
  throw Error(std::move(detail));
}

void WindowCore::refuse(const char* operation, int rank, std::uint64_t offset, const void* local,
                        std::size_t bytes) const {
  if (fabric_->is_forked()) base::throw_forked(operation, fabric_->rank);
  if (!open_) {
    throw Error(detail_of(*fabric_, Code::closed, operation, rank, offset, bytes, "the window is closed"));
  }
  if (static_cast<std::size_t>(rank) >= peers_.size()) {
    throw Error(detail_of(*fabric_, Code::bad_rank, operation, rank, offset, bytes,
                          fmt::format("there is no rank {} in a team of {}", rank, peers_.size())));
  }
  const WindowPeer& peer = peers_[static_cast<std::size_t>(rank)];
  if (bytes > peer.bytes || offset > peer.bytes - bytes) {
    throw Error(detail_of(
        *fabric_, Code::out_of_range, operation, peer.world, offset, bytes,
        fmt::format("offset + size lies beyond the {} bytes of {}'s window", peer.bytes, name_of_rank(rank))));
  }
  throw Error(detail_of(*fabric_, Code::invalid_argument, operation, peer.world, offset, bytes,
                        local == nullptr ? "the local pointer is null, and the size isn't 0" : "bad argument"));
}

const WindowPeer& WindowCore::check_word(const char* operation, int rank, std::uint64_t offset,
                                         std::size_t width) const {
  const WindowPeer& peer = check(operation, rank, offset, this, width);
  if (offset % width != 0) [[unlikely]] {
    throw Error(detail_of(*fabric_, Code::misaligned, operation, peer.world, offset, width,
                          fmt::format("a word of {} bytes must lie at a multiple of {}", width, width)));
  }
  return peer;
}

const WindowPeer& WindowCore::check_strided(const char* operation, int rank, std::uint64_t offset, const void* local,
                                            const Strides& strides) const {
  if (strides.rows == 0 || strides.row_bytes == 0) return check(operation, rank, offset, local, 0);
  if (strides.local_pitch < strides.row_bytes || strides.remote_pitch < strides.row_bytes) {
    throw Error(detail_of(*fabric_, Code::invalid_argument, operation, peer(operation, rank).world, offset,
                          strides.row_bytes,
                          fmt::format("a pitch ({} local, {} remote) is shorter than a row of {} bytes",
                                      strides.local_pitch, strides.remote_pitch, strides.row_bytes)));
  }
  std::size_t extent = 0;
  const bool wraps = __builtin_mul_overflow(strides.rows - 1, strides.remote_pitch, &extent) ||
                     __builtin_add_overflow(extent, strides.row_bytes, &extent);
  return check(operation, rank, offset, local, wraps ? SIZE_MAX : extent);
}

}  // namespace hmc::rma
