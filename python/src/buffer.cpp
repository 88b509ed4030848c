// hmc.Buffer: hmc::Buffer's memory with an element type; and its views, which numpy, torch, cupy and others read.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/buffer.hpp>

#include "python/src/buffer.hpp"
#include "python/src/dlpack.hpp"
#include "python/src/element.hpp"
#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

// ---- places and orders, by name
hmc::Place place_of(const std::string& name, std::optional<int> device) {
  std::string text = "Buffer: no allocator '" + name + "'; there are";
  for (int i = 0; i < hmc::allocator_count; ++i) {
    const auto allocator = static_cast<hmc::Allocator>(i);
    if (allocator == hmc::Allocator::window) continue;
    if (name == hmc::name_of(allocator)) {
      if (device) return {allocator, *device};
      return hmc::Place::current(allocator);
    }
    text += std::string(" ") + hmc::name_of(allocator);
  }
  throw nb::value_error(text.c_str());
}

constexpr const char* mode_names[] = {"async", "sync_host", "sync"};

/// 0 and 1 are the legacy default stream, 2 is the calling thread's, as in __cuda_array_interface__.
hmc::TransferOrder order_of(const std::string& mode, std::optional<std::uintptr_t> stream) {
  for (int i = 0; i < 3; ++i) {
    if (mode != mode_names[i]) continue;
    const auto wanted = static_cast<hmc::TransferMode>(i);
    if (!stream) return wanted;
    return {wanted, reinterpret_cast<void*>(*stream <= 1 ? 0 : *stream)};
  }
  throw nb::value_error(("Buffer: no mode '" + mode + "'; there are async, sync_host and sync").c_str());
}

/// Throws BufferError if DLPack has no number for this kind of memory.
nb::dlpack::device dlpack_device_of(const hmc::Place& place) {
  const bool is_host = hmc::detail::is_host_accessible(place);
  switch (place.allocator) {
    case hmc::Allocator::cuda:
    case hmc::Allocator::cuda_async: return {dlpack_device::cuda, place.device};
    case hmc::Allocator::cuda_pinned: return {dlpack_device::cuda_pinned, 0};
    case hmc::Allocator::cuda_managed: return {dlpack_device::cuda_managed, place.device};
    case hmc::Allocator::hip:
    case hmc::Allocator::hip_async:
    case hmc::Allocator::hip_managed: return {dlpack_device::rocm, place.device};
    case hmc::Allocator::hip_pinned: return {dlpack_device::rocm_pinned, 0};
    default: break;
  }
  if (is_host) return {dlpack_device::cpu, 0};
  throw nb::buffer_error((std::string("DLPack has no number for memory of ") + hmc::name_of(place.allocator)).c_str());
}

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
  const nb::gil_scoped_release unlocked;
  const std::scoped_lock lock(core.mutex);
  return function(core.data);
}

/// Elements at one address. Keeps the memory, and the Buffer if the memory is its own, because its stream orders them.
struct View {
  std::shared_ptr<Core> core;  ///< null for a copy, which is complete
  std::shared_ptr<std::byte> first;
  std::size_t count;
  DType type;
  hmc::Place place;

  bool is_host() const noexcept { return hmc::detail::is_host_accessible(place); }
  bool is_gpu() const noexcept {
    const MemoryType type = hmc::detail::memory_type_of(place);
    return type == MemoryType::NVIDIA_GPU || type == MemoryType::AMD_GPU;
  }
  void synchronize() const {
    if (core != nullptr) locked(*core, [](auto& data) { data.synchronize(); });
  }
};

