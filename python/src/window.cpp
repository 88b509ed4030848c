#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <string>

#include "python/src/buffer.hpp"
#include "python/src/objects.hpp"
#include "python/src/vmm.hpp"

namespace hmc::python {

void WindowObject::look_at(const hmc::Team& team) {
  rank = team.rank();
  is_mapped.clear();
  for (int i = 0; i < team.size(); ++i) is_mapped.push_back(window.ptr(i) != nullptr);
}

namespace {

/// Bytes of a rank's part, as an object with the buffer protocol. It shares the ownership of the mapping, so arrays
/// over it stay valid after the window is closed.
struct Memory {
  std::shared_ptr<std::byte> first;
  std::size_t bytes = 0;
};

int export_memory(PyObject* self, Py_buffer* view, int flags) {
  const Memory& memory = *nb::inst_ptr<Memory>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, memory.first.get(), static_cast<Py_ssize_t>(memory.bytes), 0, flags);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_memory)}, {0, nullptr}};

/// Null where load and store don't reach.
std::unique_ptr<Memory> memory_of(WindowObject& self, std::optional<int> rank, std::uint64_t offset,
                                  std::optional<std::size_t> bytes) {
  return quick(*self.job, [&]() -> std::unique_ptr<Memory> {
    const int part = rank.value_or(self.rank);
    const std::size_t size = self.window.bytes(part);
    const std::size_t length = bytes.value_or(size - std::min<std::size_t>(offset, size));
    if (offset > size || length > size - offset) {
      ErrorDetail detail;
      detail.code = Code::out_of_range;
      detail.operation = "Window.memory";
      detail.peer = part;
      detail.offset = offset;
      detail.size = length;
      detail.has_extent = true;
      detail.message = "the part has " + std::to_string(size) + " bytes";
      throw hmc::Error(std::move(detail));
    }
    std::shared_ptr<std::byte> first = part == self.rank && self.own != nullptr ? self.own : self.window.share(part);
    if (first == nullptr) return nullptr;
    std::byte* const at = first.get() + offset;
    return std::make_unique<Memory>(Memory{std::shared_ptr<std::byte>(std::move(first), at), length});
  });
}

/// The size that Window(team, nbytes) gets: an integer, also a numpy scalar. Anything else is memory.
std::size_t size_of_part(nb::handle object) {
  const auto fail = [&](PyObject* type, const std::string& why) {
    PyErr_SetString(type, ("Window: nbytes is " + nb::cast<std::string>(nb::str(object)) + "; " + why).c_str());
    throw nb::python_error();
  };
  if (PyFloat_Check(object.ptr()) != 0) fail(PyExc_TypeError, "a size is an integer");
  const nb::object dimensions = nb::getattr(object, "ndim", nb::int_(0));
  if (PyIndex_Check(object.ptr()) == 0 || !dimensions.equal(nb::int_(0))) throw nb::next_overload();
  const Py_ssize_t bytes = PyNumber_AsSsize_t(object.ptr(), PyExc_OverflowError);
  if (bytes == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (bytes < 0) fail(PyExc_ValueError, "a size isn't negative");
  return static_cast<std::size_t>(bytes);
}

void close(WindowObject& self) {
  blocking(*self.job, Among::none, [&] { self.window.close(); });
  self.own.reset();
}

/// numpy.ndarray over the memory; None where load and store don't reach.
nb::object array(WindowObject& self, nb::handle shape, nb::handle dtype, std::optional<int> rank,
                 std::uint64_t offset) {
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object type = numpy.attr("dtype")(dtype);
  if (nb::cast<bool>(type.attr("hasobject")))
    throw nb::type_error("Window.array: elements of type object are pointers, which are valid in one process only");
  std::size_t bytes = nb::cast<std::size_t>(type.attr("itemsize"));
  const auto multiply = [&](nb::handle extent) {
    const Py_ssize_t count = PyNumber_AsSsize_t(extent.ptr(), PyExc_ValueError);
    if (count == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (count < 0) throw nb::value_error("Window.array: the shape has a negative extent");
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(count), &bytes))
      throw nb::value_error("Window.array: the shape has more elements than memory can hold");
  };
  if (PyIndex_Check(shape.ptr()) != 0) {
    multiply(shape);
  } else {
    for (const nb::handle extent : shape) multiply(extent);
  }
  std::unique_ptr<Memory> memory = memory_of(self, rank, offset, bytes);
  if (memory == nullptr) return nb::none();
  return numpy.attr("ndarray")(shape, type, nb::cast(std::move(memory)));
}

