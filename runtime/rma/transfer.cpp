// All forms of put and get.
#include <array>

#include <fmt/format.h>

#include "runtime/rma/device_access.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

using transport::Ticket;

void WindowCore::put_far(const WindowPeer& peer, int rank, std::uint64_t offset, const void* source,
                         std::size_t bytes) {
  if (must_stage("put", peer, source)) return devices().put_staged("put", rank, offset, source, bytes);
  const CallSite call{"put", peer.world, offset, bytes, true};
  Ticket ticket = transport::done;
  require(*fabric_, peer.channel->put(offset, source, bytes, ticket), call);
  ++fabric_->counters.puts_wire;
  wait_ticket(peer, ticket, call, base::Activity::put);
}

void WindowCore::copy_in(const char* operation, const WindowPeer& peer, std::uint64_t offset, const void* source,
                         std::size_t bytes) {
  if (memory::is_host_accessible(source)) return transport::store_bytes(peer.direct + offset, source, bytes);
  devices().copy_in(operation, peer, offset, source, bytes);
}

void WindowCore::copy_out(const char* operation, const WindowPeer& peer, std::uint64_t offset, void* destination,
                          std::size_t bytes) {
  if (memory::is_host_accessible(destination)) return transport::load_bytes(destination, peer.direct + offset, bytes);
  devices().copy_out(operation, peer, offset, destination, bytes);
}

void WindowCore::get_far(const WindowPeer& peer, int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  if (must_stage("get", peer, destination)) return devices().get_staged("get", rank, offset, destination, bytes);
  const CallSite call{"get", peer.world, offset, bytes, true};
  Ticket ticket = transport::done;
  require(*fabric_, peer.channel->get(offset, destination, bytes, ticket), call);
  wait_ticket(peer, ticket, call, base::Activity::get);
}

Request WindowCore::put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  const WindowPeer& peer = check("put_nb", rank, offset, source, bytes);
  if (peer.direct != nullptr) [[likely]] {
    store("put_nb", peer, offset, source, bytes);
    note_put(peer);
    return Request("put_nb", peer.world);
  }
  if (must_stage("put_nb", peer, source)) {
    devices().put_staged("put_nb", rank, offset, source, bytes);
    return Request("put_nb", peer.world);
  }
  if (peer.on_device) return devices_->put_nb(rank, offset, source, bytes);
  Ticket ticket = transport::done;
  require(*fabric_, peer.channel->put(offset, source, bytes, ticket), {"put_nb", peer.world, offset, bytes, true});
  ++fabric_->counters.puts_wire;
  if (ticket == transport::done) return Request("put_nb", peer.world);
  return Request(weak_from_this(), peer.wire, ticket, "put_nb", peer.world);
}

Request WindowCore::get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  const WindowPeer& peer = check("get_nb", rank, offset, destination, bytes);
  if (peer.direct != nullptr) [[likely]] {
    load("get_nb", peer, offset, destination, bytes);
    return Request("get_nb", peer.world);
  }
  if (must_stage("get_nb", peer, destination)) {
    devices().get_staged("get_nb", rank, offset, destination, bytes);
    return Request("get_nb", peer.world);
  }
  if (peer.on_device) return devices_->get_nb(rank, offset, destination, bytes);
  Ticket ticket = transport::done;
  require(*fabric_, peer.channel->get(offset, destination, bytes, ticket), {"get_nb", peer.world, offset, bytes, true});
  if (ticket == transport::done) return Request("get_nb", peer.world);
  return Request(weak_from_this(), peer.wire, ticket, "get_nb", peer.world);
}

