#include "runtime/transport/rdma/atomics.hpp"

#include <cstring>

#include "runtime/transport/load_store.hpp"

namespace hmc::transport::rdma {

namespace {

constexpr std::uint32_t most_attempts = 10'000'000;

}  // namespace

base::Status Atomics::start(Peer& peer, const Atomic& atomic, std::uint64_t address, std::uint32_t key,
                            const void* channel, void* result, Ticket& ticket) noexcept {
  Transfers& transfers = requests_.transfers();
  base::Status status = requests_.ready(peer);
  QueuePair* const pair = status.ok() ? peer.pairs.front().get() : nullptr;
  if (status.ok()) status = requests_.reserve(peer, *pair, 1);
  if (!status.ok()) [[unlikely]]
    return status;
  const bool adds = atomic.op == AtomicOp::fetch_add || atomic.op == AtomicOp::add || atomic.op == AtomicOp::fetch;
  const bool is_native = atomic.width == 8 && (adds || atomic.op == AtomicOp::compare_swap);
  if (is_native && atomic.op == AtomicOp::add) {  // the result isn't used
    ibv_sge part = pair->next_result();
    ibv_send_wr request = make_request(IBV_WR_ATOMIC_FETCH_AND_ADD, &part, 0, 0);
    request.wr.atomic = {address, atomic.operand, 0, key};
    pair->add(request, {}, false);
    requests_.post(peer, *pair, request);
    return peer.failure;
  }
  const Ticket opened = transfers.open({.peer = peer.rank, .left = 1, .channel = channel});
  if (opened == done) return no_memory(peer.rank);
  Transfer& transfer_of = *transfers.find(opened);
  transfer_of.result = returns_value(atomic.op) ? result : nullptr;
  transfer_of.width = atomic.width;
  ticket = opened;
  if (is_native) {
    ibv_sge part = pair->next_result();
    const bool swaps = atomic.op == AtomicOp::compare_swap;
    ibv_send_wr request = make_request(swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, &part, 0, 0);
    request.wr.atomic = {address,
                         swaps                          ? atomic.compare
                         : atomic.op == AtomicOp::fetch ? 0
                                                        : atomic.operand,
                         atomic.operand, key};
    pair->add(request, {.kind = Record::Kind::atomic, .ticket = opened}, true);
    requests_.post(peer, *pair, request);
    return {};
  }
  AtomicLoop& loop = transfer_of.loop;
  transfer_of.is_loop = true;
  loop.atomic = atomic;
  loop.byte = static_cast<std::uint8_t>(address % 8);
  loop.word = address - loop.byte;
  loop.rkey = key;
  ++peer.loops;
  post_loop(peer, opened);
  return {};
}

void Atomics::post_loop(Peer& peer, Ticket ticket) noexcept {
  AtomicLoop& loop = requests_.transfers().find(ticket)->loop;
  QueuePair& pair = *peer.pairs.front();
  if (chain_.peer == peer.rank && chain_.word == loop.word && chain_.number != loop.chain)
    loop.guess = chain_.value;
  else
    chain_ = {peer.rank, loop.word, 0, chain_.number + 1};
  alignas(8) std::uint64_t word = loop.guess;
  apply_atomic(loop.atomic, reinterpret_cast<std::byte*>(&word) + loop.byte);
  loop.desired = word;
  chain_.value = word;
  loop.chain = chain_.number;
  ibv_sge part = pair.next_result();
  ibv_send_wr request = make_request(IBV_WR_ATOMIC_CMP_AND_SWP, &part, 0, 0);
  request.wr.atomic = {loop.word, loop.guess, loop.desired, loop.rkey};
  pair.add(request, {.kind = Record::Kind::loop, .ticket = ticket}, true);
  requests_.post(peer, pair, request);
}

void Atomics::continue_loop(Peer& peer, Ticket ticket, std::uint64_t seen, const base::Status& status) noexcept {
  Transfer* const transfer = requests_.transfers().find(ticket);
  base::Status outcome = status;
  if (transfer != nullptr && outcome.ok()) {
    AtomicLoop& loop = transfer->loop;
    bool is_done = seen == loop.guess;
    if (!is_done) {
      loop.guess = seen;
      alignas(8) std::uint64_t word = seen;
      apply_atomic(loop.atomic, reinterpret_cast<std::byte*>(&word) + loop.byte);
      is_done = word == seen;  // the operation wouldn't change the word, so `seen` is its result
    }
    if (!is_done && !peer.failure.ok()) outcome = peer.failure;
    if (!is_done && outcome.ok() && ++loop.attempts == most_attempts)
      outcome = base::Status::failure(Code::error, "all compare-swaps of an atomic failed: other ranks change the word",
                                      peer.rank);
    // The completed request has freed its space in the queue.
    if (!is_done && outcome.ok()) return post_loop(peer, ticket);
    if (outcome.ok() && transfer->result != nullptr)
      std::memcpy(transfer->result, reinterpret_cast<const std::byte*>(&seen) + loop.byte, loop.atomic.width);
  }
  --peer.loops;
  requests_.transfers().advance(ticket, outcome);
}

}  // namespace hmc::transport::rdma