/// The longest copy that keeps the GIL: it takes less time than releasing the GIL and getting it back.
constexpr std::size_t short_copy = 4096;

/// True if a transfer is a short copy by this thread, or fails at once.
bool is_short(const WindowObject& self, int rank, std::size_t bytes) noexcept {
  const auto index = static_cast<std::size_t>(rank);
  return bytes <= short_copy && index < self.is_mapped.size() && self.is_mapped[index];
}

void put(WindowObject& self, int rank, std::uint64_t offset, nb::handle source) {
  const Array array("put", "source", source, Access::read);
  if (is_short(self, rank, array.bytes()))
    return quick(*self.job, [&] { self.window.put(rank, offset, array.data(), array.bytes()); });
  blocking(*self.job, [&] { self.window.put(rank, offset, array.data(), array.bytes()); });
}

nb::object get(WindowObject& self, int rank, std::uint64_t offset, nb::handle out) {
  const Array array("get", "out", out, Access::write);
  if (is_short(self, rank, array.bytes()))
    quick(*self.job, [&] { self.window.get(rank, offset, array.data(), array.bytes()); });
  else
    blocking(*self.job, [&] { self.window.get(rank, offset, array.data(), array.bytes()); });
  return nb::borrow(out);
}

RequestObject* put_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle source) {
  std::vector<Array> arrays;
  arrays.emplace_back("put_nb", "source", source, Access::read);
  const Array& array = arrays.front();
  hmc::Request request =
      blocking(*self.job, [&] { return self.window.put_nb(rank, offset, array.data(), array.bytes()); });
  self.job->sweep();
  return new RequestObject(self, std::move(request), std::move(arrays), nb::none());
}

RequestObject* get_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle out) {
  std::vector<Array> arrays;
  arrays.emplace_back("get_nb", "out", out, Access::write);
  const Array& array = arrays.front();
  hmc::Request request =
      blocking(*self.job, [&] { return self.window.get_nb(rank, offset, array.data(), array.bytes()); });
  self.job->sweep();
  return new RequestObject(self, std::move(request), std::move(arrays), nb::borrow(out));
}

void put_signal(WindowObject& self, int rank, std::uint64_t offset, nb::handle source, std::uint64_t signal_offset,
                std::uint64_t value) {
  const Array array("put_signal", "source", source, Access::read);
  const auto call = [&] { self.window.put_signal(rank, offset, array.data(), array.bytes(), signal_offset, value); };
  if (is_short(self, rank, array.bytes())) return quick(*self.job, call);
  blocking(*self.job, call);
}

std::uint64_t wait_until(WindowObject& self, std::uint64_t offset, nb::handle compare, std::uint64_t value,
                         std::optional<double> seconds) {
  const hmc::Cmp comparison = comparison_of(compare);
  const hmc::Timeout timeout = timeout_of(seconds, "wait_until");
  return blocking(*self.job, [&] { return self.window.wait_until(offset, comparison, value, timeout); });
}

// ---- atomics

[[noreturn]] void throw_no_word(const char* operation) {
  throw nb::type_error((std::string(operation) + ": atomics take the element types i32, u32, i64 and u64").c_str());
}

template <typename T> T word_of(const char* operation, nb::handle value) {
  T word{};
  if (!nb::try_cast(value, word))
    throw nb::value_error((std::string(operation) + ": the value isn't an integer of the element type").c_str());
  return word;
}