nb::dict interface_of(const View& view, const std::byte* first) {
  const char* const typestr = element_of(view.type).typestr;
  nb::dict made;
  made["shape"] = nb::make_tuple(view.count);
  made["typestr"] = typestr;
  nb::list descr;
  descr.append(nb::make_tuple("", typestr));
  made["descr"] = descr;
  made["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(first), false);
  made["strides"] = nb::none();
  made["version"] = 3;
  return made;
}

nb::dict host_interface(const View& view) {
  if (!view.is_host()) throw nb::attribute_error("the host can't access this memory; host() returns a copy");
  view.synchronize();
  static const std::byte nothing{};  // numpy refuses a null address, also of an empty array
  return interface_of(view, view.first == nullptr ? &nothing : view.first.get());
}

nb::dict gpu_interface(const View& view) {
  if (!view.is_gpu()) throw nb::attribute_error("CUDA and HIP can't access this memory; on(\"cuda\") returns a copy");
  nb::dict made = interface_of(view, view.count == 0 ? nullptr : view.first.get());
  std::uintptr_t stream = 0;
  if (view.core != nullptr)
    stream = locked(*view.core, [](auto& data) -> std::uintptr_t {
      const bool is_queued = data.order().has_stream || data.mode() != hmc::TransferMode::sync;
      if (!is_queued) return 0;
      return std::max(reinterpret_cast<std::uintptr_t>(data.stream()), std::uintptr_t{1});  // 1: the default stream
    });
  made["stream"] = stream == 0 ? nb::object(nb::none()) : nb::object(nb::int_(stream));
  return made;
}

/// What a capsule's tensor refers to.
template <typename Tensor> struct Exported {
  Tensor tensor;
  std::shared_ptr<std::byte> memory;
  std::int64_t shape, stride = 1;
};

template <typename Tensor>
constexpr const char* capsule_name = std::is_same_v<Tensor, VersionedTensor> ? "dltensor_versioned" : "dltensor";

template <typename Tensor> nb::object capsule_of(const View& view, std::uint64_t flags) {
  const nb::dlpack::device device = dlpack_device_of(view.place);
  auto* const made = new Exported<Tensor>{{}, view.first, static_cast<std::int64_t>(view.count)};
  auto& tensor = made->tensor.tensor;
  tensor.data = view.count == 0 ? nullptr : view.first.get();
  tensor.device = device;
  tensor.ndim = 1;
  tensor.dtype = element_of(view.type).dlpack;
  tensor.shape = &made->shape;
  tensor.strides = &made->stride;
  made->tensor.context = made;
  made->tensor.deleter = [](Tensor* each) { delete static_cast<Exported<Tensor>*>(each->context); };
  if constexpr (std::is_same_v<Tensor, VersionedTensor>) made->tensor.flags = flags;
  // A consumer that takes the tensor renames the capsule and calls the deleter itself.
  const auto drop = [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, capsule_name<Tensor>) == 0) return;
    auto* const each = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, capsule_name<Tensor>));
    each->deleter(each);
  };
  PyObject* const capsule = PyCapsule_New(&made->tensor, capsule_name<Tensor>, drop);
  if (capsule == nullptr) {
    delete made;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

/// A copy of all elements in the same kind of memory.
View copy_of(const View& view) {
  view.synchronize();
  const nb::gil_scoped_release unlocked;
  const std::size_t bytes = view.count * hmc::size_of(view.type);
  const auto core = std::make_shared<Core>(view.type, hmc::Buffer<std::byte>(view.place, view.first.get(), bytes));
  return {core, core->data.share(), view.count, view.type, view.place};
}

nb::object dlpack(const View& view, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  const nb::dlpack::device device = dlpack_device_of(view.place);
  if (!dl_device.is_none()) {
    const auto [type, number] = nb::cast<std::pair<int, int>>(dl_device);
    if (type != device.device_type || number != device.device_id)
      throw nb::buffer_error("__dlpack__: the memory is on another device; copy it by host() or on()");
  }
  const bool copies = !copy.is_none() && nb::cast<bool>(copy);
  // The memory is complete for any stream of the consumer; -1 states that the consumer needs no order.
  if (!copies && (stream.is_none() || nb::cast<long>(stream) != -1)) view.synchronize();
  const View& exported = copies ? copy_of(view) : view;
  const bool versioned = !max_version.is_none() && nb::cast<int>(nb::object(max_version[0])) >= 1;
  if (!versioned) return capsule_of<LegacyTensor>(exported, 0);
  return capsule_of<VersionedTensor>(exported, copies ? VersionedTensor::is_copied : 0);
}

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

/// Elements in memory that a technology can access: the Buffer's own, or a copy.
View accessible(const TypedBuffer& self, const std::string& technology, std::optional<int> device) {
  hmc::Place wanted(hmc::Allocator::host_malloc);
  if (technology == "device")
    wanted = hmc::Place::current(hmc::detail::allocator_for(hmc::detail::resolved(MemoryType::DEFAULT)));
  else if (technology != "host")
    wanted = place_of(technology, device);
  return locked(*self.core, [&](auto& data) -> View {
    const bool is_openmp = wanted.allocator == hmc::Allocator::openmp;
    const MemoryType type = hmc::detail::memory_type_of(wanted);
    auto first = is_openmp ? data.get_openmp_accessible(wanted.device) : data.get_accessible(type, wanted.device);
    const std::size_t count = self.core->count();
    if (first.get() == data.data()) return {self.core, std::move(first), count, self.core->type, data.place()};
    data.synchronize();
    if (type == MemoryType::CPU) return {nullptr, std::move(first), count, self.core->type, wanted};
    return {nullptr, std::move(first), count, self.core->type, {hmc::detail::allocator_for(type), wanted.device}};
  });
}

/// An array of the Buffer's element type.
Array array_of(const char* operation, const TypedBuffer& self, nb::handle object, Access access) {
  Array array(operation, access == Access::read ? "array" : "out", object, access);
  if (array.type() && *array.type() != self.core->type)
    throw nb::type_error((std::string(operation) + ": the array's elements are " + hmc::name_of(*array.type()) +
                          ", the buffer's are " + hmc::name_of(self.core->type))
                             .c_str());
  return array;
}

/// Calls function(data, bytes, size) with elements. A source on a device is complete at return, because the caller may
/// drop it.
template <typename Function>
void with_elements(const char* operation, TypedBuffer& self, nb::handle object, const Function& function) {
  const Array array = array_of(operation, self, object, Access::read);
  const auto* const bytes = static_cast<const std::byte*>(array.data());
  locked(*self.core, [&](auto& data) {
    function(data, bytes, array.bytes());
    if (array.bytes() > 0 && !hmc::detail::is_host_accessible(hmc::Place::of(bytes))) data.synchronize();
  });
}

std::size_t checked_index(const TypedBuffer& self, std::ptrdiff_t index) {
  const auto count = static_cast<std::ptrdiff_t>(self.view().count);
  if (index < -count || index >= count) throw nb::index_error("Buffer: no element with this index");
  return static_cast<std::size_t>(index < 0 ? index + count : index) * self.core->item();
}

nb::object item(TypedBuffer& self, std::ptrdiff_t index) {
  const std::size_t at = checked_index(self, index);
  std::array<std::byte, 8> bytes;
  locked(*self.core, [&](auto& data) {
    data.get(at, bytes.data(), self.core->item());
    data.synchronize();
  });
  return number_at(self.core->type, bytes.data());
}

nb::list list_of(TypedBuffer& self) {
  std::vector<std::byte> bytes;
  locked(*self.core, [&](auto& data) {
    bytes.resize(data.size());
    data.get(0, bytes.data(), bytes.size());
    data.synchronize();
  });
  nb::list all;
  for (std::size_t at = 0; at < bytes.size(); at += self.core->item())
    all.append(number_at(self.core->type, bytes.data() + at));
  return all;
}

std::size_t bytes_of(DType type, std::size_t count) {
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / hmc::size_of(type))
    throw hmc::Error(Code::out_of_memory, "Buffer", "more elements than memory can hold");
  return count * hmc::size_of(type);
}

