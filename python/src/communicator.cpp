// ConnBuffer and Communicator. hmc/communicator.py and hmc/session.py are their interfaces.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hmc.h>

#include "python/src/buffer.hpp"
#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

/// Raises HMCStatusError unless the call has succeeded. A signal handler's exception replaces it.
void check(status_t status, const std::string& what) {
  if (status == status_t::SUCCESS) [[likely]]
    return throw_if_interrupted();
  throw_if_signalled();
  const nb::object exception = nb::module_::import_("hmc.session").attr("HMCStatusError")(status, what);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

/// Calls `function`, which returns a status, without the GIL.
template <typename Function> status_t unlocked(Function&& function) {
  const nb::gil_scoped_release released;
  return function();
}

/// Holds the ConnBuffer in common with Communicators, which may outlive the Python object.
struct BufferObject {
  std::shared_ptr<ConnBuffer> buffer;
};

/// The number of bytes that a call copies: all of `array`, or the first `bytes`.
std::size_t extent_of(const char* operation, const Array& array, std::optional<std::size_t> bytes) {
  if (bytes && *bytes > array.bytes()) {
    const std::string text = std::string(operation) + ": nbytes is " + std::to_string(*bytes) + ", but the array has " +
                             std::to_string(array.bytes()) + " bytes";
    throw nb::value_error(text.c_str());
  }
  return bytes.value_or(array.bytes());
}

std::string range_text(const char* operation, const BufferObject& self, std::size_t offset, std::size_t bytes) {
  return std::string(operation) + ": " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
         " of a buffer of " + std::to_string(self.buffer->buffer_size) + " bytes";
}

/// An address, or the array that is there.
struct Place {
  Array array;
  void* address = nullptr;
  std::size_t bytes = 0;

  Place(const char* operation, nb::handle object, std::optional<std::size_t> count, Access access) {
    if (nb::isinstance<nb::int_>(object)) {
      if (!count) throw nb::value_error((std::string(operation) + ": an address needs nbytes").c_str());
      address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(object));
      bytes = *count;
      return;
    }
    array = Array(operation, access == Access::read ? "src" : "dst", object, access);
    address = array.data();
    bytes = extent_of(operation, array, count);
  }
};

using Write = status_t (ConnBuffer::*)(const void*, std::size_t, std::size_t);
using Read = status_t (ConnBuffer::*)(void*, std::size_t, std::size_t) const;

template <Write write>
std::size_t put(const char* operation, const BufferObject& self, nb::handle source, std::optional<std::size_t> bytes,
                std::size_t offset) {
  const Place place(operation, source, bytes, Access::read);
  check(unlocked([&] { return ((*self.buffer).*write)(place.address, place.bytes, offset); }),
        range_text(operation, self, offset, place.bytes));
  return place.bytes;
}

template <Read read>
std::size_t get(const char* operation, const BufferObject& self, nb::handle destination,
                std::optional<std::size_t> bytes, std::size_t offset) {
  const Place place(operation, destination, bytes, Access::write);
  check(unlocked([&] { return ((*self.buffer).*read)(place.address, place.bytes, offset); }),
        range_text(operation, self, offset, place.bytes));
  return place.bytes;
}

/// For the older package's calls, which return the status of a copy. A range beyond either side is a RuntimeError.
template <typename Copy>
status_t copy_older(const char* operation, const BufferObject& self, nb::handle object, std::size_t bytes,
                    std::size_t bias, Access access, Copy&& copy) {
  const std::size_t whole = self.buffer->buffer_size;
  if (bytes > whole || bias > whole - bytes) throw std::runtime_error(range_text(operation, self, bias, bytes));
  Array array;
  void* address = nullptr;
  if (nb::isinstance<nb::int_>(object)) {
    address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(object));
  } else {
    array = Array(operation, access == Access::read ? "src" : "dest", object, access);
    if (bytes > array.bytes())
      throw std::runtime_error(std::string(operation) + ": size is " + std::to_string(bytes) + ", but the array has " +
                               std::to_string(array.bytes()) + " bytes");
    address = array.data();
  }
  return unlocked([&] { return copy(*self.buffer, address); });
}

