// The module hmc._core: errors, the Runtime, and the other parts' definitions.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include <hmc/key_value_store.hpp>
#include <hmc/version.hpp>

#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

/// Raises hmc.errors' exception for the code.
void raise(const hmc::Error& error) {
  const hmc::ErrorDetail& detail = error.detail();
  const nb::object make = nb::module_::import_("hmc.errors").attr("_of_core");
  const nb::object exception = make(error.what(), hmc::name_of(detail.code), detail.operation, detail.rank, detail.peer,
                                    detail.message, detail.hint, detail.sys_errno);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

nb::object world_of(RuntimeObject& self) {
  hmc::Team world = quick(*self.job, [&] { return self.job->runtime.world(); });
  // Team.shrink and Team.grow replace the world.
  if (!self.world.is_valid() || nb::cast<TeamObject&>(self.world).team.object() != world.object())
    self.world = nb::cast(new TeamObject(self.job, std::move(world)), nb::rv_policy::take_ownership);
  return self.world;
}

void close(RuntimeObject& self) {
  blocking(*self.job, Among::none, [&] { self.job->runtime.close(); });
  self.job->drop_abandoned();
}

nb::dict counters_of(const RuntimeObject& self) {
  const hmc::Counters counters = quick(*self.job, [&] { return self.job->runtime.counters(); });
  nb::dict all;
  all["puts_direct"] = counters.puts_direct;
  all["puts_wire"] = counters.puts_wire;
  all["buffers_in_place"] = counters.buffers_in_place;
  all["buffers_staged"] = counters.buffers_staged;
  all["buffers_read"] = counters.buffers_read;
  all["direct_receives"] = counters.direct_receives;
  all["reduced_on_device"] = counters.reduced_on_device;
  return all;
}

std::unique_ptr<RuntimeObject> init() {
  std::optional<hmc::Runtime> runtime;
  try {
    const nb::gil_scoped_release unlocked;
    runtime.emplace(hmc::Runtime::init());
  } catch (const hmc::Error&) {
    throw_if_signalled();
    throw;
  }
  throw_if_interrupted();
  return std::make_unique<RuntimeObject>(RuntimeObject{std::make_shared<Job>(std::move(*runtime)), {}});
}

/// For hmc.torch. `set(key, value)` and `get(key, seconds) -> bytes` are functions of the embedding program.
std::unique_ptr<RuntimeObject> init_over_store(const nb::callable& set, const nb::callable& get, int rank, int size,
                                               double timeout_s) {
  hmc::KeyValueStore store;
  // What a function of the program raises goes through HMC as an exception of C++.
  std::optional<nb::python_error> raised;
  const auto call = [&raised](const auto& function) {
    const nb::gil_scoped_acquire locked;
    try {
      return function();
    } catch (const nb::python_error& error) {
      raised.emplace(error);
      throw std::runtime_error("a function of the store has raised an exception");
    }
  };
  store.set = [&](const std::string& key, const std::string& value) {
    call([&] {
      set(key, nb::bytes(value.data(), value.size()));
      return 0;
    });
  };
  store.get = [&](const std::string& key, hmc::Timeout left) {
    return call([&] {
      const nb::bytes value(get(key, std::chrono::duration<double>(left).count()));
      return std::string(value.c_str(), value.size());
    });
  };
  std::optional<hmc::Runtime> runtime;
  try {
    const nb::gil_scoped_release unlocked;
    runtime.emplace(hmc::Runtime::init(
        store, rank, size, std::chrono::duration_cast<hmc::Timeout>(std::chrono::duration<double>(timeout_s))));
  } catch (const std::exception&) {
    throw_if_signalled();
    if (raised) throw *raised;
    throw;
  }
  throw_if_interrupted();
  return std::make_unique<RuntimeObject>(RuntimeObject{std::make_shared<Job>(std::move(*runtime)), {}});
}

void define_runtime(nb::module_& module) {
  module.def("_init_over_store", init_over_store, "For hmc.torch: set, get, rank, size, timeout in seconds.");
  module.def("_raise_interrupt", throw_if_interrupted,
             "For hmc.torch: raises the exception of a signal handler that ended a wait.");
  nb::class_<hmc::Path>(module, "Path", "The wire (transport) to a peer.")
      .def_ro("wire", &hmc::Path::wire, "\"self\", \"shm\", \"verbs\", \"ucx\", \"tcp\", ...")
      .def_ro("direct", &hmc::Path::direct, "True if this rank can load from and store to the peer's windows.")
      .def_ro("why", &hmc::Path::why, "Why this wire is used, and why faster wires aren't.")
      .def("__repr__", [](const hmc::Path& self) { return "<hmc.Path: " + self.wire + ": " + self.why + ">"; });

  nb::class_<RuntimeObject>(
      module, "Runtime",
      "One rank's membership in a job, from init().\n\nclose() is collective. `with` closes the Runtime at its end; if "
      "an exception ends the block, this rank leaves at once, and the other ranks get hmc.PeerFailed.\n\nThreads: "
      "calls of several threads on one Runtime are executed one after the other. A call that waits lets no other "
      "thread's "
      "call in: such threads use test(), or non-blocking calls.")
      .def_prop_ro(
          "rank", [](const RuntimeObject& self) { return self.job->runtime.rank(); }, "This rank's number.")
      .def_prop_ro(
          "size", [](const RuntimeObject& self) { return self.job->runtime.size(); }, "The number of ranks.")
      .def_prop_ro("world", world_of, "The Team of all ranks.", nb::sig("def world(self) -> Team"))
      .def_prop_ro(
          "node", [](const RuntimeObject& self) { return self.job->runtime.node(); }, "This rank's node.")
      .def_prop_ro("node_count", [](const RuntimeObject& self) { return self.job->runtime.node_count(); })
      .def(
          "node_of", [](const RuntimeObject& self, int rank) { return self.job->runtime.node(rank); }, nb::arg("rank"),
          "A rank's node.")
      .def(
          "path",
          [](RuntimeObject& self, int rank) { return quick(*self.job, [&] { return self.job->runtime.path(rank); }); },
          nb::arg("rank"), "The wire to a rank, and the reason for it.")
      .def_prop_ro(
          "launcher", [](const RuntimeObject& self) { return self.job->runtime.launcher(); },
          "\"hmcrun\", \"PMIx\", \"torchrun\", \"Slurm\", \"alone\", ...")
      .def_prop_ro(
          "is_replacement", [](const RuntimeObject& self) { return self.job->runtime.is_replacement(); },
          "True if this process replaces a process of its rank that has ended (Team.grow).")
      .def_prop_ro(
          "timeout",
          [](const RuntimeObject& self) { return std::chrono::duration<double>(self.job->runtime.timeout()).count(); },
          "The job's timeout in seconds (HMC_TIMEOUT_S).")
      .def("counters", counters_of, "Counters of this rank since init, as a dict.")
      .def(
          "abort",
          [](RuntimeObject& self, int exit_code, const std::string& text) { self.job->runtime.abort(exit_code, text); },
          nb::arg("exit_code") = 1, nb::arg("text") = "", "Abort the job: every rank's call raises hmc.Error.")
      .def("close", close, "Collective: wait for all ranks, and leave the job.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](RuntimeObject& self, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none()) return close(self);
            const Call call(*self.job);
            [[maybe_unused]] const hmc::Runtime left = std::move(self.job->runtime);
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none())
      .def("__repr__", [](const RuntimeObject& self) {
        return "<hmc.Runtime: rank " + std::to_string(self.job->runtime.rank()) + " of " +
               std::to_string(self.job->runtime.size()) + ">";
      });

  module.def("init", init,
             "Join the job of the launcher (hmcrun, mpirun, srun, torchrun, ...), and return the Runtime.\n\nWithout a "
             "launcher this process is rank 0 of 1. Raises hmc.Error if the environment shows a job of several ranks "
             "that this process can't join.\n\n>>> import hmc\n>>> with hmc.init() as rt:\n...     rt.rank, rt.size\n"
             "(0, 1)\n");
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of the package hmc, which documents it.";
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const hmc::Error& error) {
      raise(error);
    } catch (const std::bad_cast&) {  // of a nb::cast whose caller has no better text
      PyErr_SetString(PyExc_TypeError,
                      "an argument, or an attribute or item of one, has a type that the call doesn't take");
    }
  });
  module.attr("__version__") = HMC_VERSION_STRING;
  watch_waits();
  define_enums(module);
  define_requests(module);
  define_team(module);
  define_window(module);
  define_runtime(module);
  define_communicator(module);
  define_buffers(module);
  define_vmm(module);
}

}  // namespace hmc::python