void resize(TypedBuffer& self, std::size_t count, nb::handle value) {
  const std::size_t bytes = bytes_of(self.core->type, count), before = self.view().count;
  std::vector<std::byte> fresh;
  if (count > before && !value.is_none()) fresh = filled(self.core->type, count - before, value);
  locked(*self.core, [&](auto& data) {
    data.resize(bytes);
    data.set(bytes - fresh.size(), fresh.data(), fresh.size());
  });
}

void construct(TypedBuffer* self, std::size_t count, nb::handle dtype, const std::string& allocator,
               std::optional<int> device, nb::handle value, const std::string& mode,
               std::optional<std::uintptr_t> stream) {
  const DType type = element_type_of(dtype);
  const hmc::Place place = place_of(allocator, device);
  auto core = std::make_shared<Core>(type, hmc::Buffer<std::byte>(place, order_of(mode, stream)));
  TypedBuffer made{std::move(core), {}};
  resize(made, count, value);
  new (self) TypedBuffer(std::move(made));
}

TypedBuffer* from_array(nb::handle object, const std::string& mode, std::optional<std::uintptr_t> stream) {
  Array array("Buffer.from_array", "array", object, Access::write);
  if (!array.type() || static_cast<std::size_t>(*array.type()) >= element_count)
    throw nb::type_error("Buffer.from_array: the array has an element type that buffers don't have");
  const DType type = *array.type();
  const std::size_t bytes = array.bytes();
  const hmc::Place place = bytes == 0 ? hmc::Place(hmc::Allocator::host_malloc) : hmc::Place::of(array.data());
  const hmc::TransferOrder order = order_of(mode, stream);
  auto data = hmc::Buffer<std::byte>::adopt(place, owner_of(std::move(array)), bytes, order);
  return new TypedBuffer{std::make_shared<Core>(type, std::move(data)), {}};
}

