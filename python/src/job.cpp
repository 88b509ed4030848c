#include "python/src/job.hpp"

#include <chrono>
#include <string>
#include <thread>

namespace hmc::python {

namespace {

pthread_t main_thread;  // the only thread on which Python executes signal handlers; set once at import
// The exception raised by a signal handler in a wait of the main thread. Accessed with the GIL, except for the flag.
PyObject* raised = nullptr;
// Relaxed: the main thread stores and loads it.
std::atomic<bool> has_raised{false};
thread_local Call* waiting_call = nullptr;  // null: the thread's waits keep the lock
constexpr hmc::WaitYield wait_yield{[]() noexcept { return waiting_call != nullptr && waiting_call->is_wanted(); },
                                    []() noexcept { waiting_call->let_others_call(); }};

bool check_signals() noexcept {
  if (pthread_equal(pthread_self(), main_thread) == 0 || Py_IsInitialized() == 0) return false;
  if (has_raised.load(std::memory_order_relaxed)) return true;
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return false;
#if PY_VERSION_HEX >= 0x030C0000
  raised = PyErr_GetRaisedException();
#else
  PyObject *type = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &raised, &traceback);
  PyErr_NormalizeException(&type, &raised, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(raised, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
#endif
  has_raised.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace

void watch_waits() {
  const auto ident = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  main_thread = static_cast<pthread_t>(ident);
  hmc::set_interrupt_check(check_signals);
  hmc::set_wait_yield(&wait_yield);
}

void throw_if_interrupted() {
  if (!has_raised.load(std::memory_order_relaxed) || pthread_equal(pthread_self(), main_thread) == 0) [[likely]]
    return;
  has_raised.store(false, std::memory_order_relaxed);
  PyObject* const exception = std::exchange(raised, nullptr);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_DECREF(exception);
  throw nb::python_error();
}

void throw_if_signalled() {
  throw_if_interrupted();
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

Job::~Job() {
  // The Runtime ends first: then no operation uses the arrays, which are destroyed after it.
  const std::vector<Abandoned> abandoned = std::move(abandoned_), failed = std::move(failed_);
  retired_.clear();
  [[maybe_unused]] const hmc::Runtime ended = std::move(runtime);
}

void Job::sweep() {
  if (abandoned_.empty()) [[likely]]
    return;
  constexpr int looks = 4;      // more than the operations that a call may add, so that all are freed in the end
  std::vector<Abandoned> over;  // destroyed after the call: then Python code may run
  const Call call(*this);
  for (int look = 0; look < looks && !abandoned_.empty(); ++look) {
    if (next_abandoned_ >= abandoned_.size()) next_abandoned_ = 0;
    Abandoned& each = abandoned_[next_abandoned_];
    try {
      if (!each.request.test()) {
        ++next_abandoned_;
        continue;
      }
    } catch (const hmc::Error& error) {
      each.has_failed = !is_truncation(error, each.result);
    }
    (each.has_failed ? failed_ : over).push_back(std::move(each));
    if (&each != &abandoned_.back()) each = std::move(abandoned_.back());
    abandoned_.pop_back();
  }
}

bool is_truncation(const hmc::Error& error, nb::handle result) {
  if (error.code() != Code::mismatch || !nb::isinstance<hmc::MessageStatus>(result)) return false;
  return nb::inst_ptr<hmc::MessageStatus>(result)->source != hmc::any_source;  // a message was there
}

Call::Call(Job& job, Among among) : job_(job), among_(among) {
  if (job.is_owner()) [[unlikely]]
    throw hmc::Error(Code::in_progress, "call", "a signal handler calls HMC in a wait of the same thread",
                     "raise an exception or set a flag in the handler, and call HMC afterwards");
  while (!try_to_enter(std::chrono::milliseconds(0))) {
    bool is_in = false;
    {
      const nb::gil_scoped_release unlocked;
      job.wanting_.fetch_add(1, std::memory_order_relaxed);
      is_in = try_to_enter(std::chrono::milliseconds(20));
      job.wanting_.fetch_sub(1, std::memory_order_relaxed);
      // Another thread's call excludes this one, and waits: it needs the lock for its polls.
      if (!is_in) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (is_in) return;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

bool Call::try_to_enter(std::chrono::milliseconds patience) {
  if (!job_.mutex_.try_lock() && (patience.count() == 0 || !job_.mutex_.try_lock_for(patience))) return false;
  if ((among_ == Among::others && job_.has_collective_) || (among_ == Among::none && job_.calls_ > 0)) {
    job_.mutex_.unlock();
    return false;
  }
  ++job_.calls_;
  if (among_ == Among::others) job_.has_collective_ = true;
  job_.owner_.store(pthread_self(), std::memory_order_relaxed);
  job_.entries_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Call::~Call() {
  if (!job_.retired_.empty()) [[unlikely]] {
    [[maybe_unused]] const auto retired = std::exchange(job_.retired_, {});
  }
  --job_.calls_;
  if (among_ == Among::others) job_.has_collective_ = false;
  job_.owner_.store(0, std::memory_order_relaxed);
  job_.mutex_.unlock();
}

void Call::let_others_call() noexcept {
  const std::uint64_t before = job_.entries_.load(std::memory_order_relaxed);
  job_.owner_.store(0, std::memory_order_relaxed);
  job_.mutex_.unlock();
  // The mutex isn't fair: without a pause this thread would take it again at once.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (is_wanted() && job_.entries_.load(std::memory_order_relaxed) == before &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  job_.wanting_.fetch_add(1, std::memory_order_relaxed);  // the other thread's waits give it up, too
  job_.mutex_.lock();
  job_.wanting_.fetch_sub(1, std::memory_order_relaxed);
  job_.owner_.store(pthread_self(), std::memory_order_relaxed);
  job_.entries_.fetch_add(1, std::memory_order_relaxed);
}

Call::Waiting::Waiting(Call& call) noexcept {
  if (call.among_ != Among::none) waiting_call = &call;
}
Call::Waiting::~Waiting() { waiting_call = nullptr; }

}  // namespace hmc::python
