// The Python module of the adapter.
#include <torch/csrc/utils/pybind.h>

// One translation unit, because torch's headers take most of the time.
#include "backend.cpp"
#include "messages.cpp"
#include "windows.cpp"

namespace hmc::torch_adapter {

namespace {

HmcBackend& backend_of(const c10::intrusive_ptr<Base>& base) {
  auto* const backend = dynamic_cast<HmcBackend*>(base.get());
  TORCH_CHECK(backend != nullptr, "hmc.torch: the process group's backend isn't hmc");
  return *backend;
}

// The main thread is the only one that executes Python's signal handlers.
pthread_t main_thread;

bool is_main_thread() { return pthread_equal(pthread_self(), main_thread) != 0 && Py_IsInitialized() != 0; }

/// In waits that HMC's core does, the package hmc executes the handlers, and keeps their exception.
void raise_exception_of_core() {
  if (!is_main_thread()) return;
  const py::gil_scoped_acquire locked;
  py::module_::import("hmc._core").attr("_raise_interrupt")();
}

void execute_signal_handlers() {
  if (!is_main_thread()) return;
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  raise_exception_of_core();  // a short wait in the core may have executed them
}

}  // namespace

PYBIND11_MODULE(HMC_TORCH_MODULE, module) {
  main_thread = static_cast<pthread_t>(
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>());
  raise_interrupt = raise_exception_of_core;
  Group::set_poll(execute_signal_handlers);
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::int64_t timeout_ms,
         const std::string& name, const std::string& group_name,
         const std::vector<std::int64_t>& ranks) -> c10::intrusive_ptr<Base> {
        return c10::make_intrusive<HmcBackend>(store, rank, size, Milliseconds(timeout_ms), name, group_name, ranks);
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "empty",
      [](const c10::intrusive_ptr<Base>& base, const std::vector<std::int64_t>& sizes, const at::Tensor& like) {
        return backend_of(base).empty(sizes, like.options());
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "move",
      [](const c10::intrusive_ptr<Base>& base, const at::Tensor& tensor) { return backend_of(base).move(tensor); },
      py::call_guard<py::gil_scoped_release>());
  module.def("counters", [](const c10::intrusive_ptr<Base>& base) {
    const Counters all = [&] {
      const py::gil_scoped_release unlocked;
      return backend_of(base).group()->counters();
    }();
    py::dict result;
    result["in_place"] = all.buffers_in_place;
    result["staged"] = all.buffers_staged;
    result["read"] = all.buffers_read;
    result["direct_receives"] = all.direct_receives;
    return result;
  });
  module.def("is_hmc",
             [](const c10::intrusive_ptr<Base>& base) { return dynamic_cast<HmcBackend*>(base.get()) != nullptr; });
  module.def(
      "abort", [](const c10::intrusive_ptr<Base>& base) { backend_of(base).group()->abort("abort was called"); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "leave_all", [](std::int64_t timeout_ms) { Group::leave_all(Milliseconds(timeout_ms)); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "abort_all", [](const std::string& why) { Group::abort_all(why.c_str()); },
      py::call_guard<py::gil_scoped_release>());
  module.def("open_groups", &Group::open_groups);
}

}  // namespace hmc::torch_adapter
