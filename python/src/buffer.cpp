// hmc.Buffer: hmc::Buffer's memory with an element type.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hmc/buffer.hpp>

#include "python/src/buffer.hpp"
#include "python/src/element.hpp"
#include "python/src/objects.hpp"
#include "python/src/view.hpp"

namespace hmc::python {

namespace {

// ---- places and orders, by name
hmc::Place place_of(const std::string& name, std::optional<int> device) {
  std::string text = "Buffer: no allocator '" + name + "'; there are";
  const char* separator = " ";
  for (int i = 0; i < hmc::allocator_count; ++i) {
    const auto allocator = static_cast<hmc::Allocator>(i);
    if (allocator == hmc::Allocator::window) continue;
    if (name == hmc::name_of(allocator)) {
      if (device) return {allocator, *device};
      return hmc::Place::current(allocator);
    }
    text += separator + std::string(hmc::name_of(allocator));
    separator = ", ";
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

std::size_t checked_index(const TypedBuffer& self, nb::handle index) {
  if (PySlice_Check(index.ptr()))
    throw nb::type_error(
        "Buffer: an index is an integer; numpy.asarray(buffer)[a:b] is a view, and get() copies a range");
  const Py_ssize_t wanted = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
  if (wanted == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const auto count = static_cast<Py_ssize_t>(self.view().count);
  if (wanted < -count || wanted >= count) throw nb::index_error("Buffer: no element with this index");
  return static_cast<std::size_t>(wanted < 0 ? wanted + count : wanted) * self.core->item();
}

nb::object item(TypedBuffer& self, nb::handle index) {
  const std::size_t at = checked_index(self, index);
  Number bytes;
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

/// New elements are written in pieces, which need little memory of their own.
void resize(TypedBuffer& self, std::size_t count, nb::handle value) {
  const std::size_t bytes = bytes_of(self.core->type, count), item = self.core->item();
  const Number number = number_of(self.core->type, value);
  locked(*self.core, [&](auto& data) {
    const std::size_t before = data.size();
    if (bytes <= before) return data.resize(bytes);
    if (bytes > data.capacity()) data.reserve(std::max(bytes, data.capacity() + data.capacity() / 2));
    constexpr std::size_t longest_piece = std::size_t{256} << 10;
    std::vector<std::byte> piece(std::min(bytes - before, longest_piece));
    repeat(number, item, piece);
    while (data.size() < bytes) data.append(piece.data(), std::min(bytes - data.size(), piece.size()));
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
  if (!array.type() || static_cast<std::size_t>(*array.type()) >= element_count) {
    const nb::object type = nb::getattr(object, "dtype", nb::str("the array's"));
    throw nb::type_error(
        ("Buffer.from_array: buffers don't have the element type " + nb::cast<std::string>(nb::str(type))).c_str());
  }
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

}  // namespace

void define_buffers(nb::module_& module) {
  const auto none = nb::none();
  nb::class_<View> view(
      module, "BufferView", nb::type_slots(buffer_slots<View>),
      "Elements of a Buffer, or a copy of them, for numpy, torch, cupy and others: from Buffer.host and "
      "Buffer.on. It keeps the memory.");
  define_views(view, "BufferView");

  nb::class_<TypedBuffer> buffer(
      module, "Buffer", nb::type_slots(buffer_slots<TypedBuffer>),
      "A vector in the memory of an allocator: \"host_malloc\", \"host_new\", \"cuda\", \"cuda_async\", "
      "\"cuda_pinned\", \"cuda_managed\", \"hip\", \"hip_async\", \"hip_pinned\", \"hip_managed\", \"musa\", "
      "\"cnrt\", \"acl\", \"opencl\", \"openmp\". device=None is the current device (cudaSetDevice).\n\n"
      "numpy.asarray(buffer), torch.from_dlpack(buffer) and cupy.asarray(buffer) share its memory, if they can access "
      "it. They keep that memory, also if the buffer grows, moves or is dropped. Then the buffer has other memory. A "
      "consumer that can't access it gets a copy from host() or on().\n\n"
      "mode: the transfers that are complete when a call returns: \"sync\" (all), \"sync_host\" (those to memory that "
      "the host can access), \"async\" (none). The others are queued on `stream`, the vendor's handle as an int (1: "
      "the legacy default stream, 2: the calling thread's), or on the buffer's own stream. Arrays that a call "
      "reads may be reused when it returns. synchronize() waits for all.\n\n"
      "Threads share a Buffer. With stream 2 each call uses the stream of the thread that makes it, and waits for that "
      "stream only: before another thread uses the buffer, the thread whose transfers are in flight calls "
      "synchronize().\n\n"
      ">>> import hmc, numpy as np\n"
      ">>> buffer = hmc.Buffer(3, \"float32\", value=1.5)\n"
      ">>> view = np.asarray(buffer)          # no copy\n"
      ">>> view[1] = 7\n"
      ">>> buffer.tolist()\n"
      "[1.5, 7.0, 1.5]\n"
      ">>> hmc.Buffer.from_array(view).ptr == buffer.ptr\n"
      "True\n");
  define_views(buffer, "Buffer");
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
           "\"musa\", \"cnrt\", \"acl\", \"opencl\", \"openmp\", \"device\" (the machine's accelerator, else the "
           "host) or \"host\".")
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
           [](TypedBuffer& self, nb::handle index, nb::handle value) {
             const std::size_t at = checked_index(self, index);
             const Number number = number_of(self.core->type, value);
             locked(*self.core, [&](auto& data) { data.set(at, number.data(), self.core->item()); });
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
