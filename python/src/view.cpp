#include "python/src/view.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <type_traits>

#include "python/src/dlpack.hpp"
#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

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

/// What an export of the buffer protocol refers to.
struct Shown {
  std::shared_ptr<std::byte> memory;
  Py_ssize_t shape, stride;
};

}  // namespace

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

nb::tuple device_of(const View& view) {
  const nb::dlpack::device device = dlpack_device_of(view.place);
  return nb::make_tuple(device.device_type, device.device_id);
}

nb::object numpy_array(nb::handle self, const View& view, nb::handle dtype, nb::handle copy) {
  if (!view.is_host())
    throw nb::type_error("the host can't access this memory; host() returns a copy that numpy accepts");
  const bool copies = !copy.is_none() && nb::cast<bool>(copy);
  const nb::object array = nb::module_::import_("numpy").attr(copies ? "array" : "asarray")(self);
  return dtype.is_none() ? array : array.attr("astype")(dtype, nb::arg("copy") = false);
}

nb::bytes bytes_of(const View& view) {
  view.synchronize();
  const nb::bytes made(static_cast<const void*>(nullptr), view.bytes());
  auto* const out = reinterpret_cast<std::byte*>(PyBytes_AsString(made.ptr()));
  const nb::gil_scoped_release unlocked;
  const auto lent = hmc::Buffer<std::byte>::adopt(view.place, view.first, view.bytes());
  lent.get(0, out, view.bytes());
  return made;
}

/// The memory stays valid while the export exists, also if the Buffer gets other memory.
int export_view(const View& view, PyObject* exporter, Py_buffer* out, int flags) {
  out->obj = nullptr;
  const char* const format = element_of(view.type).format;
  if (!view.is_host()) throw nb::buffer_error("the host can't access this memory; host() returns a copy");
  if (format == nullptr) throw nb::buffer_error("the buffer protocol doesn't have this element type");
  view.synchronize();
  static std::byte nothing{};
  std::byte* const first = view.first == nullptr ? &nothing : view.first.get();
  if (PyBuffer_FillInfo(out, exporter, first, static_cast<Py_ssize_t>(view.bytes()), 0, flags) != 0) return -1;
  const auto item = static_cast<Py_ssize_t>(hmc::size_of(view.type));
  auto* const kept = new Shown{view.first, static_cast<Py_ssize_t>(view.count), item};
  out->internal = kept;
  out->itemsize = item;
  if ((flags & PyBUF_FORMAT) != 0) out->format = const_cast<char*>(format);
  if ((flags & PyBUF_ND) != 0) out->shape = &kept->shape;
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) out->strides = &kept->stride;
  return 0;
}

void release_view(PyObject*, Py_buffer* view) { delete static_cast<Shown*>(view->internal); }

std::string text_of(const char* name, const View& view) {
  return std::string("<hmc.") + name + ": " + std::to_string(view.count) + " " + element_of(view.type).numpy_name +
         " in " + hmc::name_of(view.place.allocator) + " memory of device " + std::to_string(view.place.device) + ">";
}

// ---- the owner of lent memory

thread_local Deferral* Deferral::current = nullptr;

Deferral::Deferral() noexcept : outer_(std::exchange(current, this)) {}
Deferral::~Deferral() {
  current = outer_;
  while (first_ != nullptr) delete std::exchange(first_, first_->next);
}

std::shared_ptr<std::byte> owner_of(Array array) {
  array.keep();
  auto* const kept = new Deferral::Kept{std::move(array)};
  auto* const first = static_cast<std::byte*>(kept->array.data());
  return {first, [kept](std::byte*) {
            if (Py_IsInitialized() == 0) return;  // the interpreter has ended, and with it the array
            if (Deferral* const now = Deferral::current) {
              kept->next = std::exchange(now->first_, kept);
              return;
            }
            const nb::gil_scoped_acquire locked;
            delete kept;
          }};
}

std::optional<Lent> lent_by(nb::handle object) {
  if (!nb::inst_check(object)) return std::nullopt;
  const bool is_buffer = nb::isinstance<TypedBuffer>(object);
  if (!is_buffer && !nb::isinstance<View>(object)) return std::nullopt;
  if (!nb::inst_ready(object)) throw nb::type_error("the hmc.Buffer isn't initialized");
  if (!is_buffer) {
    const View& view = *nb::inst_ptr<View>(object);
    view.synchronize();
    return Lent{view.first, view.bytes(), view.type, view.is_gpu()};
  }
  Core& core = *nb::inst_ptr<TypedBuffer>(object)->core;
  return locked(core, [&](auto& data) {
    data.synchronize();
    return Lent{data.share(), data.size(), core.type, is_gpu(data.place())};
  });
}

}  // namespace hmc::python