TypedBuffer* copied(TypedBuffer& self, std::optional<std::string> allocator, std::optional<int> device) {
  const hmc::Place place = allocator ? place_of(*allocator, device) : self.view().place;
  return locked(*self.core, [&](auto& data) {
    const bool same = place == data.place();
    auto made = same ? hmc::Buffer<std::byte>(data) : hmc::Buffer<std::byte>(place, data, data.mode());
    return new TypedBuffer{std::make_shared<Core>(self.core->type, std::move(made)), {}};
  });
}

std::string text_of(const char* name, const hmc::Place& place, DType type, std::size_t count) {
  return std::string("<hmc.") + name + ": " + std::to_string(count) + " " + hmc::name_of(type) + " in " +
         hmc::name_of(place.allocator) + " memory of device " + std::to_string(place.device) + ">";
}

[[noreturn]] nb::object refuse_conversion() {
  throw nb::type_error("the host can't access this memory; host() returns a copy that numpy accepts");
}

/// What Buffer and BufferView have in common. `view` returns the View of an object, `show` the same for a consumer that
/// gets an address only.
template <typename Class, typename ViewOf, typename Show>
void define_views(Class& type, const char* name, const ViewOf& view, const Show& show) {
  using Self = typename Class::Type;
  const auto none = nb::none();
  type.def_prop_ro("__array_interface__", [show](Self& self) { return host_interface(show(self)); })
      .def_prop_ro("__cuda_array_interface__", [show](Self& self) { return gpu_interface(show(self)); })
      .def(
          "__dlpack__",
          [view](Self& self, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
            return dlpack(view(self), stream, max_version, dl_device, copy);
          },
          nb::kw_only(), nb::arg("stream") = none, nb::arg("max_version") = none, nb::arg("dl_device") = none,
          nb::arg("copy") = none)
      .def("__dlpack_device__",
           [view](Self& self) {
             const nb::dlpack::device device = dlpack_device_of(view(self).place);
             return nb::make_tuple(device.device_type, device.device_id);
           })
      .def("__array__", [](Self&, nb::args, nb::kwargs) { return refuse_conversion(); })
      .def("__len__", [view](Self& self) { return view(self).count; })
      .def_prop_ro("shape", [view](Self& self) { return nb::make_tuple(view(self).count); })
      .def_prop_ro("nbytes",
                   [view](Self& self) {
                     const View v = view(self);
                     return v.count * hmc::size_of(v.type);
                   })
      .def_prop_ro("itemsize", [view](Self& self) { return hmc::size_of(view(self).type); })
      .def_prop_ro(
          "dtype", [view](Self& self) { return element_of(view(self).type).numpy_name; },
          "numpy's name of the elements.")
      .def_prop_ro(
          "allocator", [view](Self& self) { return hmc::name_of(view(self).place.allocator); }, "\"cuda\", ...")
      .def_prop_ro("device", [view](Self& self) { return view(self).place.device; })
      .def_prop_ro(
          "ptr", [view](Self& self) { return reinterpret_cast<std::uintptr_t>(view(self).first.get()); },
          "The address of the first element; it may be a device's.")
      .def("__repr__", [view, name](Self& self) {
        const View v = view(self);
        return text_of(name, v.place, v.type, v.count);
      });
}

}  // namespace

