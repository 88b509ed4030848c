// The functions of libibverbs, and the control functions of tests, for the device of device.hpp.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "tests/fake_verbs/device.hpp"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

using namespace fake_verbs;  // NOLINT: the functions below are C's

namespace {

using Guard = std::unique_lock<std::mutex>;

ibv_device the_device() {
  ibv_device device{};
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device.name, "fake0");
  return device;
}
ibv_device* device() {
  static ibv_device one = the_device();
  return &one;
}

int refuse(ibv_send_wr* at, ibv_send_wr** bad, int error) {
  *bad = at;
  return error;
}

/// A datagram is delivered at once, or lost.
void deliver(Pair& pair, const ibv_send_wr& request) {
  Fabric& all = fabric();
  ibv_wc sent{};
  sent.wr_id = request.wr_id;
  sent.opcode = IBV_WC_SEND;
  const ibv_sge& part = request.sg_list[0];
  const bool is_readable = all.find(all.local_keys, part.lkey, pair.pd, part.addr, part.length, 0) != nullptr;
  if (!is_readable) sent.status = IBV_WC_LOC_PROT_ERR;
  all.complete(static_cast<Queue&>(*pair.send_cq), sent, &pair, pair.posted);
  if (!is_readable) return all.violate("a datagram from unregistered memory");
  ++all.counts["datagrams"];
  if (all.settings["drop"] > 0) {
    --all.settings["drop"];
    return;
  }
  const auto found = all.pairs.find(request.wr.ud.remote_qpn);
  if (found == all.pairs.end()) return;
  Pair& target = *found->second;
  if (target.qp_type != IBV_QPT_UD || target.state < IBV_QPS_RTR || target.key != request.wr.ud.remote_qkey) return;
  if (target.receives.empty()) return;
  const auto [id, buffer] = target.receives.front();
  target.receives.pop_front();
  ibv_wc received{};
  received.wr_id = id;
  received.opcode = IBV_WC_RECV;
  received.byte_len = static_cast<std::uint32_t>(part.length + network_header);
  if (buffer.length < received.byte_len ||
      all.find(all.local_keys, buffer.lkey, target.pd, buffer.addr, buffer.length, IBV_ACCESS_LOCAL_WRITE) == nullptr)
    received.status = IBV_WC_LOC_PROT_ERR;
  else
    std::memcpy(reinterpret_cast<std::byte*>(buffer.addr) + network_header, reinterpret_cast<void*>(part.addr),
                part.length);
  all.complete(static_cast<Queue&>(*target.recv_cq), received, nullptr, 0);
}

int post_send(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** bad) {
  Fabric& all = fabric();
  const Guard guard(all.lock);
  Pair& pair = static_cast<Pair&>(*queue_pair);
  for (; request != nullptr; request = request->next) {
    const bool is_inline = (request->send_flags & IBV_SEND_INLINE) != 0;
    if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) {
      all.violate("a post before the queue pair can send");
      return refuse(request, bad, EINVAL);
    }
    if (pair.posted - pair.retired >= pair.cap.max_send_wr) {
      all.violate("a post on a full send queue");
      return refuse(request, bad, ENOMEM);
    }
    if (request->num_sge > static_cast<int>(pair.cap.max_send_sge) ||
        (is_inline && (request->num_sge > 0 && request->sg_list[0].length > pair.cap.max_inline_data)) ||
        (is_inline && is_read(request->opcode))) {
      all.violate("a request beyond the limits of the queue pair");
      return refuse(request, bad, EINVAL);
    }
    if (pair.qp_type == IBV_QPT_RC && !all.permits("post_send")) return refuse(request, bad, errno);
    ++pair.posted;
    if (pair.qp_type == IBV_QPT_UD) {
      deliver(pair, *request);
      continue;
    }
    Request& added = pair.requests.emplace_back();
    added.request = *request;
    if (pair.signals_all) added.request.send_flags |= IBV_SEND_SIGNALED;
    added.number = pair.posted - 1;
    added.posted_at = static_cast<Queue*>(pair.send_cq)->polls;
    added.has_part = request->num_sge > 0;
    if (added.has_part) added.part = request->sg_list[0];
    if (is_inline && added.has_part)
      std::memcpy(added.bytes.data(), reinterpret_cast<const void*>(added.part.addr), added.part.length);
    if (pair.state == IBV_QPS_ERR) all.break_pair(pair, IBV_WC_WR_FLUSH_ERR);
  }
  all.wake();
  return 0;
}