void define_older_copies(nb::class_<BufferObject>& type) {
  using std::size_t;
  type.def(
      "writeFromCpu",
      [](const BufferObject& self, nb::handle src, size_t size, size_t bias) {
        return copy_older("writeFromCpu", self, src, size, bias, Access::read,
                          [&](ConnBuffer& buffer, void* from) { return buffer.writeFromCpu(from, size, bias); });
      },
      nb::arg("src"), nb::arg("size"), nb::arg("bias") = 0);
  type.def(
      "readToCpu",
      [](const BufferObject& self, nb::handle dest, size_t size, size_t bias) {
        return copy_older("readToCpu", self, dest, size, bias, Access::write,
                          [&](ConnBuffer& buffer, void* to) { return buffer.readToCpu(to, size, bias); });
      },
      nb::arg("dest"), nb::arg("size"), nb::arg("bias") = 0);
  type.def(
      "writeFromGpu",
      [](const BufferObject& self, nb::handle src, size_t size, size_t bias) {
        return copy_older("writeFromGpu", self, src, size, bias, Access::read,
                          [&](ConnBuffer& buffer, void* from) { return buffer.writeFromGpu(from, size, bias); });
      },
      nb::arg("src_ptr"), nb::arg("size"), nb::arg("bias") = 0);
  type.def(
      "readToGpu",
      [](const BufferObject& self, nb::handle dest, size_t size, size_t bias) {
        return copy_older("readToGpu", self, dest, size, bias, Access::write,
                          [&](ConnBuffer& buffer, void* to) { return buffer.readToGpu(to, size, bias); });
      },
      nb::arg("dest_ptr"), nb::arg("size"), nb::arg("bias") = 0);
  type.def(
      "copyWithin",
      [](const BufferObject& self, size_t destination, size_t source, size_t bytes) {
        const size_t whole = self.buffer->buffer_size;
        if (bytes > whole || std::max(destination, source) > whole - bytes)
          throw std::runtime_error(range_text("copyWithin", self, std::max(destination, source), bytes));
        return unlocked([&] { return self.buffer->copyWithin(destination, source, bytes); });
      },
      nb::arg("dst_bias"), nb::arg("src_bias"), nb::arg("size"));
}

void define_buffer(nb::module_& module) {
  nb::class_<BufferObject> type(
      module, "ConnBuffer",
      "The memory behind an hmc.IOBuffer. Copies return their status, and raise RuntimeError if "
      "a range exceeds either side.");
  define_older_copies(type);
  type.def(
          "__init__",
          [](BufferObject* self, int device, std::size_t size, MemoryType type) {
            std::shared_ptr<ConnBuffer> buffer;
            try {
              const nb::gil_scoped_release released;
              buffer = std::make_shared<ConnBuffer>(device, size, type);
            } catch (const hmc::Error& error) {
              const auto code = static_cast<int>(error.code());
              check(code <= static_cast<int>(status_t::NOT_FOUND) ? static_cast<status_t>(code) : status_t::ERROR,
                    error.what());
            }
            new (self) BufferObject{std::move(buffer)};
          },
          nb::arg("device_id"), nb::arg("buffer_size"), nb::arg("mem_type") = MemoryType::DEFAULT)
      .def_static(
          "borrow",
          [](nb::handle memory) {
            Array array("IOBuffer.borrow", "memory", memory, Access::write);
            const std::size_t bytes = array.bytes();
            void* const first = array.data();
            return new BufferObject{
                std::make_shared<ConnBuffer>(ConnBuffer::borrow(first, bytes, owner_of(std::move(array))))};
          },
          nb::arg("memory"))
      .def_prop_ro("ptr", [](const BufferObject& self) { return reinterpret_cast<std::uintptr_t>(self.buffer->ptr); })
      .def_prop_ro("buffer_size", [](const BufferObject& self) { return self.buffer->buffer_size; })
      .def_prop_ro("mem_type", [](const BufferObject& self) { return self.buffer->mem_type; })
      .def_prop_ro("device_id", [](const BufferObject& self) { return self.buffer->device_id; })
      .def(
          "put_cpu",
          [](const BufferObject& self, nb::handle source, std::optional<std::size_t> bytes, std::size_t offset) {
            return put<&ConnBuffer::writeFromCpu>("buffer_put_cpu", self, source, bytes, offset);
          },
          nb::arg("src"), nb::arg("nbytes").none(), nb::arg("offset"))
      .def(
          "get_cpu",
          [](const BufferObject& self, nb::handle destination, std::optional<std::size_t> bytes, std::size_t offset) {
            return get<&ConnBuffer::readToCpu>("buffer_get_cpu_into", self, destination, bytes, offset);
          },
          nb::arg("dst"), nb::arg("nbytes").none(), nb::arg("offset"))
      .def(
          "put_gpu",
          [](const BufferObject& self, nb::handle source, std::optional<std::size_t> bytes, std::size_t offset) {
            return put<&ConnBuffer::writeFromGpu>("buffer_put_cuda", self, source, bytes, offset);
          },
          nb::arg("src"), nb::arg("nbytes").none(), nb::arg("offset"))
      .def(
          "get_gpu",
          [](const BufferObject& self, nb::handle destination, std::optional<std::size_t> bytes, std::size_t offset) {
            return get<&ConnBuffer::readToGpu>("buffer_get_cuda", self, destination, bytes, offset);
          },
          nb::arg("dst"), nb::arg("nbytes").none(), nb::arg("offset"))
      .def(
          "copy_within",
          [](const BufferObject& self, std::size_t destination, std::size_t source, std::size_t bytes) {
            check(unlocked([&] { return self.buffer->copyWithin(destination, source, bytes); }),
                  range_text("buffer_copy_within", self, std::max(destination, source), bytes));
          },
          nb::arg("dst_offset"), nb::arg("src_offset"), nb::arg("nbytes"));
}

