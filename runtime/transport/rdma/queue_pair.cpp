#include "runtime/transport/rdma/queue_pair.hpp"

#include <algorithm>
#include <cerrno>

#include "runtime/transport/nonce.hpp"

namespace hmc::transport::rdma {

namespace {

constexpr int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

void modify(ibv_qp* pair, ibv_qp_attr& attributes, int mask, const char* what) {
  if (const int error = Library::get().ibv_modify_qp(pair, &attributes, mask); error != 0) throw_errno(what, error);
}

bool is_read(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

}  // namespace

std::uint8_t acknowledge_timeout(int lost_host_s) noexcept {
  std::uint8_t exponent = 16;
  while ((1 + retries) * (4096LL << (exponent + 1)) <= lost_host_s * 1'000'000'000LL) ++exponent;
  return exponent;
}

QueuePair::QueuePair(const Device& device, ibv_cq* completions, std::uint64_t id) : id_(id << 32) {
  depth_ = std::min<std::uint32_t>(wanted_depth, static_cast<std::uint32_t>(device.attributes().max_qp_wr));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions;
  wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {depth_, 1, 1, 1, wanted_inline};
  // A device refuses a size that it doesn't have.
  for (;;) {
    ibv_qp_init_attr attributes = wanted;
    pair_.reset(Library::get().ibv_create_qp(device.pd(), &attributes));
    if (pair_ != nullptr) {
      inline_max_ = std::min(attributes.cap.max_inline_data, wanted_inline);
      break;
    }
    if (wanted.cap.max_inline_data <= 16) throw_errno("can't create a queue pair", errno);
    wanted.cap.max_inline_data /= 2;
  }
  records_.resize(depth_);
  results_.resize(depth_);
  results_registration_ =
      device.register_memory(results_.data(), depth_ * sizeof(std::uint64_t), IBV_ACCESS_LOCAL_WRITE);
  if (results_registration_ == nullptr) throw_errno("can't register memory for the results of atomics", errno);
  first_packet_ = static_cast<std::uint32_t>(make_nonce()) & 0xffffff;

  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port();
  attributes.qp_access_flags = access;
  modify(pair_.get(), attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         "can't initialize a queue pair");
}

void QueuePair::connect(const Device& device, const Remote& remote, int lost_host_s) {
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = std::min(device.port_attributes().active_mtu, static_cast<ibv_mtu>(remote.mtu));
  ready.dest_qp_num = remote.number;
  ready.rq_psn = remote.first_packet;
  ready.max_dest_rd_atomic = static_cast<std::uint8_t>(std::clamp(device.attributes().max_qp_rd_atom, 1, 16));
  ready.min_rnr_timer = 12;
  ready.ah_attr = device.route(remote.gid, remote.lid);
  modify(pair_.get(), ready,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "can't connect a queue pair");
  ibv_qp_attr sending{};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = acknowledge_timeout(lost_host_s);
  sending.retry_cnt = retries;
  sending.rnr_retry = 7;
  sending.sq_psn = first_packet_;
  sending.max_rd_atomic = static_cast<std::uint8_t>(
      std::min<int>(std::clamp(device.attributes().max_qp_init_rd_atom, 1, 16), std::max<int>(remote.reads, 1)));
  modify(pair_.get(), sending,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
         "can't start a queue pair");
}

void QueuePair::fail() noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  Library::get().ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
}

void QueuePair::add(ibv_send_wr& request, const Record& record, bool signal) noexcept {
  records_[head_ % depth_] = record;
  request.wr_id = id_ | head_;
  if (is_read(request.opcode)) last_read_ = head_ + 1;
  if (fences_next_) {
    request.send_flags |= IBV_SEND_FENCE;
    fences_next_ = false;
  }
  const bool was_idle = is_idle();
  ++head_;
  if (signal || was_idle || head_ - last_signalled_ >= depth_ / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    last_signalled_ = head_;
  }
}

}  // namespace hmc::transport::rdma
