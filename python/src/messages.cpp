// Two-sided messages: the calls of Team, and MessageStatus.
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

hmc::MessageStatus recv(TeamObject& self, nb::handle array, int source, int tag) {
  const Array into("recv", "array", array, Access::write);
  return blocking(*self.job, [&] { return self.team.recv_bytes(into.data(), into.bytes(), source, tag); });
}

RequestObject* isend(TeamObject& self, nb::handle array, int destination, int tag) {
  std::vector<Array> arrays;
  arrays.emplace_back("isend", "array", array, Access::read);
  const Array& from = arrays.front();
  hmc::Request request =
      blocking(*self.job, [&] { return self.team.isend_bytes(from.data(), from.bytes(), destination, tag); });
  self.job->sweep();
  return new RequestObject(self, std::move(request), std::move(arrays), nb::none());
}

/// The status is the request's result, so that it lives as long as the receive may write it.
RequestObject* irecv(TeamObject& self, nb::handle array, int source, int tag) {
  std::vector<Array> arrays;
  arrays.emplace_back("irecv", "array", array, Access::write);
  const Array& into = arrays.front();
  nb::object result = nb::cast(hmc::MessageStatus());
  auto* const status = nb::inst_ptr<hmc::MessageStatus>(result);
  hmc::Request request =
      blocking(*self.job, [&] { return self.team.irecv_bytes(into.data(), into.bytes(), source, tag, status); });
  self.job->sweep();
  return new RequestObject(self, std::move(request), std::move(arrays), std::move(result));
}

hmc::MessageStatus sendrecv(TeamObject& self, nb::handle array, int destination, nb::handle out, int source,
                            int send_tag, int receive_tag) {
  const Array from("sendrecv", "array", array, Access::read), into("sendrecv", "out", out, Access::write);
  const auto *const sent = static_cast<const char*>(from.data()), *const received = static_cast<char*>(into.data());
  if (sent < received + into.bytes() && received < sent + from.bytes())
    throw nb::value_error("sendrecv: array and out overlap");
  return blocking(*self.job, [&] {
    return self.team.sendrecv_bytes(from.data(), from.bytes(), destination, send_tag, into.data(), into.bytes(), source,
                                    receive_tag);
  });
}

nb::object iprobe(TeamObject& self, int source, int tag) {
  hmc::MessageStatus status;
  const bool is_there = quick(*self.job, [&] { return self.team.iprobe(source, tag, &status); });
  return is_there ? nb::cast(status) : nb::none();
}

/// One call, so that no other thread receives the message between probe and recv.
nb::object recv_object(TeamObject& self, int source, int tag, hmc::MessageStatus* status) {
  nb::object data;
  const hmc::MessageStatus got = blocking(*self.job, [&] {
    const hmc::MessageStatus found = self.team.probe(source, tag);
    char* bytes = nullptr;
    {
      const nb::gil_scoped_acquire locked;
      data = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(found.bytes)));
      if (!data.is_valid()) throw nb::python_error();
      bytes = PyBytes_AS_STRING(data.ptr());
    }
    return self.team.recv_bytes(bytes, found.bytes, found.source, found.tag);
  });
  if (status != nullptr) *status = got;
  return nb::module_::import_("pickle").attr("loads")(data);
}

}  // namespace