std::string peer_text(const char* operation, const std::string& ip, std::optional<std::uint16_t> port) {
  return std::string(operation) + ": " + ip + (port ? ":" + std::to_string(*port) : std::string());
}
std::string id_text(const char* operation, std::uint32_t id) {
  return std::string(operation) + ": the peer " + std::to_string(id);
}

void define_transfers(nb::class_<hmc::Communicator>& type) {
  using std::size_t;
  using std::string;
  using std::uint16_t;
  using std::uint64_t;
  type.def("put", [](hmc::Communicator& self, const string& ip, uint16_t port, size_t local, size_t remote,
                     size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.put(ip, port, local, remote, bytes, conn); }), peer_text("put_remote", ip, port));
  });
  type.def("get", [](hmc::Communicator& self, const string& ip, uint16_t port, size_t local, size_t remote,
                     size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.get(ip, port, local, remote, bytes, conn); }), peer_text("get_remote", ip, port));
  });
  type.def("put_nb", [](hmc::Communicator& self, const string& ip, uint16_t port, size_t local, size_t remote,
                        size_t bytes, ConnType conn) {
    uint64_t id = 0;
    check(unlocked([&] { return self.putNB(ip, port, local, remote, bytes, &id, conn); }),
          peer_text("put_nb", ip, port));
    return id;
  });
  type.def("get_nb", [](hmc::Communicator& self, const string& ip, uint16_t port, size_t local, size_t remote,
                        size_t bytes, ConnType conn) {
    uint64_t id = 0;
    check(unlocked([&] { return self.getNB(ip, port, local, remote, bytes, &id, conn); }),
          peer_text("get_nb", ip, port));
    return id;
  });
  // Ids are unique in the process. Completes all, and reports the first failure.
  type.def("wait", [](hmc::Communicator& self, const std::vector<uint64_t>& ids) {
    status_t first = status_t::SUCCESS;
    uint64_t failed = 0;
    for (const uint64_t id : ids) {
      const status_t status = unlocked([&] { return self.wait(id); });
      if (status == status_t::SUCCESS || first != status_t::SUCCESS) continue;
      first = status;
      failed = id;
    }
    check(first, "wait: the transfer " + std::to_string(failed));
  });
  type.def("send", [](hmc::Communicator& self, const string& ip, size_t bias, size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.send(ip, bias, bytes, conn); }), peer_text("send", ip, {}));
  });
  type.def("receive", [](hmc::Communicator& self, const string& ip, size_t bias, size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.recv(ip, bias, bytes, conn); }), peer_text("recv", ip, {}));
  });
  type.def("write_to", [](hmc::Communicator& self, const string& ip, size_t bias, size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.writeTo(ip, bias, bytes, conn); }), peer_text("put", ip, {}));
  });
  type.def("read_from", [](hmc::Communicator& self, const string& ip, size_t bias, size_t bytes, ConnType conn) {
    check(unlocked([&] { return self.readFrom(ip, bias, bytes, conn); }), peer_text("get", ip, {}));
  });
  type.def(
      "send_data",
      [](hmc::Communicator& self, const string& ip, std::optional<uint16_t> port, std::uintptr_t address, size_t bytes,
         MemoryType memory, ConnType conn) {
        auto* const from = reinterpret_cast<void*>(address);
        check(unlocked([&] {
                return port ? self.sendDataTo(ip, *port, from, bytes, memory, conn)
                            : self.sendDataTo(ip, from, bytes, memory, conn);
              }),
              peer_text("send_data_to", ip, port));
      },
      nb::arg("ip"), nb::arg("port").none(), nb::arg("address"), nb::arg("bytes"), nb::arg("memory"), nb::arg("conn"));
  type.def(
      "receive_data",
      [](hmc::Communicator& self, const string& ip, std::optional<uint16_t> port, std::uintptr_t address, size_t bytes,
         MemoryType memory, ConnType conn) {
        auto* const to = reinterpret_cast<void*>(address);
        size_t received = 0;
        check(unlocked([&] {
                return port ? self.recvDataFrom(ip, *port, to, bytes, memory, &received, conn)
                            : self.recvDataFrom(ip, to, bytes, memory, &received, conn);
              }),
              peer_text("recv_data_from", ip, port));
        return received;
      },
      nb::arg("ip"), nb::arg("port").none(), nb::arg("address"), nb::arg("bytes"), nb::arg("memory"), nb::arg("conn"));
}

