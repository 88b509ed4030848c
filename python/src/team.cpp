#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

/// None on ranks that aren't members of the new team.
template <typename Function>
std::unique_ptr<TeamObject> derive(TeamObject& self, const Function& function, Among among = Among::others) {
  hmc::Team team = blocking(*self.job, among, [&] { return function(self.team); });
  return team ? std::make_unique<TeamObject>(self.job, std::move(team)) : nullptr;
}

}  // namespace

void define_team(nb::module_& module) {
  using H = nb::handle;
  nb::class_<TeamObject> team(
      module, "Team",
      "An ordered set of ranks, with collectives and messages (send, recv, ...). Runtime.world is the team of all "
      "ranks.\n\n"
      "Every rank of the team calls the same collectives in the same order, with matching arguments. An array is any "
      "object with the buffer protocol, DLPack, __cuda_array_interface__ or __array_interface__: numpy arrays, torch "
      "tensors, bytearrays, memoryviews. Its memory is used directly and must be contiguous.\n\n"
      "Without `out` a collective is in place. It returns the array that has the result, or None on ranks without a "
      "result. Each NAME has the forms iNAME (returns a Request) and plan_NAME (returns a Plan).\n\n"
      ">>> import hmc, numpy as np\n"
      ">>> with hmc.init() as rt:\n"
      "...     total = rt.world.allreduce(np.array([1.5, 2.5]), op=hmc.sum)\n"
      ">>> bool((total == np.array([1.5, 2.5]) * rt.size).all())\n"
      "True\n");
  team.def_prop_ro(
          "rank", [](const TeamObject& self) { return self.team.rank(); }, "This rank's number in the team.")
      .def_prop_ro(
          "size", [](const TeamObject& self) { return self.team.size(); }, "The number of ranks.")
      .def(
          "world_rank", [](const TeamObject& self, int rank) { return self.team.world_rank(rank); }, nb::arg("rank"),
          "The world rank of a rank of this team.")
      .def(
          "split",
          [](TeamObject& self, int colour, int key) {
            return derive(self, [&](hmc::Team& parent) { return parent.split(colour, key); });
          },
          nb::arg("colour"), nb::arg("key") = 0,
          "Collective: one team per colour, ordered by key, then by rank. A negative colour: None.")
      .def(
          "subset",
          [](TeamObject& self, const std::vector<int>& ranks) {
            return derive(self, [&](hmc::Team& parent) { return parent.subset(ranks); });
          },
          nb::arg("ranks"), "Collective: a team of these ranks in this order; None on the other ranks.")
      .def(
          "duplicate", [](TeamObject& self) { return derive(self, [](hmc::Team& t) { return t.duplicate(); }); },
          "Collective: a team of the same ranks.")
      .def(
          "node_team", [](TeamObject& self) { return derive(self, [](hmc::Team& t) { return t.node_team(); }); },
          "Collective: the ranks on this rank's node.")
      .def(
          "leaders", [](TeamObject& self) { return derive(self, [](hmc::Team& t) { return t.leaders(); }); },
          "Collective: the first rank of each node; None on the other ranks.")
      .def(
          "shrink",
          [](TeamObject& self) {
            return derive(
                self, [](hmc::Team& t) { return t.shrink(); }, Among::none);
          },
          "Collective over the remaining ranks: a team without the ranks that have ended. It replaces Runtime.world.")
      .def(
          "grow",
          [](TeamObject& self, std::optional<double> seconds) {
            const hmc::Timeout timeout = timeout_of(seconds, "grow");
            return derive(
                self, [&](hmc::Team& t) { return t.grow(timeout); }, Among::none);
          },
          nb::arg("timeout") = nb::none(),
          "Collective over the remaining ranks: wait until each rank that has ended is replaced.")
      .def(
          "close", [](TeamObject& self) { blocking(*self.job, Among::none, [&] { self.team.close(); }); },
          "Collective: complete operations in flight and free the team's memory.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](TeamObject& self, H type, H, H) {
            // After an exception the other ranks may not come: only this rank's handle ends, with the object.
            if (type.is_none()) blocking(*self.job, Among::none, [&] { self.team.close(); });
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none())
      .def(
          "calls_by_algorithm",
          [](const TeamObject& self, const std::string& collective, const std::string& algorithm) {
            return self.team.calls_by_algorithm(collective, algorithm);
          },
          nb::arg("collective"), nb::arg("algorithm"), "The number of calls of a collective that used an algorithm.")
      .def("__repr__", [](const TeamObject& self) {
        return "<hmc.Team: rank " + std::to_string(self.team.rank()) + " of " + std::to_string(self.team.size()) + ">";
      });

  define_messages(module, team);
  define_collectives(team);
}

}  // namespace hmc::python