int post_recv(ibv_qp* queue_pair, ibv_recv_wr* request, ibv_recv_wr** bad) {
  Fabric& all = fabric();
  const Guard guard(all.lock);
  Pair& pair = static_cast<Pair&>(*queue_pair);
  for (; request != nullptr; request = request->next) {
    if (pair.state == IBV_QPS_RESET || pair.receives.size() >= pair.cap.max_recv_wr) {
      all.violate("a receive that the queue pair can't take");
      *bad = request;
      return ENOMEM;
    }
    pair.receives.emplace_back(request->wr_id, request->sg_list[0]);
  }
  return 0;
}

int poll_cq(ibv_cq* it, int count, ibv_wc* completions) {
  Fabric& all = fabric();
  const Guard guard(all.lock);
  Queue& queue = static_cast<Queue&>(*it);
  ++queue.polls;
  int found = 0;
  for (; found < count && !queue.completions.empty(); ++found) {
    completions[found] = queue.completions.front();
    queue.completions.pop_front();
    const auto [pair, retires] = queue.retires.front();
    queue.retires.pop_front();
    if (pair != nullptr) pair->retired = std::max(pair->retired, retires);
  }
  all.wake();
  return found;
}

int req_notify_cq(ibv_cq* it, int) {
  const Guard guard(fabric().lock);
  static_cast<Queue*>(it)->is_armed = true;
  return 0;
}

/// Null, with errno, if the call is to fail.
template <typename T> T* make(const char* function, const char* kind) {
  if (!fabric().permits(function)) return nullptr;
  ++fabric().live[kind];
  return new T{};
}
template <typename T> int destroy(void* it, const char* kind) {
  --fabric().live[kind];
  delete static_cast<T*>(it);
  return 0;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const Guard guard(fabric().lock);
  if (!fabric().permits("ibv_get_device_list")) return nullptr;
  *count = fabric().settings["devices"];
  ++fabric().live["list"];
  auto** const list = new ibv_device* [2] {};
  if (*count > 0) list[0] = device();
  return list;
}
void ibv_free_device_list(ibv_device** list) {
  const Guard guard(fabric().lock);
  --fabric().live["list"];
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* it) { return it->name; }

