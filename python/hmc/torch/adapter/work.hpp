// Work: torch's handles of collectives and messages in flight.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "group.hpp"
#include "tensors.hpp"

namespace hmc::torch_adapter {

/// Raises the exception of Python's signal handler that has ended a wait of this thread, if there is one. Set by the
/// module.
inline void (*raise_interrupt)() = [] {};

/// The result of an operation, shared by its Work, its future and the thread that executes it.
class Result {
 public:
  std::vector<at::Tensor> outputs;
  std::function<void()> on_end;              ///< the profiler's
  std::shared_ptr<const std::string> group;  ///< for error texts
  std::uint64_t sequence = 0;                ///< of a collective in its group, from 1 on

  /// The end of error texts.
  std::string context() const {
    if (group == nullptr) return {};
    return *group + (sequence != 0 ? ", operation " + std::to_string(sequence) : std::string()) + "]";
  }

  /// Sets the result. Returns true if there is a future to mark: then users see the result in publish(), else at once.
  bool set(std::exception_ptr error) {
    std::function<void()> end;
    {
      const std::lock_guard lock(mutex_);
      error_ = error != nullptr ? as_torch(std::move(error)) : nullptr;
      is_set_ = true;
      is_complete_ = unmarked_ == nullptr;
      end = std::exchange(on_end, nullptr);
      if (is_complete_ && !end) return false;
    }
    if (end) end();
    return !is_complete_;
  }
  /// Marks the future: first users see the result, then the callbacks run. Does nothing before set(). A second call
  /// waits until users see the result.
  void publish(const std::function<void()>& visible = {}) noexcept {
    if (is_complete_) return;
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const std::lock_guard lock(mutex_);
      if (!is_set_) return;
      future = std::exchange(unmarked_, {});
      if (future) visible_ = &visible;
    }
    if (future)
      mark(*future);
    else
      is_complete_.wait(false);
  }
  c10::intrusive_ptr<c10::ivalue::Future> future(bool& is_set) {
    const std::lock_guard lock(mutex_);
    is_set = is_set_;
    if (future_) return future_;
    std::vector<c10::Device> devices;
    for (const at::Tensor& each : outputs)
      if (!each.device().is_cpu() && std::find(devices.begin(), devices.end(), each.device()) == devices.end())
        devices.push_back(each.device());
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
    if (is_set_) {
      mark(*future_);
    } else {
      unmarked_ = future_;
      // The first callback: a thread that sees the result also sees the future as done. Later callbacks may take their
      // time.
      future_->addCallback([this](c10::ivalue::Future& /*future*/) { show(); });
    }
    return future_;
  }
  bool is_complete() const { return is_complete_; }
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void rethrow() const {
    if (const std::exception_ptr failed = error()) {
      raise_interrupt();
      std::rethrow_exception(failed);
    }
  }

 private:
  void show() {
    is_complete_ = true;
    is_complete_.notify_all();
    if (const auto* const visible = std::exchange(visible_, nullptr); visible != nullptr && *visible) (*visible)();
  }
  void mark(c10::ivalue::Future& future) noexcept {
    try {
      if (error_)
        future.setError(error_);
      else
        future.markCompleted(c10::IValue(outputs));
    } catch (const std::exception& error) {
      TORCH_WARN("hmc: a callback of a future failed: ", error.what());
    }
  }
  /// The exception that Python shows: RuntimeError, or torch.distributed.DistBackendError where torch has it.
  std::exception_ptr as_torch(std::exception_ptr error) const {
    try {
      std::rethrow_exception(error);
    } catch (const Failure& failed) {
      // The words that programs look for in the texts of other backends.
      const bool timed_out = failed.code == static_cast<int>(Code::timeout);
      const std::string text = (timed_out ? "hmc: Timed out in " : "hmc: ") + std::string(failed.what()) + context();
      try {
#if TORCH_VERSION_MAJOR >= 2
        C10_THROW_ERROR(DistBackendError, text);
#else
        C10_THROW_ERROR(Error, text);
#endif
      } catch (...) {
        return std::current_exception();
      }
    } catch (...) {
      return error;
    }
  }

