#include "tests/fake_verbs/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fake_verbs {

bool is_read(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

namespace {

bool is_atomic(ibv_wr_opcode opcode) { return is_read(opcode) && opcode != IBV_WR_RDMA_READ; }

/// Aligned words are stored whole, in ascending order, as devices do: a CPU may wait on such a word.
void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  while (bytes > 0) {
    const bool is_word = bytes >= 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0;
    if (is_word) {
      std::uint64_t word = 0;
      if (reinterpret_cast<std::uintptr_t>(from) % 8 == 0)
        word = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from), __ATOMIC_ACQUIRE);
      else
        std::memcpy(&word, from, 8);
      // Release: pairs with the acquire load of a CPU that waits on the word.
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), word, __ATOMIC_RELEASE);
    } else {
      *to = *from;
    }
    const std::size_t step = is_word ? 8 : 1;
    to += step;
    from += step;
    bytes -= step;
  }
}

}  // namespace

void Fabric::restore() {
  settings = {{"devices", 1},        {"active", 1},       {"gids", 1},       {"atomics", 1},
              {"queue_depth", 1024}, {"inline_max", 256}, {"max_reads", 16}, {"reorder", 1},
              {"seed", 1},           {"read_delay", 0},   {"drop", 0}};
  refusals.clear();
  counts.clear();
  delays.clear();
  failures.clear();
  violations.clear();
  observer = nullptr;
  created = 0;
  random_ = 1;
}

bool Fabric::permits(const char* function) {
  if (const auto found = refusals.find(function); found != refusals.end()) {
    Refusal& refusal = found->second;
    if (refusal.after > 0) {
      --refusal.after;
    } else if (refusal.count > 0) {
      --refusal.count;
      errno = refusal.error;
      return false;
    }
  }
  ++counts[function];
  return true;
}

void Fabric::open() {
  if (live["context"]++ > 0) return;
  thread_ = std::thread([this, generation = generation_] { run(generation); });
}

void Fabric::close(std::unique_lock<std::mutex>& guard) {
  if (--live["context"] > 0) return;
  ++generation_;  // another wire may start the next thread while this one ends
  wake();
  std::thread thread = std::move(thread_);
  guard.unlock();
  thread.join();
  guard.lock();
}

Memory* Fabric::find(std::map<std::uint32_t, Memory*>& keys, std::uint32_t key, ibv_pd* domain, std::uint64_t address,
                     std::uint64_t bytes, int access) {
  const auto found = keys.find(key);
  if (found == keys.end() || found->second->pd != domain) return nullptr;
  Memory& memory = *found->second;
  const auto base = reinterpret_cast<std::uint64_t>(memory.addr);
  const bool is_inside = address >= base && bytes <= memory.length && address - base <= memory.length - bytes;
  return is_inside && (memory.access & access) == access ? &memory : nullptr;
}

void Fabric::complete(Queue& queue, const ibv_wc& completion, Pair* pair, std::uint64_t retires) {
  if (static_cast<int>(queue.completions.size()) >= queue.cqe) {
    violate("a completion queue overran");
    return;
  }
  ++counts["completions"];
  queue.completions.push_back(completion);
  queue.retires.emplace_back(pair, retires);
  if (!queue.is_armed || queue.channel == nullptr) return;
  queue.is_armed = false;
  ++queue.unacknowledged;
  static_cast<Channel*>(queue.channel)->events.push_back(&queue);
  const std::uint64_t one = 1;
  if (::write(queue.channel->fd, &one, sizeof one) != sizeof one) violate("no event");
}