ibv_context* ibv_open_device(ibv_device* it) {
  const Guard guard(fabric().lock);
  if (!fabric().permits("ibv_open_device")) return nullptr;
  fabric().open();
  auto* const context = new ibv_context{};
  context->device = it;
  context->ops.poll_cq = &poll_cq;
  context->ops.req_notify_cq = &req_notify_cq;
  context->ops.post_send = &post_send;
  context->ops.post_recv = &post_recv;
  return context;
}
int ibv_close_device(ibv_context* context) {
  Guard guard(fabric().lock);
  fabric().close(guard);
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  const Guard guard(fabric().lock);
  auto& settings = fabric().settings;
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp_wr = settings["queue_depth"];
  attributes->max_qp_rd_atom = settings["max_reads"];
  attributes->max_qp_init_rd_atom = settings["max_reads"];
  attributes->atomic_cap = settings["atomics"] != 0 ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  return 0;
}
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* compatible) {
  const Guard guard(fabric().lock);
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compatible);
  attributes->state = fabric().settings["active"] != 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 2;
  attributes->active_width = 2;
  attributes->active_speed = 32;
  return 0;
}
int ibv_query_gid(ibv_context*, std::uint8_t, int index, ibv_gid* gid) {
  const Guard guard(fabric().lock);
  *gid = {};
  if (index != 1 || fabric().settings["gids"] == 0) return 0;
  gid->raw[10] = gid->raw[11] = 0xff;
  gid->raw[12] = 10;
  gid->raw[15] = 1;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const Guard guard(fabric().lock);
  auto* const domain = make<ibv_pd>("ibv_alloc_pd", "pd");
  if (domain != nullptr) domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  const Guard guard(fabric().lock);
  for (const auto& [key, memory] : fabric().local_keys)
    if (memory->pd == domain) fabric().violate("a protection domain is freed before its memory");
  for (const auto& [number, pair] : fabric().pairs)
    if (pair->pd == domain) fabric().violate("a protection domain is freed before its queue pairs");
  return destroy<ibv_pd>(domain, "pd");
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  const Guard guard(fabric().lock);
  constexpr int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (bytes == 0 || ((access & writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    fabric().violate("a registration with invalid arguments");
    errno = EINVAL;
    return nullptr;
  }
  auto* const memory = make<Memory>("ibv_reg_mr", "mr");
  if (memory == nullptr) return nullptr;
  memory->context = domain->context;
  memory->pd = domain;
  memory->addr = address;
  memory->length = bytes;
  memory->access = access;
  const std::uint32_t number = ++fabric().next_number;
  memory->lkey = number << 8 | 1;
  memory->rkey = number << 8 | 2;  // a mistaken key isn't found
  fabric().local_keys[memory->lkey] = memory;
  fabric().remote_keys[memory->rkey] = memory;
  return memory;
}
int ibv_dereg_mr(ibv_mr* memory) {
  const Guard guard(fabric().lock);
  fabric().local_keys.erase(memory->lkey);
  fabric().remote_keys.erase(memory->rkey);
  return destroy<Memory>(memory, "mr");
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const Guard guard(fabric().lock);
  auto* const channel = make<Channel>("ibv_create_comp_channel", "channel");
  if (channel == nullptr) return nullptr;
  channel->context = context;
  channel->fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const Guard guard(fabric().lock);
  if (channel->refcnt != 0) fabric().violate("a completion channel is destroyed before its queue");
  ::close(channel->fd);
  return destroy<Channel>(channel, "channel");
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int) {
  const Guard guard(fabric().lock);
  auto* const queue = make<Queue>("ibv_create_cq", "cq");
  if (queue == nullptr) return nullptr;
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = user;
  queue->cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  return queue;
}
int ibv_resize_cq(ibv_cq* queue, int entries) {
  const Guard guard(fabric().lock);
  if (!fabric().permits("ibv_resize_cq")) return errno;
  queue->cqe = entries;
  return 0;
}
int ibv_destroy_cq(ibv_cq* it) {
  const Guard guard(fabric().lock);
  auto* const queue = static_cast<Queue*>(it);
  if (queue->users != 0) fabric().violate("a completion queue is destroyed before its queue pairs");
  if (queue->channel != nullptr) {
    --queue->channel->refcnt;
    std::erase(static_cast<Channel*>(queue->channel)->events, queue);
  }
  return destroy<Queue>(queue, "cq");
}
int ibv_get_cq_event(ibv_comp_channel* it, ibv_cq** queue, void** user) {
  std::uint64_t one = 0;
  if (::read(it->fd, &one, sizeof one) != sizeof one) return -1;
  const Guard guard(fabric().lock);
  auto& events = static_cast<Channel*>(it)->events;
  if (events.empty()) return -1;
  *queue = events.front();
  *user = events.front()->cq_context;
  events.pop_front();
  return 0;
}
void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  const Guard guard(fabric().lock);
  static_cast<Queue*>(queue)->unacknowledged -= static_cast<int>(count);
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  const Guard guard(fabric().lock);
  auto& settings = fabric().settings;
  if (static_cast<int>(wanted->cap.max_send_wr) > settings["queue_depth"] ||
      static_cast<int>(wanted->cap.max_inline_data) > settings["inline_max"]) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const pair = make<Pair>("ibv_create_qp", "qp");
  if (pair == nullptr) return nullptr;
  pair->context = domain->context;
  pair->pd = domain;
  pair->send_cq = wanted->send_cq;
  pair->recv_cq = wanted->recv_cq;
  pair->qp_type = wanted->qp_type;
  pair->cap = wanted->cap;
  pair->signals_all = wanted->sq_sig_all != 0;
  pair->qp_num = ++fabric().next_number;
  if (pair->qp_type == IBV_QPT_RC) pair->order = ++fabric().created;
  ++static_cast<Queue*>(pair->send_cq)->users;
  ++static_cast<Queue*>(pair->recv_cq)->users;
  fabric().pairs[pair->qp_num] = pair;
  return pair;
}

int ibv_modify_qp(ibv_qp* it, ibv_qp_attr* attributes, int mask) {
  const Guard guard(fabric().lock);
  if (!fabric().permits("ibv_modify_qp")) return errno;
  Pair& pair = static_cast<Pair&>(*it);
  const bool is_reliable = pair.qp_type == IBV_QPT_RC;
  const ibv_qp_state next = attributes->qp_state;
  if (next == IBV_QPS_ERR) {
    fabric().break_pair(pair, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  int needed = IBV_QP_STATE;
  ibv_qp_state before = IBV_QPS_RESET;
  if (next == IBV_QPS_INIT) {
    needed |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_reliable ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
  } else if (next == IBV_QPS_RTR) {
    before = IBV_QPS_INIT;
    if (is_reliable)
      needed |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                IBV_QP_MIN_RNR_TIMER;
  } else if (next == IBV_QPS_RTS) {
    before = IBV_QPS_RTR;
    needed |= IBV_QP_SQ_PSN;
    if (is_reliable) needed |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  if (pair.state != before || mask != needed) {
    fabric().violate("a queue pair changes to state " + std::to_string(next) + " with the wrong attributes or state");
    return EINVAL;
  }
  if (next == IBV_QPS_INIT) {
    pair.access = static_cast<int>(attributes->qp_access_flags);
    pair.key = attributes->qkey;
  } else if (next == IBV_QPS_RTR) {
    pair.remote = *attributes;
  } else {
    pair.remote.sq_psn = attributes->sq_psn;
    pair.remote.max_rd_atomic = attributes->max_rd_atomic;
    fabric().counts["patience_ms"] = (1L + attributes->retry_cnt) * (4096L << attributes->timeout) / 1'000'000;
  }
  pair.state = next;
  fabric().wake();
  return 0;
}
int ibv_destroy_qp(ibv_qp* it) {
  const Guard guard(fabric().lock);
  auto* const pair = static_cast<Pair*>(it);
  fabric().pairs.erase(pair->qp_num);
  for (ibv_cq* const of : {pair->send_cq, pair->recv_cq}) {
    auto* const queue = static_cast<Queue*>(of);
    --queue->users;
    for (auto& [user, retires] : queue->retires)
      if (user == pair) user = nullptr;
  }
  return destroy<Pair>(pair, "qp");
}

ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  const Guard guard(fabric().lock);
  auto* const route = make<Route>("ibv_create_ah", "ah");
  if (route == nullptr) return nullptr;
  route->context = domain->context;
  route->pd = domain;
  route->attributes = *attributes;
  return route;
}
int ibv_destroy_ah(ibv_ah* route) {
  const Guard guard(fabric().lock);
  return destroy<Route>(route, "ah");
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_WR_FLUSH_ERR: return "flushed";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_RETRY_EXC_ERR: return "retries exceeded";
    default: return "another error";
  }
}

// ---- control

void fake_verbs_reset() {
  const Guard guard(fabric().lock);
  fabric().restore();
}
void fake_verbs_set(const char* name, int value) {
  const Guard guard(fabric().lock);
  if (!fabric().settings.contains(name)) std::abort();
  fabric().settings[name] = value;
  fabric().wake();
}
void fake_verbs_delay(int pair, int polls) {
  const Guard guard(fabric().lock);
  fabric().delays[pair] = polls;
  fabric().wake();
}
void fake_verbs_refuse(const char* function, int after, int count, int error) {
  const Guard guard(fabric().lock);
  fabric().refusals[function] = {after, count, error};
}
void fake_verbs_fail(int pair, int after, ibv_wc_status status) {
  const Guard guard(fabric().lock);
  fabric().failures.push_back({pair, after, status});
}
long fake_verbs_live(const char* kind) {
  const Guard guard(fabric().lock);
  if (std::strcmp(kind, "all") != 0) return fabric().live[kind];
  long sum = 0;
  for (const auto& [name, count] : fabric().live) sum += count;
  return sum;
}
long fake_verbs_count(const char* name) {
  const Guard guard(fabric().lock);
  return fabric().counts[name];
}
const char* fake_verbs_violations() {
  const Guard guard(fabric().lock);
  return fabric().violations.c_str();
}
void fake_verbs_observe(FakeVerbsObserver observer, void* context) {
  const Guard guard(fabric().lock);
  fabric().observer = observer;
  fabric().observer_context = context;
}
}