/// Calls function(T{}) with the type that `dtype` names; i64 if it is None.
template <typename Function> auto with_word(const char* operation, nb::handle dtype, const Function& function) {
  if (dtype.is_none()) return function(std::int64_t{});
  switch (python::dtype_of(dtype)) {
    case DType::i32: return function(std::int32_t{});
    case DType::u32: return function(std::uint32_t{});
    case DType::i64: return function(std::int64_t{});
    case DType::u64: return function(std::uint64_t{});
    default: throw_no_word(operation);
  }
}

/// An atomic on mapped memory is one instruction; any other may wait.
template <typename Function> auto atomic(WindowObject& self, int rank, const Function& function) {
  if (is_short(self, rank, 8)) return quick(*self.job, function);
  return blocking(*self.job, function);
}

#define HMC_FETCHING(name)                                                                                  \
  nb::object name(WindowObject& self, int rank, std::uint64_t offset, nb::handle value, nb::handle dtype) { \
    return with_word(#name, dtype, [&](auto kind) -> nb::object {                                           \
      using T = decltype(kind);                                                                             \
      const T word = word_of<T>(#name, value);                                                              \
      return nb::int_(atomic(self, rank, [&] { return self.window.name<T>(rank, offset, word); }));         \
    });                                                                                                     \
  }
#define HMC_UPDATING(name)                                                                            \
  void name(WindowObject& self, int rank, std::uint64_t offset, nb::handle value, nb::handle dtype) { \
    with_word(#name, dtype, [&](auto kind) {                                                          \
      using T = decltype(kind);                                                                       \
      const T word = word_of<T>(#name, value);                                                        \
      atomic(self, rank, [&] { self.window.name<T>(rank, offset, word); });                           \
    });                                                                                               \
  }
HMC_FETCHING(fetch_add)
HMC_FETCHING(fetch_and)
HMC_FETCHING(fetch_or)
HMC_FETCHING(fetch_xor)
HMC_FETCHING(swap)
HMC_UPDATING(add)
HMC_UPDATING(set)
HMC_UPDATING(atomic_and)
HMC_UPDATING(atomic_or)
HMC_UPDATING(atomic_xor)

nb::object fetch(WindowObject& self, int rank, std::uint64_t offset, nb::handle dtype) {
  return with_word("fetch", dtype, [&](auto kind) -> nb::object {
    using T = decltype(kind);
    return nb::int_(atomic(self, rank, [&] { return self.window.fetch<T>(rank, offset); }));
  });
}

nb::object compare_swap(WindowObject& self, int rank, std::uint64_t offset, nb::handle expected, nb::handle desired,
                        nb::handle dtype) {
  return with_word("compare_swap", dtype, [&](auto kind) -> nb::object {
    using T = decltype(kind);
    const T from = word_of<T>("compare_swap", expected), to = word_of<T>("compare_swap", desired);
    return nb::int_(atomic(self, rank, [&] { return self.window.compare_swap<T>(rank, offset, from, to); }));
  });
}

/// `call_of(T* old)` returns the function that starts the atomic on words of type T.
template <typename CallOf>
RequestObject* start_atomic(const char* operation, WindowObject& self, int rank, nb::handle dtype,
                            const CallOf& call_of) {
  return with_word(operation, dtype, [&](auto kind) {
    nb::object result = nb::cast(OldValue{kind});
    auto* const old = std::get_if<decltype(kind)>(&nb::inst_ptr<OldValue>(result)->word);
    hmc::Request request = atomic(self, rank, call_of(old));
    self.job->sweep();
    return new RequestObject(self, std::move(request), {}, std::move(result));
  });
}

RequestObject* fetch_add_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle value, nb::handle dtype) {
  return start_atomic("fetch_add_nb", self, rank, dtype, [&]<typename T>(T* old) {
    const T word = word_of<T>("fetch_add_nb", value);
    return [&self, rank, offset, word, old] { return self.window.fetch_add_nb<T>(rank, offset, word, old); };
  });
}