void Fabric::break_pair(Pair& pair, ibv_wc_status status) {
  pair.state = IBV_QPS_ERR;
  for (Request& request : pair.requests) {
    const bool succeeded = request.state == Request::State::executed;
    if (succeeded && (request.request.send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc completion{};
    completion.wr_id = request.request.wr_id;
    completion.qp_num = pair.qp_num;
    completion.status = succeeded ? IBV_WC_SUCCESS : status;
    if (!succeeded) status = IBV_WC_WR_FLUSH_ERR;
    complete(static_cast<Queue&>(*pair.send_cq), completion, &pair, request.number + 1);
  }
  pair.requests.clear();
  for (const auto& [id, part] : pair.receives) {
    ibv_wc completion{};
    completion.wr_id = id;
    completion.qp_num = pair.qp_num;
    completion.status = IBV_WC_WR_FLUSH_ERR;
    complete(static_cast<Queue&>(*pair.recv_cq), completion, nullptr, 0);
  }
  pair.receives.clear();
}

void Fabric::run(std::uint64_t generation) {
  std::unique_lock guard(lock);
  while (generation == generation_)
    if (!step()) changed_.wait(guard);
}

std::uint32_t Fabric::choose(std::size_t count) {
  random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL + static_cast<unsigned>(settings["seed"]);
  return static_cast<std::uint32_t>((random_ >> 33) % count);
}

std::vector<std::size_t> Fabric::ready(Pair& pair) {
  std::vector<std::size_t> found;
  if (pair.qp_type != IBV_QPT_RC || pair.state != IBV_QPS_RTS) return found;
  const int delay = std::max(delays[0], delays.contains(pair.order) ? delays[pair.order] : 0);
  std::size_t deferred = 0;
  for (std::size_t i = 0; i < pair.requests.size(); ++i) {
    Request& request = pair.requests[i];
    const ibv_wr_opcode opcode = request.request.opcode;
    if (request.state == Request::State::executed) continue;
    if (request.state == Request::State::waiting) {
      if (!has_waited(pair, request, delay)) break;
      const bool is_fenced = (request.request.send_flags & IBV_SEND_FENCE) != 0;
      if (deferred > 0 && (is_fenced || settings["reorder"] == 0)) break;
      if (is_read(opcode) && deferred >= pair.remote.max_rd_atomic) break;
      if (!is_read(opcode)) {
        found.push_back(i);
        break;
      }
      if (is_fenced) ++counts["fenced"];
      request.state = Request::State::deferred;
    }
    // Later requests may pass this one. A READ stays behind earlier READs and atomics, an atomic doesn't.
    const bool may_execute = settings["reorder"] == 0 || has_waited(pair, request, delay + settings["read_delay"]);
    if (may_execute && (deferred == 0 || is_atomic(opcode))) found.push_back(i);
    ++deferred;
  }
  return found;
}

bool Fabric::step() {
  // Delayed requests execute last, so that a request that may pass them does, on any schedule of the threads.
  std::vector<std::pair<Pair*, std::size_t>> all;
  int least = 2;
  for (const auto& [number, pair] : pairs) {
    for (const std::size_t index : ready(*pair)) {
      const bool is_late = pair->requests[index].state == Request::State::deferred && settings["read_delay"] > 0;
      const int delayed = (delays.contains(pair->order) && delays[pair->order] > 0 ? 1 : 0) + (is_late ? 1 : 0);
      if (delayed < least) all.clear();
      least = std::min(least, delayed);
      if (delayed == least) all.emplace_back(pair, index);
    }
  }
  if (all.empty()) return false;
  const auto [pair, index] = all[choose(all.size())];
  Request& request = pair->requests[index];
  const ibv_wc_status status = execute(*pair, request);
  if (status != IBV_WC_SUCCESS) {
    // Responses arrive in order, so an earlier request that hasn't executed fails instead.
    break_pair(*pair, status);
    return true;
  }
  request.state = Request::State::executed;
  while (!pair->requests.empty() && pair->requests.front().state == Request::State::executed) {
    const Request& first = pair->requests.front();
    if ((first.request.send_flags & IBV_SEND_SIGNALED) != 0) {
      ibv_wc completion{};
      completion.wr_id = first.request.wr_id;
      completion.qp_num = pair->qp_num;
      complete(static_cast<Queue&>(*pair->send_cq), completion, pair, first.number + 1);
    }
    pair->requests.pop_front();
  }
  return true;
}

ibv_wc_status Fabric::execute(Pair& pair, Request& request) {
  const ibv_send_wr& wanted = request.request;
  for (auto failure = failures.begin(); failure != failures.end(); ++failure) {
    if (failure->pair != 0 && failure->pair != pair.order) continue;
    if (failure->after-- > 0) continue;
    const ibv_wc_status status = failure->status;
    failures.erase(failure);
    return status;
  }
  const auto found = pairs.find(pair.remote.dest_qp_num);
  if (found == pairs.end()) return IBV_WC_RETRY_EXC_ERR;
  Pair& target = *found->second;
  if ((target.state != IBV_QPS_RTR && target.state != IBV_QPS_RTS) || target.remote.dest_qp_num != pair.qp_num ||
      target.remote.rq_psn != pair.remote.sq_psn)
    return IBV_WC_RETRY_EXC_ERR;
  if (target.remote.path_mtu != pair.remote.path_mtu) violate("the MTUs of a connection differ");
  if (pair.remote.max_rd_atomic > target.remote.max_dest_rd_atomic) violate("more READs than the target accepts");

  const bool is_atomic_word = is_atomic(wanted.opcode);
  const std::uint32_t bytes = request.has_part ? request.part.length : 0;
  const std::uint64_t remote = is_atomic_word ? wanted.wr.atomic.remote_addr : wanted.wr.rdma.remote_addr;
  const std::uint32_t key = is_atomic_word ? wanted.wr.atomic.rkey : wanted.wr.rdma.rkey;
  const int access = is_atomic_word                      ? IBV_ACCESS_REMOTE_ATOMIC
                     : wanted.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
                                                         : IBV_ACCESS_REMOTE_WRITE;
  if (observer != nullptr) observer(observer_context, pair.order, wanted.opcode, remote, bytes);
  ++counts["requests"];
  if (bytes == 0) return IBV_WC_SUCCESS;
  std::byte* local = request.bytes.data();
  if ((wanted.send_flags & IBV_SEND_INLINE) == 0) {
    local = reinterpret_cast<std::byte*>(request.part.addr);
    if (find(local_keys, request.part.lkey, pair.pd, request.part.addr, bytes,
             is_read(wanted.opcode) ? IBV_ACCESS_LOCAL_WRITE : 0) == nullptr)
      return IBV_WC_LOC_PROT_ERR;
  }
  if (is_atomic_word && (bytes != 8 || remote % 8 != 0)) return IBV_WC_REM_INV_REQ_ERR;
  if ((target.access & access) == 0 || find(remote_keys, key, target.pd, remote, bytes, access) == nullptr) {
    break_pair(target, IBV_WC_WR_FLUSH_ERR);
    return IBV_WC_REM_ACCESS_ERR;
  }
  auto* const there = reinterpret_cast<std::byte*>(remote);
  if (wanted.opcode == IBV_WR_RDMA_WRITE) {
    copy_words(there, local, bytes);
  } else if (wanted.opcode == IBV_WR_RDMA_READ) {
    copy_words(local, there, bytes);
  } else {
    auto* const word = reinterpret_cast<std::uint64_t*>(there);
    std::uint64_t old = wanted.wr.atomic.compare_add;
    if (wanted.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      old = __atomic_fetch_add(word, wanted.wr.atomic.compare_add, __ATOMIC_SEQ_CST);
    else
      __atomic_compare_exchange_n(word, &old, wanted.wr.atomic.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    copy_words(local, reinterpret_cast<const std::byte*>(&old), 8);
  }
  return IBV_WC_SUCCESS;
}

Fabric& fabric() {
  static Fabric one;
  return one;
}

}  // namespace fake_verbs
