// The messages of HmcBackend, and the barrier made of them.
#include <algorithm>
#include <limits>

#include "backend.hpp"

namespace hmc::torch_adapter {

namespace {

// Messages of monitoredBarrier. Programs' tags are smaller.
constexpr int arrived_tag = std::numeric_limits<int>::max() - 1;
constexpr int released_tag = std::numeric_limits<int>::max() - 2;

}  // namespace

Handle HmcBackend::message(bool is_receive, Tensors& tensors, int peer, int tag, const char* name, c10d::OpType type) {
  const Caller caller{name, *context_, 0};
  const at::Tensor& tensor = single(tensors, caller);
  TORCH_CHECK(tag >= 0 && tag < released_tag, caller, "the tag ", tag, " is negative or too large");
  auto message = std::make_shared<TensorMessage>();
  message->name = name;
  message->memory = Plain(tensor, is_receive ? Use::out : Use::in, caller);
  message->bytes = message->memory.bytes();
  message->timeout = default_timeout();
  message->group = context_;
  message->outputs = tensors;
  auto work = c10::make_intrusive<MessageWork>(rank_, type, title(name), tensors, group_, message);
  void* const data = message->memory.data();
  try {
    if (is_receive)
      group_->receive(message, data, peer, tag);
    else
      group_->send(message, data, peer, tag);
  } catch (const Failure& failed) {
    raise_interrupt();
    TORCH_CHECK(false, "hmc: ", failed.what(), message->context());
  }
  return work;
}

Handle HmcBackend::send(Tensors& tensors, int destination, int tag) {
  return message(false, tensors, destination, tag, "send", c10d::OpType::SEND);
}
Handle HmcBackend::recv(Tensors& tensors, int source, int tag) {
  return message(true, tensors, source, tag, "recv", c10d::OpType::RECV);
}
Handle HmcBackend::recvAnysource(Tensors& tensors, int tag) {
  return message(true, tensors, any_source, tag, "recvAnySource", c10d::OpType::RECVANYSOURCE);
}

namespace {

/// A message without data.
std::shared_ptr<TensorMessage> signal(Group& group, bool is_receive, int peer, int tag, Milliseconds timeout) {
  auto message = std::make_shared<TensorMessage>();
  message->name = is_receive ? "recv" : "send";
  message->timeout = timeout;
  if (is_receive)
    group.receive(message, nullptr, peer, tag);
  else
    group.send(message, nullptr, peer, tag);
  return message;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failed) {
    return failed.what();
  }
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int each : ranks) text += (text.empty() ? "" : ", ") + std::to_string(each);
  return text;
}

}  // namespace

void HmcBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const Milliseconds timeout = opts.timeout < Milliseconds{0} ? default_timeout() : opts.timeout;
  const Clock::time_point end = Clock::now() + timeout;
  if (rank_ != 0) {
    try {
      const auto sent = signal(*group_, false, 0, arrived_tag, timeout);
      const auto released = signal(*group_, true, 0, released_tag, timeout);
      group_->wait(sent, Milliseconds{0});
      sent->rethrow();
      group_->wait(released, Milliseconds{0});
      released->rethrow();
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "Rank ", rank_,
                  " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank "
                  "0. Please check rank 0 logs for faulty rank. Original exception: ",
                  error.what());
    }
    return;
  }
  std::vector<std::shared_ptr<TensorMessage>> arrivals;
  for (int peer = 1; peer < size_; ++peer) arrivals.push_back(signal(*group_, true, peer, arrived_tag, timeout));
  std::vector<int> missing, arrived;
  std::string cause;
  for (const auto& arrival : arrivals) {
    const auto left = std::chrono::ceil<Milliseconds>(end - Clock::now());
    // Also after the deadline: a rank that has arrived isn't missing.
    const bool is_complete = group_->wait(arrival, std::max(left, Milliseconds{1}));
    if (!is_complete && left <= Milliseconds{0} && missing.empty())
      cause = "Rank 0 timed out in monitoredBarrier after " + std::to_string(timeout.count()) + " ms.";
    group_->cancel(arrival);
    if (is_complete && arrival->error() == nullptr) {
      arrived.push_back(arrival->peer);
      continue;
    }
    missing.push_back(arrival->peer);
    if (is_complete) cause = message_of(arrival->error());
    if (!wait_all_ranks) break;
  }
  for (const auto& each : arrivals) group_->cancel(each);
  if (missing.empty()) {
    for (int peer = 1; peer < size_; ++peer) group_->adopt(signal(*group_, false, peer, released_tag, timeout));
    return;
  }
  TORCH_CHECK(false, "Rank", missing.size() == 1 ? " " : "s ", list_of(missing), " failed to pass monitoredBarrier in ",
              timeout.count(), " ms", *context_, "]. ", cause,
              arrived.empty() ? " No ranks successfully processed in monitoredBarrier."
                              : " Successfully processed ranks: " + list_of(arrived));
}

}  // namespace hmc::torch_adapter