RequestObject* swap_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle value, nb::handle dtype) {
  return start_atomic("swap_nb", self, rank, dtype, [&]<typename T>(T* old) {
    const T word = word_of<T>("swap_nb", value);
    return [&self, rank, offset, word, old] { return self.window.swap_nb<T>(rank, offset, word, old); };
  });
}

RequestObject* compare_swap_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle expected,
                               nb::handle desired, nb::handle dtype) {
  return start_atomic("compare_swap_nb", self, rank, dtype, [&]<typename T>(T* old) {
    const T from = word_of<T>("compare_swap_nb", expected), to = word_of<T>("compare_swap_nb", desired);
    return [&self, rank, offset, from, to, old] { return self.window.compare_swap_nb<T>(rank, offset, from, to, old); };
  });
}

RequestObject* fetch_nb(WindowObject& self, int rank, std::uint64_t offset, nb::handle dtype) {
  return start_atomic("fetch_nb", self, rank, dtype, [&]<typename T>(T* old) {
    return [&self, rank, offset, old] { return self.window.fetch_nb<T>(rank, offset, old); };
  });
}

}  // namespace

void define_window(nb::module_& module) {
  using H = nb::handle;
  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots),
                     "Bytes of a window's part, with the buffer protocol: memoryview(memory), numpy.asarray(memory), "
                     "torch.frombuffer(memory, dtype=...).\n\nThe memory stays mapped while it, or a view of it, "
                     "exists, also after the window is closed. Then it is no part of a window any more: puts of other "
                     "ranks don't reach it.")
      .def_prop_ro("nbytes", [](const Memory& self) { return self.bytes; })
      .def("__len__", [](const Memory& self) { return self.bytes; });

  nb::class_<WindowObject> window(
      module, "Window",
      "A symmetric window: each rank of the team exposes a part of `nbytes` bytes, and every rank accesses all parts "
      "one-sided (RMA).\n\nCreation and close are collective. `with` closes the window at its end; if an exception "
      "ends the block, this rank only drops the window, because the other ranks may not come.\n\n"
      "- put returns when the source may be reused; flush returns when the bytes are visible at the target.\n"
      "- fence orders earlier puts and atomics to a rank before later ones.\n"
      "- put_signal: a rank that sees the signal value (wait_until) sees the bytes.\n"
      "- Team.barrier completes the caller's earlier puts, as flush does.\n\n"
      ">>> import hmc, numpy as np\n"
      ">>> with hmc.init() as rt, hmc.Window(rt.world, 1024) as win:\n"
      "...     right = (rt.rank + 1) % rt.size\n"
      "...     win.put_signal(right, 0, np.array([3.5]), 64, 1)\n"
      "...     seen = win.wait_until(64, \">=\", 1)\n"
      "...     value = win.array(1, float)[0]\n"
      ">>> seen, float(value)\n"
      "(1, 3.5)\n");
  const auto rank = nb::arg("rank");
  const auto offset = nb::arg("offset");
  const auto value = nb::arg("value");
  const auto dtype = nb::arg("dtype") = nb::none();
  window
      .def(
          "__init__",
          [](WindowObject* self, TeamObject& team, nb::handle size) {
            const std::size_t bytes = size_of_part(size);
            hmc::Window made =
                blocking(*team.job, Among::others, [&] { return hmc::Window::create(team.team, bytes); });
            new (self) WindowObject(team.job, std::move(made), team.team);
          },
          nb::arg("team"), nb::arg("nbytes"), nb::sig("def __init__(self, team: Team, nbytes: int) -> None"),
          "Collective over the team: allocate this rank's part, zeroed. The size may differ by rank.")
      .def(
          "__init__",
          [](WindowObject* self, TeamObject& team, nb::handle memory) {
            if (nb::isinstance<MappingObject>(memory)) {
              auto& mapping = nb::cast<MappingObject&>(memory);
              hmc::Window made = blocking(*team.job, Among::others, [&] {
                const auto buffer = [&] {
                  const std::scoped_lock lock(mapping.mutex);
                  return mapping.object.conn_buffer();
                }();
                return hmc::Window::create(team.team, buffer);
              });
              new (self) WindowObject(team.job, std::move(made), team.team);
              return;
            }
            Array array("Window", "memory", memory, Access::write);
            const std::size_t bytes = array.bytes();
            std::shared_ptr<std::byte> owner = owner_of(std::move(array));
            const bool is_host = hmc::detail::is_host_accessible(hmc::Place::of(owner.get()));
            hmc::Window made = blocking(*team.job, Among::others, [&] {
              return hmc::Window::create(team.team, hmc::ConnBuffer::borrow(owner.get(), bytes, owner));
            });
            new (self) WindowObject(team.job, std::move(made), team.team);
            if (is_host) self->own = std::move(owner);
          },
          nb::arg("team"), nb::arg("memory"), nb::sig("def __init__(self, team: Team, memory: object) -> None"),
          "Collective over the team: expose existing memory, without a copy, for example a tensor, an hmc.Buffer "
          "or an hmc.Mapping. "
          "The window keeps it. Peers reach pageable host memory through a thread of this process, which is slower "
          "than a window of `nbytes`; array() and memory() of such a part are None on other ranks.")
      .def_prop_ro(
          "nbytes", [](const WindowObject& self) { return self.window.bytes(); }, "The size of this rank's part.")
      .def(
          "nbytes_of", [](const WindowObject& self, int r) { return self.window.bytes(r); }, rank,
          "The size of a rank's part.")
      .def_prop_ro("is_open", [](const WindowObject& self) { return self.window.is_open(); })
      .def("array", array, nb::arg("shape"), nb::arg("dtype") = "uint8", nb::arg("rank") = nb::none(),
           nb::arg("offset") = 0,
           "A numpy array over a rank's part (None: this rank's), from byte `offset`. None if load and store don't "
           "reach the part, for example on another node.\n\nThe array keeps the memory mapped, also after the window "
           "is closed; then puts of other ranks don't reach it any more.")
      .def("memory", memory_of, nb::arg("rank") = nb::none(), nb::arg("offset") = 0, nb::arg("nbytes") = nb::none(),
           "A rank's part as an object with the buffer protocol; None if load and store don't reach it.")
      .def("put", put, rank, offset, nb::arg("source"),
           "Copy an array to byte `offset` of a rank's part. Returns when the array may be changed.")
      .def("get", get, rank, offset, nb::arg("out"),
           "Copy bytes from byte `offset` of a rank's part into `out`. Returns `out` when they have arrived.")
      .def("put_nb", put_nb, rank, offset, nb::arg("source"), "Start a put, and return its Request.")
      .def("get_nb", get_nb, rank, offset, nb::arg("out"), "Start a get, and return its Request.")
      .def("put_signal", put_signal, rank, offset, nb::arg("source"), nb::arg("signal_offset"), value,
           "put, then store `value` in the 64-bit word at `signal_offset` of the same part.")
      .def("wait_until", wait_until, offset, nb::arg("compare"), value, nb::arg("timeout") = nb::none(),
           "Wait until the 64-bit word at `offset` of this rank's part satisfies `word compare value`, and return the "
           "word. compare: \"==\", \"!=\", \"<\", \"<=\", \">\", \">=\", or hmc.Cmp. timeout: in seconds; then "
           "hmc.Timeout.")
      .def(
          "test_until",
          [](WindowObject& self, std::uint64_t at, H compare, std::uint64_t wanted) {
            const hmc::Cmp comparison = comparison_of(compare);
            return quick(*self.job, [&] { return self.window.test_until(at, comparison, wanted); });
          },
          offset, nb::arg("compare"), value, "The condition of wait_until, without waiting.")
      .def("fetch", fetch, rank, offset, dtype,
           "Read a word atomically. dtype: \"i64\" (default), \"u64\", \"i32\", \"u32\".")
      .def("fetch_add", fetch_add, rank, offset, value, dtype, "Add to a word; return its old value.")
      .def("fetch_and", fetch_and, rank, offset, value, dtype, "Bitwise and; return the old value.")
      .def("fetch_or", fetch_or, rank, offset, value, dtype, "Bitwise or; return the old value.")
      .def("fetch_xor", fetch_xor, rank, offset, value, dtype, "Bitwise exclusive or; return the old value.")
      .def("swap", swap, rank, offset, value, dtype, "Replace a word; return its old value.")
      .def("compare_swap", compare_swap, rank, offset, nb::arg("expected"), nb::arg("desired"), dtype,
           "Replace a word by `desired` if it equals `expected`; return its old value.")
      .def("fetch_nb", fetch_nb, rank, offset, dtype, "Start a fetch, and return its Request: wait() returns the word.")
      .def("fetch_add_nb", fetch_add_nb, rank, offset, value, dtype,
           "Start a fetch_add, and return its Request: wait() returns the old value. Many may be in flight: between "
           "nodes they share messages. They aren't ordered with each other, except by fence().")
      .def("swap_nb", swap_nb, rank, offset, value, dtype, "Start a swap, as fetch_add_nb does.")
      .def("compare_swap_nb", compare_swap_nb, rank, offset, nb::arg("expected"), nb::arg("desired"), dtype,
           "Start a compare_swap, as fetch_add_nb does.")
      .def("add", add, rank, offset, value, dtype, "Add to a word. Returns as put does.")
      .def("set", set, rank, offset, value, dtype, "Replace a word. Returns as put does.")
      .def("atomic_and", atomic_and, rank, offset, value, dtype, "Bitwise and. Returns as put does.")
      .def("atomic_or", atomic_or, rank, offset, value, dtype, "Bitwise or. Returns as put does.")
      .def("atomic_xor", atomic_xor, rank, offset, value, dtype, "Bitwise exclusive or. Returns as put does.")
      .def(
          "fence", [](WindowObject& self) { blocking(*self.job, [&] { self.window.fence(); }); },
          "Earlier puts and atomics to a rank become visible there before later ones.")
      .def(
          "flush",
          [](WindowObject& self, std::optional<int> target, std::optional<double> seconds) {
            const hmc::Timeout timeout = timeout_of(seconds, "flush");
            blocking(*self.job, [&] {
              if (target)
                self.window.flush(*target, timeout);
              else
                self.window.flush(timeout);
            });
          },
          nb::arg("rank") = nb::none(), nb::arg("timeout") = nb::none(),
          "Wait until earlier puts and atomics, to one rank or to all, are visible at their targets.")
      .def(
          "alloc",
          [](WindowObject& self, std::size_t bytes, std::size_t align) {
            return quick(*self.job, [&] { return self.window.alloc(bytes, align); });
          },
          nb::arg("nbytes"), nb::arg("align") = 64,
          "Allocate in the window: the same offset on every rank, if all ranks make the same calls in the same order.")
      .def(
          "free", [](WindowObject& self, std::uint64_t at) { quick(*self.job, [&] { self.window.free(at); }); }, offset,
          "Free an allocation of alloc.")
      .def(
          "path", [](WindowObject& self, int r) { return blocking(*self.job, [&] { return self.window.path(r); }); },
          rank, "The wire to a rank's part, and the reason for it.")
      .def(
          "rebind",
          [](WindowObject& self, TeamObject& team) {
            blocking(*self.job, Among::none, [&] { self.window.rebind(team.team); });
            self.look_at(team.team);
          },
          nb::arg("team"), "Collective, after Team.shrink or Team.grow: expose the same memory to this team.")
      .def("close", close,
           "Collective: complete this rank's puts, wait for all ranks, and end the window. Arrays over it stay valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](WindowObject& self, H type, H, H) {
            if (!self.window.is_open()) return;
            if (type.is_none()) return close(self);
            self.job->retire(std::move(self.window));
            self.own.reset();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none())
      .def("__repr__", [](const WindowObject& self) {
        if (!self.window.is_open()) return std::string("<hmc.Window: closed>");
        return "<hmc.Window: " + std::to_string(self.window.bytes()) + " bytes on this rank>";
      });
}

}  // namespace hmc::python