 protected:
  mutable std::mutex mutex_;

 private:
  bool is_set_ = false;
  std::atomic<bool> is_complete_{false};  ///< for users
  const std::function<void()>* visible_ = nullptr;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> unmarked_;
};

struct Collective final : Operation, Result {
  std::function<void(Team&)> body;
  void run(Team& team) override { body(team); }
  bool complete(std::exception_ptr error) noexcept override {
    body = nullptr;  // releases the tensors
    return set(std::move(error));
  }
  void publish(const std::function<void()>& visible) noexcept override { Result::publish(visible); }
};

struct TensorMessage final : Message, Result {
  Plain memory;
  void complete(std::exception_ptr error) noexcept override {
    try {
      if (error == nullptr && is_receive) memory.store();
    } catch (...) {
      error = std::current_exception();
    }
    set(std::move(error));
  }
  void notify() noexcept override {
    Plain released;
    if (!is_in_use) {
      const std::lock_guard lock(mutex_);
      released = std::exchange(memory, Plain());
    }
    publish();
  }
};

/// The parts that all works have. Torch's base class has state of its own, which isn't used.
class HmcWork : public c10d::Work {
 public:
  HmcWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs, Result* result)
      : c10d::Work(rank, type, title, inputs), result_(result) {
    if (recordFunctionEndCallback_) result_->on_end = std::move(recordFunctionEndCallback_);
  }
  bool isSuccess() const override { return result_->is_complete() && result_->error() == nullptr; }
  std::exception_ptr exception() const override { return result_->error(); }
  std::vector<at::Tensor> result() override { return result_->outputs; }
  void synchronize() override { wait(kNoTimeout); }
#if TORCH_VERSION_MAJOR >= 2
  std::uint64_t getSequencenumber() const override { return result_->sequence; }
#endif

 protected:
  Result* result_;
};

class CollectiveWork final : public HmcWork {
 public:
  CollectiveWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                 std::shared_ptr<Group> group, std::shared_ptr<Collective> collective)
      : HmcWork(rank, type, title, inputs, collective.get()),
        group_(std::move(group)),
        collective_(std::move(collective)) {}

  bool isCompleted() override { return collective_->is_complete(); }
  bool wait(std::chrono::milliseconds timeout) override {
    if (!group_->wait(collective_, timeout))
      TORCH_CHECK(false, "hmc: ", collective_->name, " isn't complete after ", timeout.count(), " ms. Timed out",
                  collective_->context());
    collective_->rethrow();
    return true;
  }
  void abort() override { group_->abort("Work.abort was called"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    bool is_complete = false;
    auto future = collective_->future(is_complete);
    if (!is_complete) group_->watch();
    return future;
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Collective> collective_;
};

class MessageWork final : public HmcWork {
 public:
  MessageWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
              std::shared_ptr<Group> group, std::shared_ptr<TensorMessage> message)
      : HmcWork(rank, type, title, inputs, message.get()), group_(std::move(group)), message_(std::move(message)) {}
  /// A dropped message stays in flight.
  ~MessageWork() override {
    if (!message_->Result::is_complete()) group_->adopt(message_);
  }

  bool isCompleted() override { return message_->Result::is_complete() || group_->test(message_); }
  bool wait(std::chrono::milliseconds timeout) override {
    if (!message_->Result::is_complete() && !group_->wait(message_, timeout))
      TORCH_CHECK(false, "hmc: ", message_->name, " isn't complete after ", timeout.count(), " ms. Timed out",
                  message_->context());
    message_->rethrow();
    return true;
  }
  int sourceRank() const override { return message_->status.source; }
  void abort() override { group_->abort("Work.abort was called"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    bool is_complete = false;
    auto future = message_->future(is_complete);
    if (!is_complete) group_->watch(message_);
    return future;
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<TensorMessage> message_;
};

}  // namespace hmc::torch_adapter