std::shared_ptr<std::byte> owner_of(Array array) {
  array.keep();
  auto* const kept = new Array(std::move(array));
  auto* const first = static_cast<std::byte*>(kept->data());
  return {first, [kept](std::byte*) {
            if (Py_IsInitialized() == 0) return;  // the interpreter has ended, and with it the array
            const nb::gil_scoped_acquire locked;
            delete kept;
          }};
}

void define_buffers(nb::module_& module) {
  const auto none = nb::none();
  nb::class_<View> view(
      module, "BufferView",
      "Elements of a Buffer, or a copy of them, for numpy, torch, cupy and others: from Buffer.host and "
      "Buffer.on. It keeps the memory.");
  const auto itself = [](View& self) -> const View& { return self; };
  define_views(view, "BufferView", itself, itself);

  nb::class_<TypedBuffer> buffer(
      module, "Buffer",
      "A vector in the memory of an allocator: \"host_malloc\", \"host_new\", \"cuda\", \"cuda_async\", "
      "\"cuda_pinned\", \"cuda_managed\", \"hip\", \"hip_async\", \"hip_pinned\", \"hip_managed\", \"musa\", "
      "\"cnrt\", \"acl\", \"opencl\", \"openmp\". device=None is the current device (cudaSetDevice).\n\n"
      "numpy.asarray(buffer), torch.from_dlpack(buffer) and cupy.asarray(buffer) share its memory, if they can access "
      "it. They keep that memory, also if the buffer grows, moves or is dropped. Then the buffer has other memory. A "
      "consumer that can't access it gets a copy from host() or on().\n\n"
      "mode: the transfers that are complete when a call returns: \"sync\" (all), \"sync_host\" (those to memory that "
      "the host can access), \"async\" (none). The others are queued on `stream`, the vendor's handle as an int (1: "
      "the "
      "legacy default stream, 2: the calling thread's), or on the buffer's own stream. Arrays that a call reads may be "
      "reused when it returns. synchronize() waits for all.\n\n"
      ">>> import hmc, numpy as np\n"
      ">>> buffer = hmc.Buffer(3, \"float32\", value=1.5)\n"
      ">>> view = np.asarray(buffer)          # no copy\n"
      ">>> view[1] = 7\n"
      ">>> buffer.tolist()\n"
      "[1.5, 7.0, 1.5]\n"
      ">>> hmc.Buffer.from_array(view).ptr == buffer.ptr\n"
      "True\n");
  define_views(
      buffer, "Buffer", [](TypedBuffer& self) { return self.view(); }, [](TypedBuffer& self) { return self.show(); });
  const auto mode = nb::arg("mode") = "sync";
  const auto stream = nb::arg("stream") = none;
  const auto allocator = nb::arg("allocator");
  const auto device = nb::arg("device") = none;
  buffer
      .def("__init__", construct, nb::arg("count"), nb::arg("dtype") = "float64", nb::arg("allocator") = "host_malloc",
           device, nb::kw_only(), nb::arg("value") = none, mode, stream, "`count` elements: zero, or `value`.")
      .def_static(
          "from_array", from_array, nb::arg("array"), nb::kw_only(), mode, stream,
          "A buffer over the memory of an array or tensor, without a copy. It keeps the array. Work of a device "
          "that the array states (the stream of __cuda_array_interface__) is complete first. BufferError if the "
          "array is read-only.")
      .def(
          "host", [](TypedBuffer& self) { return accessible(self, "host", {}); },
          "The elements where the host can access them: this memory, or a copy.")
      .def("on", accessible, nb::arg("technology"), device,
           "The elements where a device can access them: this memory, or a copy. technology: \"cuda\", \"hip\", "
           "\"musa\", "
           "\"cnrt\", \"acl\", \"opencl\", \"openmp\", \"device\" (the machine's accelerator, else the host) or "
           "\"host\".")
      .def_prop_ro("mode", [](TypedBuffer& self) { return mode_names[static_cast<int>(self.core->data.mode())]; })
      .def_prop_ro(
          "stream",
          [](TypedBuffer& self) -> std::optional<std::uintptr_t> {
            void* const handle = locked(*self.core, [](auto& data) { return data.stream(); });
            if (handle == nullptr && !self.core->data.order().has_stream) return std::nullopt;
            return reinterpret_cast<std::uintptr_t>(handle);
          },
          "The vendor's handle of the stream that executes the transfers; None if all of them block.")
      .def(
          "set_order",
          [](TypedBuffer& self, const std::string& name, std::optional<std::uintptr_t> handle) {
            const hmc::TransferOrder order = order_of(name, handle);
            locked(*self.core, [&](auto& data) { data.set_order(order); });
          },
          nb::arg("mode"), stream, "Waits for the transfers in flight; later ones use the new mode and stream.")
      .def(
          "synchronize", [](TypedBuffer& self) { locked(*self.core, [](auto& data) { data.synchronize(); }); },
          "Wait for the transfers in flight, and for all work of a stream that was passed in.")
      .def("resize", resize, nb::arg("count"), nb::arg("value") = none, "New elements are zero, or `value`.")
      .def(
          "reserve",
          [](TypedBuffer& self, std::size_t count) {
            const std::size_t bytes = bytes_of(self.core->type, count);
            locked(*self.core, [&](auto& data) { data.reserve(bytes); });
          },
          nb::arg("count"))
      .def("clear", [](TypedBuffer& self) { locked(*self.core, [](auto& data) { data.clear(); }); })
      .def(
          "assign",
          [](TypedBuffer& self, nb::handle array) {
            with_elements("Buffer.assign", self, array,
                          [](auto& data, const std::byte* from, std::size_t bytes) { data.assign(from, bytes); });
          },
          nb::arg("array"), "Replace the elements by copies of an array's, which may be in any memory.")
      .def(
          "append",
          [](TypedBuffer& self, nb::handle array) {
            with_elements("Buffer.append", self, array,
                          [](auto& data, const std::byte* from, std::size_t bytes) { data.append(from, bytes); });
          },
          nb::arg("array"))
      .def(
          "set",
          [](TypedBuffer& self, std::size_t index, nb::handle array) {
            const std::size_t at = bytes_of(self.core->type, index);
            with_elements("Buffer.set", self, array,
                          [&](auto& data, const std::byte* from, std::size_t bytes) { data.set(at, from, bytes); });
          },
          nb::arg("index"), nb::arg("array"), "Copy an array's elements to the elements from `index` on.")
      .def(
          "get",
          [](TypedBuffer& self, std::size_t index, nb::handle out) {
            const Array array = array_of("Buffer.get", self, out, Access::write);
            const std::size_t at = bytes_of(self.core->type, index);
            locked(*self.core, [&](auto& data) {
              data.get(at, static_cast<std::byte*>(array.data()), array.bytes());
              data.synchronize();
            });
            return nb::borrow(out);
          },
          nb::arg("index"), nb::arg("out"), "Copy elements from `index` on to an array, complete; returns the array.")
      .def("__getitem__", item, nb::arg("index"))
      .def("__setitem__",
           [](TypedBuffer& self, std::ptrdiff_t index, nb::handle value) {
             const std::size_t at = checked_index(self, index);
             const std::vector<std::byte> bytes = filled(self.core->type, 1, value);
             locked(*self.core, [&](auto& data) { data.set(at, bytes.data(), bytes.size()); });
           })
      .def("tolist", list_of)
      .def("copy", copied, nb::arg("allocator") = none, device, "A copy, in the same memory or another allocator's.")
      .def(
          "move",
          [](TypedBuffer& self, const std::string& name, std::optional<int> number) {
            const hmc::Place place = place_of(name, number);
            locked(*self.core, [&](auto& data) { data.move(place); });
          },
          allocator, device,
          "Move the elements to another allocator's memory. Nothing moves if host and devices access both alike.");
}

}  // namespace hmc::python