/// A Unix socket's path, or, if that is empty, a TCP address.
hmc::Communicator::CtrlLink link_to(const std::string& ip, std::uint16_t port, const std::string& path) {
  hmc::Communicator::CtrlLink link;
  link.transport = path.empty() ? hmc::Communicator::CtrlTransport::TCP : hmc::Communicator::CtrlTransport::UDS;
  if (path.empty()) {
    link.ip = ip;
    link.port = port;
  }
  link.uds_path = path;
  return link;
}

void define_connections(nb::class_<hmc::Communicator>& type) {
  using std::string;
  using std::uint16_t;
  using std::uint32_t;
  type.def("ctrl_send", [](hmc::Communicator& self, uint32_t peer, std::uint64_t tag) {
    check(unlocked([&] { return self.ctrlSend(peer, tag); }), id_text("ctrl_send", peer));
  });
  type.def("ctrl_recv", [](hmc::Communicator& self, uint32_t peer) {
    std::uint64_t tag = 0;
    check(unlocked([&] { return self.ctrlRecv(peer, &tag); }), id_text("ctrl_recv", peer));
    return tag;
  });
  type.def("listen_control", [](hmc::Communicator& self, const string& ip, uint16_t port, const string& path) {
    check(unlocked([&] { return self.initCtrlServer(ip, port, path); }), peer_text("initCtrlServer", ip, port));
  });
  type.def("close_control",
           [](hmc::Communicator& self) { check(unlocked([&] { return self.closeCtrl(); }), "closeCtrl"); });
  type.def("close_control_peer", [](hmc::Communicator& self, uint32_t peer) {
    check(unlocked([&] { return self.closeCtrlPeer(peer); }), id_text("closeCtrlPeer", peer));
  });
  type.def("connect_control", [](hmc::Communicator& self, uint32_t peer, uint32_t me, const string& ip, uint16_t port,
                                 const string& path) {
    check(unlocked([&] { return self.connectCtrl(peer, me, link_to(ip, port, path)); }), id_text("connectCtrl", peer));
  });
  type.def("listen_with_control", [](hmc::Communicator& self, const string& ip, uint16_t port, uint16_t control_port,
                                     const string& path, ConnType conn) {
    check(unlocked([&] { return self.initServer(ip, port, control_port, path, conn); }),
          peer_text("initServer", ip, port));
  });
  type.def("listen", [](hmc::Communicator& self, const string& ip, uint16_t port, ConnType conn) {
    check(unlocked([&] { return self.initServer(ip, port, conn); }), peer_text("init_server", ip, port));
  });
  type.def("listen_all", [](hmc::Communicator& self, const string& ip, uint16_t ucx_port, uint16_t rdma_port,
                            uint16_t control_port, const string& path) {
    const auto start = [&](ConnType conn, uint16_t port) {
      check(unlocked([&] { return self.initServer(ip, port, control_port, path, conn); }),
            peer_text("init_server", ip, port));
    };
    start(ConnType::RDMA, rdma_port);
    start(ConnType::UCX, ucx_port);
  });
  type.def("close_server",
           [](hmc::Communicator& self) { check(unlocked([&] { return self.closeServer(); }), "close_server"); });
  type.def("connect", [](hmc::Communicator& self, const string& ip, uint16_t port, ConnType conn) {
    check(unlocked([&] { return self.connectTo(ip, port, conn); }), peer_text("connect", ip, port));
  });
  type.def("connect_to", [](hmc::Communicator& self, uint32_t peer, uint32_t me, const string& ip, uint16_t port,
                            const string& control_ip, uint16_t control_port, const string& path, ConnType conn) {
    const auto link = link_to(control_ip, control_port, path);
    check(unlocked([&] { return self.connectTo(peer, me, ip, port, link, conn); }),
          peer_text("connect", ip, port) + " (" + id_text("id", peer) + ")");
  });
  type.def(
      "disconnect",
      [](hmc::Communicator& self, const string& ip, std::optional<uint16_t> port, ConnType conn) {
        const status_t status =
            unlocked([&] { return port ? self.disConnect(ip, *port, conn) : self.disConnect(ip, conn); });
        check(status, peer_text("disconnect", ip, port));
      },
      nb::arg("ip"), nb::arg("port").none(), nb::arg("conn"));
  type.def(
      "status_of",
      [](hmc::Communicator& self, const string& ip, std::optional<uint16_t> port, ConnType conn) {
        return unlocked([&] { return port ? self.checkConn(ip, *port, conn) : self.checkConn(ip, conn); });
      },
      nb::arg("ip"), nb::arg("port").none(), nb::arg("conn"));
}

}  // namespace