namespace {

/// Executes many transfers on one wire, with a bounded number in flight. If one fails, the transfers in flight are
/// abandoned.
class Pipeline {
 public:
  Pipeline(transport::Wire& wire) noexcept : wire_(wire) {}
  ~Pipeline() {
    for (; begin_ < end_; ++begin_) wire_.abandon(flight_[begin_ % flight_.size()]);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  template <typename Issue, typename Wait> void run(std::size_t count, Issue&& issue, Wait&& wait) {
    while (end_ < count) {
      if (end_ - begin_ == flight_.size()) wait_first(wait);
      const Ticket ticket = issue(end_);
      flight_[end_++ % flight_.size()] = ticket;
    }
    while (begin_ < end_) wait_first(wait);
  }

 private:
  template <typename Wait> void wait_first(Wait& wait) {
    const Ticket first = flight_[begin_++ % flight_.size()];  // a failed wait abandons it
    wait(first);
  }

  transport::Wire& wire_;
  std::array<Ticket, 64> flight_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace

void WindowCore::put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) {
  const WindowPeer& peer = check_strided("put_strided", rank, offset, source, strides);
  if (strides.rows == 0 || strides.row_bytes == 0) return;
  const auto* const from = static_cast<const std::byte*>(source);
  if (peer.direct != nullptr) {
    for (std::size_t row = 0; row < strides.rows; ++row)
      store("put_strided", peer, offset + row * strides.remote_pitch, from + row * strides.local_pitch,
            strides.row_bytes);
    note_put(peer);
    return;
  }
  if (must_stage("put_strided", peer, source)) {
    for (std::size_t row = 0; row < strides.rows; ++row)
      devices().put_staged("put_strided", rank, offset + row * strides.remote_pitch, from + row * strides.local_pitch,
                           strides.row_bytes);
    return;
  }
  if (peer.on_device) return devices_->put_strided(rank, offset, source, strides);
  const CallSite call{"put_strided", peer.world, offset, strides.rows * strides.row_bytes, true};
  ++fabric_->counters.puts_wire;
  Pipeline(wire_of(peer))
      .run(
          strides.rows,
          [&](std::size_t row) {
            Ticket ticket = transport::done;
            require(*fabric_,
                    peer.channel->put(offset + row * strides.remote_pitch, from + row * strides.local_pitch,
                                      strides.row_bytes, ticket),
                    call);
            return ticket;
          },
          [&](Ticket ticket) { wait_ticket(peer, ticket, call, base::Activity::put); });
}

void WindowCore::get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) {
  const WindowPeer& peer = check_strided("get_strided", rank, offset, destination, strides);
  if (strides.rows == 0 || strides.row_bytes == 0) return;
  auto* const to = static_cast<std::byte*>(destination);
  if (peer.direct != nullptr) {
    for (std::size_t row = 0; row < strides.rows; ++row)
      load("get_strided", peer, offset + row * strides.remote_pitch, to + row * strides.local_pitch, strides.row_bytes);
    return;
  }
  if (must_stage("get_strided", peer, destination)) {
    for (std::size_t row = 0; row < strides.rows; ++row)
      devices().get_staged("get_strided", rank, offset + row * strides.remote_pitch, to + row * strides.local_pitch,
                           strides.row_bytes);
    return;
  }
  if (peer.on_device) return devices_->get_strided(rank, offset, destination, strides);
  const CallSite call{"get_strided", peer.world, offset, strides.rows * strides.row_bytes, true};
  Pipeline(wire_of(peer))
      .run(
          strides.rows,
          [&](std::size_t row) {
            Ticket ticket = transport::done;
            require(*fabric_,
                    peer.channel->get(offset + row * strides.remote_pitch, to + row * strides.local_pitch,
                                      strides.row_bytes, ticket),
                    call);
            return ticket;
          },
          [&](Ticket ticket) { wait_ticket(peer, ticket, call, base::Activity::get); });
}

void WindowCore::put_batch(int rank, std::span<const Put> puts) {
  // Check all entries before any transfer, so that an invalid batch has no effect.
  for (const Put& put : puts) check("put_batch", rank, put.offset, put.source, put.bytes);
  const WindowPeer& peer = check("put_batch", rank, 0, nullptr, 0);
  if (peer.direct != nullptr) {
    for (const Put& put : puts) store("put_batch", peer, put.offset, put.source, put.bytes);
    note_put(peer);
    return;
  }
  if (peer.channel == nullptr) [[unlikely]]
    refuse("put_batch", rank, 0, nullptr, 0);  // transfers of 0 bytes in a child of fork()
  if (memory::devices_present()) {             // some sources may be device memory
    for (const Put& put : puts) this->put(rank, put.offset, put.source, put.bytes);
    return;
  }
  ++fabric_->counters.puts_wire;
  Pipeline(wire_of(peer))
      .run(
          puts.size(),
          [&](std::size_t i) {
            Ticket ticket = transport::done;
            require(*fabric_, peer.channel->put(puts[i].offset, puts[i].source, puts[i].bytes, ticket),
                    {"put_batch", peer.world, puts[i].offset, puts[i].bytes, true});
            return ticket;
          },
          [&](Ticket ticket) {
            wait_ticket(peer, ticket, {"put_batch", peer.world}, base::Activity::put);
          });
}

void WindowCore::get_batch(int rank, std::span<const Get> gets) {
  for (const Get& get : gets) check("get_batch", rank, get.offset, get.destination, get.bytes);
  const WindowPeer& peer = check("get_batch", rank, 0, nullptr, 0);
  if (peer.direct != nullptr) {
    for (const Get& get : gets) load("get_batch", peer, get.offset, get.destination, get.bytes);
    return;
  }
  if (peer.channel == nullptr) [[unlikely]]
    refuse("get_batch", rank, 0, nullptr, 0);  // transfers of 0 bytes in a child of fork()
  if (memory::devices_present()) {             // some destinations may be device memory
    for (const Get& get : gets) this->get(rank, get.offset, get.destination, get.bytes);
    return;
  }
  Pipeline(wire_of(peer))
      .run(
          gets.size(),
          [&](std::size_t i) {
            Ticket ticket = transport::done;
            require(*fabric_, peer.channel->get(gets[i].offset, gets[i].destination, gets[i].bytes, ticket),
                    {"get_batch", peer.world, gets[i].offset, gets[i].bytes, true});
            return ticket;
          },
          [&](Ticket ticket) {
            wait_ticket(peer, ticket, {"get_batch", peer.world}, base::Activity::get);
          });
}

}  // namespace hmc::rma
