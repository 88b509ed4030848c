// hmc.Buffer's state, and its views: elements as numpy, torch, cupy and others read them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hmc/buffer.hpp>

#include "python/src/buffer.hpp"
#include "python/src/element.hpp"

namespace hmc::python {

/// A Buffer that Python objects and their views share.
///
/// THREADS. Calls hold the mutex and not the GIL.
struct Core {
  Core(DType type, hmc::Buffer<std::byte> buffer) : type(type), data(std::move(buffer)) {}
  std::size_t item() const noexcept { return hmc::size_of(type); }
  std::size_t count() const noexcept { return data.size() / item(); }
  const DType type;
  std::mutex mutex;
  hmc::Buffer<std::byte> data;
};

template <typename Function> auto locked(Core& core, Function&& function) {
  const Deferral later;
  const nb::gil_scoped_release unlocked;
  const std::scoped_lock lock(core.mutex);
  return function(core.data);
}

/// CUDA's or HIP's memory.
inline bool is_gpu(const hmc::Place& place) noexcept {
  const MemoryType type = hmc::detail::memory_type_of(place);
  return type == MemoryType::NVIDIA_GPU || type == MemoryType::AMD_GPU;
}

/// Elements at one address. Keeps the memory, and the Buffer if the memory is its own, because its stream orders them.
struct View {
  std::shared_ptr<Core> core;  ///< null for a copy, which is complete
  std::shared_ptr<std::byte> first;
  std::size_t count;
  DType type;
  hmc::Place place;

  const View& view() const { return *this; }
  const View& show() const { return *this; }
  std::size_t bytes() const noexcept { return count * hmc::size_of(type); }
  bool is_host() const noexcept { return hmc::detail::is_host_accessible(place); }
  bool is_gpu() const noexcept { return python::is_gpu(place); }
  void synchronize() const {
    if (core != nullptr) locked(*core, [](auto& data) { data.synchronize(); });
  }
};

/// hmc.Buffer. An object that has given its memory's address to an array interface keeps that memory, because the
/// consumer keeps this object and nothing else.
struct TypedBuffer {
  std::shared_ptr<Core> core;
  std::vector<std::shared_ptr<std::byte>> shown;

  View view() const {
    return locked(*core, [&](auto& data) -> View {
      return {core, data.share(), core->count(), core->type, data.place()};
    });
  }
  View show() {
    View made = view();
    if (shown.empty() || shown.back() != made.first) shown.push_back(made.first);
    return made;
  }
};

/// The attributes that other packages read. Each throws a Python exception where it doesn't apply.
nb::dict host_interface(const View& view);
nb::dict gpu_interface(const View& view);
nb::object dlpack(const View& view, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy);
nb::tuple device_of(const View& view);
nb::object numpy_array(nb::handle self, const View& view, nb::handle dtype, nb::handle copy);
nb::bytes bytes_of(const View& view);
std::string text_of(const char* name, const View& view);
int export_view(const View& view, PyObject* exporter, Py_buffer* out, int flags);
void release_view(PyObject* exporter, Py_buffer* view);

/// The buffer protocol of Buffer or BufferView.
template <typename Self> int export_buffer(PyObject* self, Py_buffer* out, int flags) {
  try {
    return export_view(nb::inst_ptr<Self>(nb::handle(self))->view(), self, out, flags);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
}
template <typename Self>
inline PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer<Self>)},
                                     {Py_bf_releasebuffer, reinterpret_cast<void*>(release_view)},
                                     {0, nullptr}};

/// What Buffer and BufferView have in common.
template <typename Self> void define_views(nb::class_<Self>& type, const char* name) {
  const auto none = nb::none();
  type.def_prop_ro("__array_interface__", [](Self& self) { return host_interface(self.show()); })
      .def_prop_ro("__cuda_array_interface__", [](Self& self) { return gpu_interface(self.show()); })
      .def(
          "__dlpack__",
          [](Self& self, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
            return dlpack(self.view(), stream, max_version, dl_device, copy);
          },
          nb::kw_only(), nb::arg("stream") = none, nb::arg("max_version") = none, nb::arg("dl_device") = none,
          nb::arg("copy") = none)
      .def("__dlpack_device__", [](Self& self) { return device_of(self.view()); })
      .def(
          "__array__",
          [](nb::handle self, nb::handle dtype, nb::handle copy) {
            return numpy_array(self, nb::cast<Self&>(self).view(), dtype, copy);
          },
          nb::arg("dtype") = none, nb::arg("copy") = none)
      .def("__bytes__", [](Self& self) { return bytes_of(self.view()); })
      .def("__len__", [](Self& self) { return self.view().count; })
      .def_prop_ro("shape", [](Self& self) { return nb::make_tuple(self.view().count); })
      .def_prop_ro("nbytes", [](Self& self) { return self.view().bytes(); })
      .def_prop_ro("itemsize", [](Self& self) { return hmc::size_of(self.view().type); })
      .def_prop_ro(
          "dtype", [](Self& self) { return element_of(self.view().type).numpy_name; }, "numpy's name of the elements.")
      .def_prop_ro(
          "allocator", [](Self& self) { return hmc::name_of(self.view().place.allocator); }, "\"cuda\", ...")
      .def_prop_ro("device", [](Self& self) { return self.view().place.device; })
      .def_prop_ro(
          "ptr", [](Self& self) { return reinterpret_cast<std::uintptr_t>(self.view().first.get()); },
          "The address of the first element; it may be a device's.")
      .def("__repr__", [name](Self& self) { return text_of(name, self.view()); });
}

}  // namespace hmc::python