void define_messages(nb::module_& module, nb::class_<TeamObject>& team) {
  module.attr("ANY_SOURCE") = hmc::any_source;
  module.attr("ANY_TAG") = hmc::any_tag;
  nb::class_<hmc::MessageStatus>(module, "MessageStatus", "A message that was received or probed.")
      .def(nb::init<>())
      .def_ro("source", &hmc::MessageStatus::source, "The sender's rank in the team.")
      .def_ro("tag", &hmc::MessageStatus::tag)
      .def_ro("bytes", &hmc::MessageStatus::bytes, "The message's length.")
      .def("__repr__", [](const hmc::MessageStatus& self) {
        return "<hmc.MessageStatus: " + std::to_string(self.bytes) + " bytes from rank " + std::to_string(self.source) +
               " with tag " + std::to_string(self.tag) + ">";
      });

  const auto array = nb::arg("array");
  const auto destination = nb::arg("dest");
  const auto tag = nb::arg("tag") = 0;
  const auto source = nb::arg("source") = hmc::any_source;
  const auto wanted_tag = nb::arg("tag") = hmc::any_tag;
  team.def(
          "send",
          [](TeamObject& self, nb::handle object, int to, int with) {
            const Array from("send", "array", object, Access::read);
            blocking(*self.job, [&] { self.team.send_bytes(from.data(), from.bytes(), to, with); });
          },
          array, destination, tag,
          "Send the array's bytes to a rank, and return when the array may be reused: up to 8 KiB usually at once, "
          "else when the receiver has them.\n\n"
          ">>> import hmc, numpy as np\n"
          ">>> with hmc.init() as rt:\n"
          "...     rt.world.send(np.arange(3.0), rt.rank, tag=7)       # to itself\n"
          "...     a = np.zeros(10)\n"
          "...     status = rt.world.recv(a, source=rt.rank, tag=7)\n"
          ">>> status.source, status.tag, status.bytes, a[:3].tolist()\n"
          "(0, 7, 24, [0.0, 1.0, 2.0])\n")
      .def(
          "recv", recv, array, source, wanted_tag,
          "Receive a message of at most the array's bytes, and return its MessageStatus.\n\nIt is the first message of "
          "its source that matches. A longer message than the array is hmc.Mismatch, and is dropped. After hmc.Timeout "
          "or Ctrl-C the receive is cancelled, and may be repeated.\n\nWhile it waits, other threads may send and "
          "receive.")
      .def("isend", isend, array, destination, tag,
           "Non-blocking send. The array is in use until the Request is complete.")
      .def("irecv", irecv, array, source, wanted_tag,
           "Non-blocking recv: the Request's wait() and `await` return the MessageStatus.\n\n"
           ">>> import asyncio, hmc\n"
           ">>> async def echo(team):\n"
           "...     data = bytearray(10)\n"
           "...     request = team.irecv(data)\n"
           "...     team.isend(b'hello', team.rank, tag=3)\n"
           "...     status = await request\n"
           "...     return status.tag, bytes(data[:status.bytes])\n"
           ">>> with hmc.init() as rt:\n"
           "...     asyncio.run(echo(rt.world))\n"
           "(3, b'hello')\n")
      .def("sendrecv", sendrecv, array, destination, nb::arg("out"), source, nb::arg("sendtag") = 0,
           nb::arg("recvtag") = hmc::any_tag,
           "Send `array` to `dest`, and receive from `source` into `out` at the same time.\n\n"
           ">>> import hmc\n"
           ">>> with hmc.init() as rt:\n"
           "...     right, left = (rt.rank + 1) % rt.size, (rt.rank - 1) % rt.size\n"
           "...     out = bytearray(3)\n"
           "...     rt.world.sendrecv(b'abc', right, out, left)\n"
           "<hmc.MessageStatus: 3 bytes from rank 0 with tag 0>\n")
      .def(
          "probe",
          [](TeamObject& self, int from, int with) {
            return blocking(*self.job, [&] { return self.team.probe(from, with); });
          },
          source, wanted_tag,
          "Wait for a message that recv with these arguments would receive, and return its MessageStatus.\n\nWith "
          "several threads another one may receive the message first.")
      .def("iprobe", iprobe, source, wanted_tag,
           nb::sig("def iprobe(self, source: int = -1, tag: int = -1) -> MessageStatus | None"),
           "As probe, without waiting: None if there is no such message.")
      .def(
          "send_object",
          [](nb::handle self, nb::handle value, int to, int with) {
            self.attr("send")(nb::module_::import_("pickle").attr("dumps")(value), to, with);
          },
          nb::arg("value").none(), destination, tag, "Send an object by pickle.")
      .def("recv_object", recv_object, source, wanted_tag, nb::arg("status") = nb::none(),
           "Return an object of send_object; `status`, if given, gets the message's values.\n\n"
           ">>> import hmc\n"
           ">>> with hmc.init() as rt:\n"
           "...     rt.world.send_object({'x': [1, 2]}, rt.rank, tag=5)\n"
           "...     status = hmc.MessageStatus()\n"
           "...     rt.world.recv_object(status=status), status.tag\n"
           "({'x': [1, 2]}, 5)\n");
}

}  // namespace hmc::python
