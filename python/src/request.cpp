#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "python/src/objects.hpp"

namespace hmc::python {

RequestObject::RequestObject(std::shared_ptr<Job> job, hmc::Request request, std::vector<Array> arrays,
                             nb::object result)
    : job(std::move(job)), request(std::move(request)), arrays(std::move(arrays)), result(std::move(result)) {
  for (Array& array : this->arrays) array.keep();
}

RequestObject::~RequestObject() {
  if (!is_over)
    job->abandon({std::move(request), std::move(arrays), false, std::move(result), std::move(team)});
  else
    job->retire(std::move(team));
}

void RequestObject::finish() noexcept {
  is_over = true;
  static_cast<void>(request.release());
  arrays.clear();
}

void RequestObject::fail(const hmc::Error& error) {
  failure = error;
  const bool has_memory = !arrays.empty() || nb::isinstance<OldValue>(result);
  if (has_memory && !is_truncation(error, result)) job->abandon({{}, std::move(arrays), true, result});
  finish();
}

PlanObject::~PlanObject() {
  if (is_running) job->abandon({{}, std::move(arrays), true});  // the arrays stay until the job ends
  job->retire(std::move(plan));
  job->retire(std::move(team));
}

namespace {

bool is_empty(const hmc::Request& request) { return request.raw().operation == nullptr; }

/// The error of a request that a signal handler's exception has ended.
hmc::Error interruption(const char* operation) {
  return hmc::Error(Code::timeout, operation, "an exception of a signal handler ended an earlier wait");
}

/// Calls `function`, which completes the request unless it returns false. After a timeout the request stays valid.
template <typename Function> bool complete(RequestObject& self, const Function& function) {
  if (self.failure) throw hmc::Error(*self.failure);
  if (self.is_over) return true;
  const char* const operation = self.request.raw().operation;
  try {
    if (!function()) return false;
  } catch (const hmc::Error& error) {
    // At a timeout of its own, a request stays valid. At the job's timeout a collective has failed.
    if (error.code() != Code::timeout || is_empty(self.request)) self.fail(error);
    throw;
  } catch (const nb::python_error&) {  // a signal handler's exception, instead of an Error
    if (is_empty(self.request)) self.fail(interruption(operation));
    throw;
  }
  self.finish();
  return true;
}

/// A thread waits for these requests. Meanwhile they are in flight for test(), and a second wait comes after it.
/// Created and destroyed with the GIL.
class InUse {
 public:
  explicit InUse(const std::vector<RequestObject*>& objects) : objects_(objects) {
    while (std::ranges::any_of(objects_, &RequestObject::is_waited_for)) {
      {
        const nb::gil_scoped_release unlocked;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    for (RequestObject* const object : objects_) object->is_waited_for = true;
  }
  ~InUse() {
    for (RequestObject* const object : objects_) object->is_waited_for = false;
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::vector<RequestObject*> objects_;
};

nb::object wait(RequestObject& self, std::optional<double> seconds) {
  const hmc::Timeout timeout = timeout_of(seconds, "wait");
  const InUse in_use({&self});
  complete(self, [&] {
    blocking(*self.job, [&] { self.request.wait(timeout); });
    return true;
  });
  if (nb::isinstance<OldValue>(self.result))
    self.result = std::visit([](auto word) { return nb::int_(word); }, nb::inst_ptr<OldValue>(self.result)->word);
  return self.result;
}

bool test(RequestObject& self) {
  if (self.is_waited_for) return false;
  return complete(self, [&] { return quick(*self.job, [&] { return self.request.test(); }); });
}

/// Second handles of the objects' requests, for a wait. The objects keep theirs, since other threads may use them.
class Requests {
 public:
  explicit Requests(const std::vector<RequestObject*>& objects) {
    for (const RequestObject* const object : objects) {
      if (object->job != objects.front()->job) throw nb::value_error("the requests are of several runtimes");
      requests_.push_back(object->is_over ? hmc::Request() : hmc::Request::from_raw(object->request.raw()));
    }
  }
  ~Requests() {
    for (hmc::Request& request : requests_) static_cast<void>(request.release());
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  std::size_t wait_any(hmc::Timeout timeout) { return hmc::Request::wait_any(requests_, timeout); }
  bool is_empty(std::size_t i) const { return python::is_empty(requests_[i]); }

 private:
  std::vector<hmc::Request> requests_;
};

nb::object wait_any(const std::vector<RequestObject*>& objects, std::optional<double> seconds) {
  const hmc::Timeout timeout = timeout_of(seconds, "wait_any");
  if (objects.empty()) return nb::none();
  for (const RequestObject* const object : objects)
    if (object == nullptr) throw nb::type_error("a list of requests contains None");
  const InUse in_use(objects);
  Requests requests(objects);
  const auto fail = [&](const auto& error_of) {  // the failed ones, and after a rank's death all, are empty now
    for (std::size_t i = 0; i < objects.size(); ++i)
      if (!objects[i]->is_over && requests.is_empty(i)) objects[i]->fail(error_of(*objects[i]));
  };
  try {
    const std::size_t done = blocking(*objects.front()->job, [&] { return requests.wait_any(timeout); });
    if (done == hmc::Request::none) return nb::none();
    objects[done]->finish();
    return nb::int_(done);
  } catch (const hmc::Error& error) {
    fail([&](const RequestObject&) { return error; });
    throw;
  } catch (const nb::python_error&) {
    fail([&](const RequestObject& object) { return interruption(object.request.raw().operation); });
    throw;
  }
}

}  // namespace

void define_requests(nb::module_& module) {
  nb::class_<OldValue>(module, "OldValue", "The memory of an atomic in flight.");
  nb::class_<RequestObject>(
      module, "Request",
      "An operation in flight: a call of Window whose name ends with _nb, or a call of Team whose "
      "name starts with i.\n\n"
      "It holds its arrays until it is complete, also if the program drops it. `await request` "
      "in asyncio waits without blocking the loop.")
      .def("wait", wait, nb::arg("timeout") = nb::none(),
           "Wait for completion, and return the output array; irecv: the MessageStatus; a fetching atomic: the old "
           "value; other calls: None.\n\ntimeout: in seconds; then hmc.Timeout, and the request stays valid. None: the "
           "job's timeout. A failed request raises its error each time.")
      .def("test", test, "Return True if the operation is complete. Doesn't wait.")
      .def_prop_ro(
          "done", [](const RequestObject& self) { return self.is_over; },
          "True after wait() or test() has reported completion.")
      .def("__await__", [](nb::object self) {
        return nb::module_::import_("hmc._async").attr("completion")(self).attr("__await__")();
      });
  module.def(
      "wait_all",
      [](const std::vector<RequestObject*>& requests, std::optional<double> timeout) {
        // One after the other; all of them progress in every wait.
        for (RequestObject* const request : requests) {
          if (request == nullptr) throw nb::type_error("a list of requests contains None");
          wait(*request, timeout);
        }
      },
      nb::arg("requests"), nb::arg("timeout") = nb::none(), "Wait for all requests; the timeout applies to each.");
  module.def("wait_any", wait_any, nb::arg("requests"), nb::arg("timeout") = nb::none(),
             "Wait until one request is complete, and return its index. None: all were complete or had failed before.");

  nb::class_<PlanObject>(module, "Plan",
                         "A persistent collective: its arguments are checked once, and each run uses the same arrays.")
      .def(
          "start",
          [](PlanObject& self) {
            blocking(*self.job, Among::others, [&] { self.plan.start(); });
            self.is_running = true;
          },
          "Start a run. The previous one must be complete.")
      .def(
          "test",
          [](PlanObject& self) {
            const bool is_over = quick(*self.job, [&] { return self.plan.test(); });
            if (is_over) self.is_running = false;
            return is_over;
          },
          "Return True if no run is in flight. Doesn't wait.")
      .def(
          "wait",
          [](PlanObject& self, std::optional<double> seconds) {
            const hmc::Timeout timeout = timeout_of(seconds, "wait");
            blocking(*self.job, [&] { self.plan.wait(timeout); });
            self.is_running = false;
            return self.result;
          },
          nb::arg("timeout") = nb::none(), "Wait for the run in flight, and return the output array.");
}

}  // namespace hmc::python
