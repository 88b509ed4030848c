// PhysicalMemory and Mapping.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <hmc/vmm.hpp>

#include "python/src/objects.hpp"
#include "python/src/vmm.hpp"

namespace hmc::python {

namespace {

/// With the object's lock. A thread that waits for it doesn't hold the GIL, which the holder may need.
template <typename Shared, typename Function> auto guarded(Shared& self, Function&& function) {
  return unlocked([&] {
    const std::scoped_lock lock(self.mutex);
    return function(self.object);
  });
}

/// Without the object's lock.
template <typename Function> auto with_memory(PhysicalObject& self, Function&& function) {
  return unlocked([&] {
    std::unique_lock lock(self.mutex);
    const std::shared_ptr<const hmc::PhysicalMemory> memory = self.object;
    lock.unlock();
    return function(*memory);
  });
}

/// An allocator of device memory, as for Buffer. None: the accelerator's.
MemoryType type_of(const std::optional<std::string>& name) {
  if (!name) return MemoryType::DEFAULT;
  for (int i = 0; i < hmc::allocator_count; ++i) {
    const auto allocator = static_cast<hmc::Allocator>(i);
    if (*name != hmc::name_of(allocator) || allocator == hmc::Allocator::window) continue;
    const MemoryType type = hmc::detail::memory_type_of(allocator);
    if (type == MemoryType::CPU || hmc::detail::allocator_for(type) == allocator) return type;
  }
  throw nb::value_error(("PhysicalMemory: no device memory '" + *name + "'; there are \"cuda\", \"hip\"").c_str());
}

const char* name_of_memory(MemoryType type) { return hmc::name_of(hmc::detail::allocator_for(type)); }

hmc::Access access_of(const std::string& name) {
  if (name == "read") return hmc::Access::read;
  if (name == "read_write") return hmc::Access::read_write;
  throw nb::value_error(("PhysicalMemory.map: no access '" + name + "'; there are read, read_write").c_str());
}

int descriptor_of(nb::handle object) {
  const int fd = PyObject_AsFileDescriptor(object.ptr());  // an int, or an object with fileno()
  if (fd < 0) throw nb::python_error();
  return fd;
}

std::unique_ptr<PhysicalObject> physical(hmc::PhysicalMemory memory) {
  return std::make_unique<PhysicalObject>(std::move(memory));
}

hmc::FabricHandle handle_of(const nb::bytes& bytes) {
  hmc::FabricHandle handle;
  if (bytes.size() != handle.bytes.size()) throw nb::value_error("import_fabric: a fabric handle has 64 bytes");
  std::memcpy(handle.bytes.data(), bytes.c_str(), handle.bytes.size());
  return handle;
}

nb::dict interface_of(MappingObject& self) {
  nb::dict made;
  const auto [first, bytes, access] = guarded(self, [](const hmc::Mapping& mapping) {
    if (!mapping.is_mapped()) throw hmc::Error(Code::closed, "Mapping", "the mapping is empty");
    return std::tuple(reinterpret_cast<std::uintptr_t>(mapping.data()), mapping.size(), mapping.access());
  });
  made["shape"] = nb::make_tuple(bytes);
  made["typestr"] = "|u1";
  made["data"] = nb::make_tuple(first, access == hmc::Access::read);
  made["strides"] = nb::none();
  made["version"] = 3;
  made["stream"] = nb::none();
  return made;
}

void define_mapping(nb::module_& module) {
  const auto close = [](MappingObject& self) { guarded(self, [](hmc::Mapping& mapping) { mapping.unmap(); }); };
  nb::class_<MappingObject>(
      module, "Mapping",
      "Physical memory at an address of this process, from PhysicalMemory.map. torch.as_tensor(mapping, "
      "device=\"cuda\"), "
      "cupy.asarray(mapping) and hmc.Buffer.from_array(mapping) share it as bytes, and Window(team, mapping) exposes "
      "it. Nothing may use the memory after unmap().")
      .def_prop_ro(
          "ptr",
          [](MappingObject& self) {
            return guarded(self, [](const hmc::Mapping& m) { return reinterpret_cast<std::uintptr_t>(m.data()); });
          },
          "The device address of the first byte; 0 after unmap().")
      .def_prop_ro(
          "nbytes", [](MappingObject& self) { return guarded(self, [](const hmc::Mapping& m) { return m.size(); }); },
          "The size; 0 after unmap().")
      .def_prop_ro(
          "access",
          [](MappingObject& self) {
            return guarded(self, [](const hmc::Mapping& m) { return m.access(); }) == hmc::Access::read ? "read"
                                                                                                        : "read_write";
          },
          "\"read\" or \"read_write\".")
      .def_prop_ro("__cuda_array_interface__", interface_of)
      .def(
          "write",
          [](MappingObject& self, nb::handle source, std::size_t offset) {
            const Array array("Mapping.write", "source", source, Access::read);
            guarded(self, [&](hmc::Mapping& m) { m.write(offset, array.data(), array.bytes()); });
          },
          nb::arg("source"), nb::arg("offset") = 0, "Copy an array to byte `offset`. Complete at return.")
      .def(
          "read",
          [](MappingObject& self, nb::object out, std::size_t offset) {
            const Array array("Mapping.read", "out", out, Access::write);
            guarded(self, [&](const hmc::Mapping& m) { m.read(offset, array.data(), array.bytes()); });
            return out;
          },
          nb::arg("out"), nb::arg("offset") = 0, "Copy from byte `offset` into an array, and return it.")
      .def("unmap", close, "Give up the addresses. A window over the mapping keeps them. May be repeated.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__", [close](MappingObject& self, nb::handle, nb::handle, nb::handle) { close(self); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
}

}  // namespace

void define_vmm(nb::module_& module) {
  define_mapping(module);
  const auto close = [](PhysicalObject& self) {
    auto none = std::make_shared<const hmc::PhysicalMemory>();
    guarded(self, [&](std::shared_ptr<const hmc::PhysicalMemory>& object) { object.swap(none); });
  };
  const auto allocator = nb::arg("allocator") = nb::none();
  const auto device = nb::arg("device") = 0;
  const auto timeout = nb::arg("timeout") = nb::none();
  nb::class_<PhysicalObject>(
      module, "PhysicalMemory",
      "Memory of a CUDA or HIP device that any processes share by a handle, without a job: from create(), import_fd(), "
      "import_fabric() or receive().\n\nThe memory is freed with its last reference of any process: this object, "
      "mappings, descriptors from export_fd(). Any of them may end first, also by SIGKILL. allocator: \"cuda\", "
      "\"hip\"; "
      "None: the accelerator's. hmc.Error with code \"unsupported\" and the reason if this machine has none.\n\n"
      "Threads share the object.")
      .def_static(
          "create",
          [](std::size_t bytes, const std::optional<std::string>& name, int on) {
            return unlocked(
                [&, type = type_of(name)] { return physical(hmc::PhysicalMemory::create(bytes, on, type)); });
          },
          nb::arg("nbytes"), allocator, device,
          "Allocate memory, not zeroed. Its nbytes is rounded up to the device's granularity, for example 2 MiB.")
      .def_static(
          "import_fd",
          [](nb::handle object, std::size_t bytes, const std::optional<std::string>& name, int on) {
            const int fd = descriptor_of(object);
            return unlocked(
                [&, type = type_of(name)] { return physical(hmc::PhysicalMemory::import_fd(fd, bytes, on, type)); });
          },
          nb::arg("fd"), nb::arg("nbytes"), allocator, device,
          "Import a descriptor of export_fd() or of CUDA's own call. The caller may close it at once. nbytes: as "
          "passed to "
          "create().")
      .def_static(
          "import_fabric",
          [](const nb::bytes& bytes, std::size_t size, const std::optional<std::string>& name, int on) {
            return unlocked([&, handle = handle_of(bytes), type = type_of(name)] {
              return physical(hmc::PhysicalMemory::import_fabric(handle, size, on, type));
            });
          },
          nb::arg("handle"), nb::arg("nbytes"), allocator, device, "Import the 64 bytes of export_fabric().")
      .def_static(
          "receive",
          [](nb::handle object, int on, std::optional<double> seconds) {
            const int socket = descriptor_of(object);
            const hmc::Timeout limit = timeout_of(seconds, "PhysicalMemory.receive");
            return unlocked([&] { return physical(hmc::PhysicalMemory::receive(socket, on, limit)); });
          },
          nb::arg("socket"), device, timeout,
          "The memory that another process sends over a connected Unix socket. timeout: in seconds; then hmc.Timeout.")
      .def(
          "send",
          [](PhysicalObject& self, nb::handle object, std::optional<double> seconds) {
            const int socket = descriptor_of(object);
            const hmc::Timeout limit = timeout_of(seconds, "PhysicalMemory.send");
            with_memory(self, [&](const hmc::PhysicalMemory& m) { m.send(socket, limit); });
          },
          nb::arg("socket"), timeout, "Pass the memory over a connected Unix socket.")
      .def(
          "export_fd",
          [](PhysicalObject& self) {
            return with_memory(self, [](const hmc::PhysicalMemory& m) { return m.export_fd(); });
          },
          "A new descriptor, close-on-exec, which the caller closes.")
      .def(
          "export_fabric",
          [](PhysicalObject& self) {
            const auto handle = with_memory(self, [](const hmc::PhysicalMemory& m) { return m.export_fabric(); });
            return nb::bytes(handle.bytes.data(), handle.bytes.size());
          },
          "64 bytes that may go through any channel. hmc.Error if the system doesn't permit it.")
      .def(
          "map",
          [](PhysicalObject& self, const std::string& name) {
            return with_memory(self, [access = access_of(name)](const hmc::PhysicalMemory& m) {
              return std::make_unique<MappingObject>(m.map(access));
            });
          },
          nb::arg("access") = "read_write", "Map the whole memory at a new address: \"read_write\" or \"read\".")
      .def_prop_ro(
          "nbytes",
          [](PhysicalObject& self) { return with_memory(self, [](const hmc::PhysicalMemory& m) { return m.size(); }); })
      .def_prop_ro("device",
                   [](PhysicalObject& self) {
                     return with_memory(self, [](const hmc::PhysicalMemory& m) { return m.device(); });
                   })
      .def_prop_ro("allocator",
                   [](PhysicalObject& self) -> std::optional<std::string> {
                     const auto type = with_memory(self, [](const hmc::PhysicalMemory& m) { return m.type(); });
                     if (type == MemoryType::DEFAULT) return std::nullopt;
                     return name_of_memory(type);
                   })
      .def_prop_ro("is_open",
                   [](PhysicalObject& self) {
                     return with_memory(self, [](const hmc::PhysicalMemory& m) { return m.is_open(); });
                   })
      .def("close", close, "End this reference. Mappings stay. May be repeated.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__", [close](PhysicalObject& self, nb::handle, nb::handle, nb::handle) { close(self); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
}

}  // namespace hmc::python