void define_communicator(nb::module_& module) {
  nb::enum_<status_t>(module, "status_t", nb::is_arithmetic(), "The status of a call of hmc.Session.")
      .value("SUCCESS", status_t::SUCCESS)
      .value("ERROR", status_t::ERROR, "a range exceeds a buffer, or the peer has died or disconnected")
      .value("UNSUPPORT", status_t::UNSUPPORT, "this machine has no such memory")
      .value("INVALID_CONFIG", status_t::INVALID_CONFIG, "arguments or settings that contradict each other")
      .value("TIMEOUT", status_t::TIMEOUT, "nothing listens there, or the peer hasn't answered in time")
      .value("NOT_FOUND", status_t::NOT_FOUND, "no peer, or several peers, have the name");
  nb::enum_<MemoryType> memory(module, "MemoryType", nb::is_arithmetic(),
                               "A kind of memory. DEFAULT: the machine's accelerator, else CPU.");
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, MemoryType>>{{"DEFAULT", MemoryType::DEFAULT},
                                                                 {"CPU", MemoryType::CPU},
                                                                 {"NVIDIA_GPU", MemoryType::NVIDIA_GPU},
                                                                 {"AMD_GPU", MemoryType::AMD_GPU},
                                                                 {"CAMBRICON_MLU", MemoryType::CAMBRICON_MLU},
                                                                 {"MOORE_GPU", MemoryType::MOORE_GPU},
                                                                 {"ASCEND_NPU", MemoryType::ASCEND_NPU},
                                                                 {"OPENCL", MemoryType::OPENCL},
                                                                 {"NVIDIA_PINNED", MemoryType::NVIDIA_PINNED},
                                                                 {"NVIDIA_MANAGED", MemoryType::NVIDIA_MANAGED},
                                                                 {"AMD_PINNED", MemoryType::AMD_PINNED},
                                                                 {"AMD_MANAGED", MemoryType::AMD_MANAGED}})
    memory.value(name, value);
  nb::enum_<ConnType>(module, "ConnType", nb::is_arithmetic(),
                      "The transport between nodes. Without an RDMA device RDMA uses UCX or TCP, and logs the reason "
                      "once.")
      .value("RDMA", ConnType::RDMA)
      .value("UCX", ConnType::UCX);
  using Control = hmc::Communicator::CtrlTransport;
  nb::enum_<Control>(module, "CtrlTransport", nb::is_arithmetic(), "The socket of control messages: TCP or Unix.")
      .value("TCP", Control::TCP)
      .value("UDS", Control::UDS);
  define_buffer(module);

  nb::class_<hmc::Communicator> communicator(module, "Communicator", "The connections of an hmc.Communicator.");
  communicator.def(
      "__init__",
      [](hmc::Communicator* self, const BufferObject& buffer, std::size_t channels) {
        new (self) hmc::Communicator(buffer.buffer, channels);
      },
      nb::arg("buffer"), nb::arg("channels"));
  define_transfers(communicator);
  define_connections(communicator);
  module.def("control_path", &hmc::Communicator::udsPathFor, nb::arg("dir"), nb::arg("peer_id"));
  module.def("memory_supported", &hmc::memory_supported, "The type of memory that DEFAULT stands for on this machine.");
}

}  // namespace hmc::python
