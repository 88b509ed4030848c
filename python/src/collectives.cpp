#include "python/src/collectives.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <type_traits>

namespace hmc::python {

void Operands::refuse(const std::string& what) const {
  ErrorDetail detail;
  detail.code = Code::invalid_argument;
  detail.operation = operation;
  detail.rank = team.world_rank(team.rank());
  detail.message = what;
  throw hmc::Error(std::move(detail));
}

void Operands::read(nb::handle array, nb::handle output_object) {
  in_place = output_object.is_none() || output_object.is(array);
  first = Array(operation, "array", array, in_place ? Access::write : Access::read);
  if (!in_place) second = Array(operation, "out", output_object, Access::write);
  in = first.data();
  out = in_place ? first.data() : second.data();
  result = in_place ? array : output_object;
}

void Operands::read_input(nb::handle array) {
  in_place = true;
  first = Array(operation, "array", array, Access::read);
  in = first.data();
}

std::size_t Operands::block(const Array& all, const char* name) const {
  if (!(all.bytes() % size() == 0 && all.bytes() / size() % std::max<std::size_t>(all.itemsize(), 1) == 0))
    refuse(std::string(name) + " has " + std::to_string(all.items()) + " elements, which isn't a multiple of the " +
           std::to_string(size()) + " ranks");
  return all.bytes() / size();
}

void Reduced::read_type(nb::handle op, nb::handle dtype, bool deterministic) {
  how = op_of(op);
  how.deterministic = deterministic;
  if (dtype.is_none()) {
    if (!first.type())
      throw nb::type_error(
          (std::string(operation) + ": no reduction for the array's element type; dtype= names the type of the bytes")
              .c_str());
    type = *first.type();
  } else {
    type = python::dtype_of(dtype);
    if (!(first.bytes() % size_of(type) == 0)) refuse("the array's size isn't a multiple of dtype's");
  }
  count = first.bytes() / size_of(type);
  if (in_place || !dtype.is_none()) return;
  if (second.type() != first.type())
    refuse(std::string("out has another element type than the array (") +
           (second.type() ? name_of(*second.type()) : "none") + ", " + name_of(type) + ")");
}

namespace {

std::string elements(std::size_t count) { return std::to_string(count) + " elements"; }

/// A sequence or an array of integers.
std::vector<std::size_t> numbers_of(const char* operation, const char* name, nb::handle object) {
  std::vector<std::size_t> numbers;
  if (object.is_none()) return numbers;
  for (const nb::handle each : object) {
    const Py_ssize_t number = PyNumber_AsSsize_t(each.ptr(), PyExc_OverflowError);
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (number < 0) throw nb::value_error((std::string(operation) + ": " + name + " has a negative number").c_str());
    numbers.push_back(static_cast<std::size_t>(number));
  }
  return numbers;
}

// Each struct reads the arguments of one collective. call() describes it.

struct Broadcast : Operands {
  static constexpr const char* name = "broadcast";
  int root;
  Broadcast(const hmc::Team& team, nb::handle array, int root) : Operands(name, team), root(root) {
    in_place = true;
    first = Array(name, "array", array, team.rank() == root ? Access::read : Access::write);
    in = first.data();
    result = array;
  }
  hmc::Collective call() const { return describe::broadcast(in, first.bytes(), root); }
};

struct Gather : Operands {
  static constexpr const char* name = "gather";
  int root;
  std::size_t bytes = 0;
  Gather(const hmc::Team& team, nb::handle array, nb::handle output_object, int root)
      : Operands(name, team), root(root) {
    if (team.rank() != root) {
      read_input(array);
      bytes = first.bytes();
      return;
    }
    read(array, output_object);
    bytes = block(output(), in_place ? "the array" : "out");
    if (in_place) in = static_cast<char*>(out) + bytes * static_cast<std::size_t>(root);
    if (!in_place && bytes != first.bytes())
      refuse("out has " + elements(output().items()) + "; it needs the array's " + elements(first.items()) +
             " per rank");
  }
  hmc::Collective call() const { return describe::gather(in, out, bytes, root); }
};

struct Scatter : Operands {
  static constexpr const char* name = "scatter";
  int root;
  std::size_t bytes = 0;
  Scatter(const hmc::Team& team, nb::handle array, nb::handle output_object, int root)
      : Operands(name, team), root(root) {
    if (team.rank() != root) {  // the output is `out`, or `array` if out is None
      const nb::handle object = output_object.is_none() ? array : output_object;
      in_place = true;
      first = Array(name, "out", object, Access::write);
      in = nullptr;
      out = first.data();
      result = object;
      bytes = first.bytes();
      return;
    }
    in_place = output_object.is_none() || output_object.is(array);
    first = Array(name, "array", array, Access::read);
    bytes = block(first, "the array");
    in = first.data();
    if (in_place) {
      out = static_cast<char*>(in) + bytes * static_cast<std::size_t>(root);
      result = array;
      return;
    }
    second = Array(name, "out", output_object, Access::write);
    out = second.data();
    result = output_object;
    if (bytes != second.bytes())
      refuse("out has " + elements(second.items()) + "; a block of the array has " +
             elements(bytes / std::max<std::size_t>(first.itemsize(), 1)));
  }
  hmc::Collective call() const { return describe::scatter(in, out, bytes, root); }
};

struct Allgather : Operands {
  static constexpr const char* name = "allgather";
  std::size_t bytes = 0;
  Allgather(const hmc::Team& team, nb::handle array, nb::handle output_object) : Operands(name, team) {
    read(array, output_object);
    bytes = block(output(), in_place ? "the array" : "out");
    if (in_place) in = static_cast<char*>(out) + bytes * static_cast<std::size_t>(team.rank());
    if (!in_place && bytes != first.bytes())
      refuse("out has " + elements(output().items()) + "; it needs the array's " + elements(first.items()) +
             " per rank");
  }
  hmc::Collective call() const { return describe::allgather(in, out, bytes); }
};

struct Alltoall : Operands {
  static constexpr const char* name = "alltoall";
  std::size_t bytes = 0;
  Alltoall(const hmc::Team& team, nb::handle array, nb::handle output_object) : Operands(name, team) {
    read(array, output_object);
    bytes = block(first, "the array");
    if (!in_place && first.bytes() != second.bytes())
      refuse("out has " + elements(second.items()) + ", the array " + elements(first.items()));
  }
  hmc::Collective call() const { return describe::alltoall(in, out, bytes); }
};

// ---- v-forms. Counts and displacements are in elements of the array that holds this rank's block.
struct Uneven : Operands {
  using Operands::Operands;
  std::vector<std::size_t> counts, displacements;
  std::size_t element = 1;
  void read_counts(nb::handle count_object, nb::handle displacement_object) {
    counts = numbers_of(operation, "counts", count_object);
    displacements = numbers_of(operation, "displacements", displacement_object);
    if (counts.size() != size())
      refuse("counts has " + elements(counts.size()) + " for " + std::to_string(size()) + " ranks");
    if (!(displacements.empty() || displacements.size() == size()))
      refuse("displacements has another length than counts");
  }
  std::size_t mine() const { return counts[static_cast<std::size_t>(team.rank())]; }
  std::size_t begin_of_mine() const {
    const auto rank = static_cast<std::size_t>(team.rank());
    if (!displacements.empty()) return displacements[rank];
    std::size_t begin = 0;
    for (std::size_t i = 0; i < rank; ++i) begin += counts[i];
    return begin;
  }
  /// `all` holds every block.
  void require_reach(const Array& all, const char* name, const std::vector<std::size_t>& lengths,
                     const std::vector<std::size_t>& starts) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::size_t begin = starts.empty() ? next : starts[i];
      const bool overflows = __builtin_add_overflow(begin, lengths[i], &next);
      if (!(lengths[i] == 0 || (!overflows && next <= all.bytes() / element)))
        refuse(std::string(name) + " has " + elements(all.items()) + "; the block of rank " + std::to_string(i) +
               " needs " + elements(next));
    }
  }
};

struct Gatherv : Uneven {
  static constexpr const char* name = "gatherv";
  int root;
  Gatherv(const hmc::Team& team, nb::handle array, nb::handle count_object, nb::handle displacement_object,
          nb::handle output_object, int root)
      : Uneven(name, team), root(root) {
    read_counts(count_object, displacement_object);
    if (team.rank() == root) {
      read(array, output_object);
      element = first.itemsize();
      require_reach(output(), in_place ? "the array" : "out", counts, displacements);
      if (in_place) in = static_cast<char*>(out) + begin_of_mine() * element;
    } else {
      read_input(array);
      element = first.itemsize();
    }
    if (!(in_place && team.rank() == root ? true : first.items() >= mine()))
      refuse("the array has " + elements(first.items()) + "; counts says " + std::to_string(mine()));
  }
  hmc::Collective call() const { return describe::gatherv(in, out, counts, displacements, root, element); }
};

struct Scatterv : Uneven {
  static constexpr const char* name = "scatterv";
  int root;
  Scatterv(const hmc::Team& team, nb::handle array, nb::handle count_object, nb::handle displacement_object,
           nb::handle output_object, int root)
      : Uneven(name, team), root(root) {
    read_counts(count_object, displacement_object);
    if (team.rank() != root) {
      const nb::handle object = output_object.is_none() ? array : output_object;
      in_place = true;
      first = Array(name, "out", object, Access::write);
      element = first.itemsize();
      out = first.data();
      result = object;
      if (first.items() < mine())
        refuse("out has " + elements(first.items()) + "; counts says " + std::to_string(mine()));
      return;
    }
    in_place = output_object.is_none() || output_object.is(array);
    first = Array(name, "array", array, Access::read);
    element = first.itemsize();
    in = first.data();
    require_reach(first, "the array", counts, displacements);
    if (in_place) {
      out = static_cast<char*>(in) + begin_of_mine() * element;
      result = array;
      return;
    }
    second = Array(name, "out", output_object, Access::write);
    out = second.data();
    result = output_object;
    if (second.bytes() / element < mine())
      refuse("out has " + elements(second.items()) + "; counts says " + std::to_string(mine()));
  }
  hmc::Collective call() const { return describe::scatterv(in, out, counts, displacements, root, element); }
};

struct Allgatherv : Uneven {
  static constexpr const char* name = "allgatherv";
  Allgatherv(const hmc::Team& team, nb::handle array, nb::handle count_object, nb::handle displacement_object,
             nb::handle output_object)
      : Uneven(name, team) {
    read_counts(count_object, displacement_object);
    read(array, output_object);
    element = first.itemsize();
    require_reach(output(), in_place ? "the array" : "out", counts, displacements);
    if (in_place) in = static_cast<char*>(out) + begin_of_mine() * element;
    if (!in_place && first.items() < mine())
      refuse("the array has " + elements(first.items()) + "; counts says " + std::to_string(mine()));
  }
  hmc::Collective call() const { return describe::allgatherv(in, out, counts, displacements, element); }
};

struct Alltoallv : Uneven {
  static constexpr const char* name = "alltoallv";
  std::vector<std::size_t> receive_counts, receive_displacements;
  std::size_t largest;
  Alltoallv(const hmc::Team& team, nb::handle array, nb::handle count_object, nb::handle output_object,
            nb::handle receive_count_object, nb::handle displacement_object, nb::handle receive_displacement_object,
            std::size_t largest)
      : Uneven(name, team), largest(largest) {
    read_counts(count_object, displacement_object);
    receive_counts = numbers_of(operation, "receive_counts", receive_count_object);
    receive_displacements = numbers_of(operation, "receive_displacements", receive_displacement_object);
    if (!(receive_counts.size() == size() && (receive_displacements.empty() || receive_displacements.size() == size())))
      refuse("receive_counts and receive_displacements have one number per rank");
    read(array, output_object);
    if (in_place) refuse("not possible in place; pass out");
    element = first.itemsize();
    require_reach(first, "the array", counts, displacements);
    require_reach(second, "out", receive_counts, receive_displacements);
  }
  hmc::Collective call() const {
    return describe::with_largest(
        describe::alltoallv(in, counts, displacements, out, receive_counts, receive_displacements, element), largest);
  }
};

// ---- reductions
struct Reduce : Reduced {
  static constexpr const char* name = "reduce";
  int root;
  Reduce(const hmc::Team& team, nb::handle array, nb::handle output_object, nb::handle op, int root, nb::handle dtype,
         bool deterministic)
      : Reduced(name, team), root(root) {
    if (team.rank() == root)
      read(array, output_object);
    else
      read_input(array);
    read_type(op, dtype, deterministic);
    if (!in_place && first.bytes() != second.bytes())
      refuse("out has " + elements(second.items()) + ", the array " + elements(first.items()));
  }
  hmc::Collective call() const { return describe::reduce(in, out, count, type, how, root); }
};

/// allreduce, scan, exscan: the output has the size of the input.
struct Equal : Reduced {
  Equal(const char* operation, const hmc::Team& team, nb::handle array, nb::handle output_object, nb::handle op,
        nb::handle dtype, bool deterministic)
      : Reduced(operation, team) {
    read(array, output_object);
    read_type(op, dtype, deterministic);
    if (!in_place && first.bytes() != second.bytes())
      refuse("out has " + elements(second.items()) + ", the array " + elements(first.items()));
  }
};
#define HMC_EQUAL(type_name, verb)                                                                                \
  struct type_name : Equal {                                                                                      \
    static constexpr const char* name = #verb;                                                                    \
    type_name(const hmc::Team& team, nb::handle array, nb::handle output_object, nb::handle op, nb::handle dtype, \
              bool deterministic)                                                                                 \
        : Equal(name, team, array, output_object, op, dtype, deterministic) {}                                    \
    hmc::Collective call() const { return describe::verb(in, out, count, type, how); }                            \
  };
HMC_EQUAL(Allreduce, allreduce)
HMC_EQUAL(Scan, scan)
HMC_EQUAL(Exscan, exscan)

struct ReduceScatter : Reduced {
  static constexpr const char* name = "reduce_scatter";
  ReduceScatter(const hmc::Team& team, nb::handle array, nb::handle output_object, nb::handle op, nb::handle dtype,
                bool deterministic)
      : Reduced(name, team) {
    read(array, output_object);
    read_type(op, dtype, deterministic);
    const std::size_t bytes = block(first, "the array");
    count /= size();
    if (!in_place && bytes != second.bytes())
      refuse("out has " + elements(second.items()) + "; a block of the array has " + elements(count));
  }
  hmc::Collective call() const { return describe::reduce_scatter(in, out, count, type, how); }
};

struct ReduceScatterv : Reduced {
  static constexpr const char* name = "reduce_scatterv";
  std::vector<std::size_t> counts;
  ReduceScatterv(const hmc::Team& team, nb::handle array, nb::handle count_object, nb::handle output_object,
                 nb::handle op, nb::handle dtype, bool deterministic)
      : Reduced(name, team) {
    counts = numbers_of(operation, "counts", count_object);
    if (counts.size() != size())
      refuse("counts has " + elements(counts.size()) + " for " + std::to_string(size()) + " ranks");
    read(array, output_object);
    read_type(op, dtype, deterministic);
    std::size_t sum = 0;
    for (const std::size_t each : counts)
      if (__builtin_add_overflow(sum, each, &sum)) refuse("the sum of counts is too large");
    if (sum > count) refuse("the array has " + elements(count) + "; the sum of counts is " + std::to_string(sum));
    const std::size_t mine = counts[static_cast<std::size_t>(team.rank())];
    if (!in_place && second.bytes() / size_of(type) < mine)
      refuse("out has " + elements(second.items()) + "; counts says " + std::to_string(mine));
  }
  hmc::Collective call() const { return describe::reduce_scatterv(in, out, counts, type, how); }
};

nb::object result_of(const Operands& operands) {
  return operands.result.is_valid() ? nb::borrow(operands.result) : nb::none();
}

void require_member(const TeamObject& self, const char* operation) {
  if (!self.team) [[unlikely]]
    throw hmc::Error(Code::closed, operation, "the team is empty");
}

/// Defines NAME, iNAME and plan_NAME. `Arguments`: of the constructor of Read, after the team.
template <typename Read, typename... Arguments, typename... Extra>
void collective(nb::class_<TeamObject>& team, const char* doc, const Extra&... extra) {
  const std::string name = Read::name;
  team.def(
      Read::name,
      [](TeamObject& self, Arguments... arguments) {
        require_member(self, Read::name);
        const Read read(self.team, arguments...);
        blocking(*self.job, Among::others, [&] { self.team.run(read.call()); });
        return result_of(read);
      },
      extra..., doc);
  team.def(("i" + name).c_str(),
           [](TeamObject& self, Arguments... arguments) {
             require_member(self, Read::name);
             Read read(self.team, arguments...);
             hmc::Request request = blocking(*self.job, Among::others, [&] { return self.team.start(read.call()); });
             self.job->sweep();
             nb::object result = result_of(read);
             return new RequestObject(self, std::move(request), read.take_arrays(), std::move(result));
           },
           extra..., ("Non-blocking " + name + ".").c_str());
  team.def(("plan_" + name).c_str(),
           [](TeamObject& self, Arguments... arguments) {
             require_member(self, Read::name);
             Read read(self.team, arguments...);
             hmc::Plan plan = blocking(*self.job, Among::others, [&] { return self.team.plan(read.call()); });
             nb::object result = result_of(read);
             return new PlanObject(self, std::move(plan), read.take_arrays(), std::move(result));
           },
           extra..., ("Persistent " + name + ": see Plan.").c_str());
}

/// A function of hmc/_objects.py.
template <typename... Arguments> nb::object by_pickle(const char* function, const Arguments&... arguments) {
  return nb::module_::import_("hmc._objects").attr(function)(arguments...);
}

}  // namespace

void define_collectives(nb::class_<TeamObject>& team) {
  using H = nb::handle;
  team.def(
      "barrier", [](TeamObject& self) { blocking(*self.job, Among::others, [&] { self.team.barrier(); }); },
      "Return when all ranks have entered, and this rank's earlier puts and atomics are complete.");
  team.def(
      "ibarrier",
      [](TeamObject& self) {
        hmc::Request request = blocking(*self.job, Among::others, [&] { return self.team.ibarrier(); });
        return new RequestObject(self, std::move(request), {}, nb::none());
      },
      "Non-blocking barrier. It doesn't complete earlier puts: call Window.flush first.");
  team.def(
      "plan_barrier",
      [](TeamObject& self) {
        hmc::Plan plan = blocking(*self.job, Among::others, [&] { return self.team.plan_barrier(); });
        return new PlanObject(self, std::move(plan), {}, nb::none());
      },
      "Persistent barrier: see Plan.");

  const auto array = nb::arg("array");
  const auto out = nb::arg("out") = nb::none();
  const auto root = nb::arg("root") = 0;
  const auto counts = nb::arg("counts");
  const auto displacements = nb::arg("displacements") = nb::none();
  const auto op = nb::arg("op") = Op::sum;
  const auto dtype = nb::arg("dtype") = nb::none();
  const auto deterministic = nb::arg("deterministic") = false;
  collective<Broadcast, H, int>(team, "Copy the root's array to the array of every other rank.", array, root);
  collective<Gather, H, H, int>(team,
                                "Copy each rank's array to the root's `out`, in rank order.\n\nIn place on the root: "
                                "`array` has all blocks, and the root's block is at its place.",
                                array, out, root);
  collective<Gatherv, H, H, H, H, int>(
      team, "gather with a count per rank; counts and displacements are in elements. All ranks pass the same counts.",
      array, counts, displacements, out, root);
  collective<Scatter, H, H, int>(team,
                                 "Copy block i of the root's array to rank i.\n\nThe other ranks pass their block as "
                                 "`out`, or as `array` alone. In place on the root: its block stays in `array`.",
                                 nb::arg("array").none(), out, root);
  collective<Scatterv, H, H, H, H, int>(team,
                                        "scatter with a count per rank; counts and displacements are in elements.",
                                        nb::arg("array").none(), counts, displacements, out, root);
  collective<Allgather, H, H>(team,
                              "Copy each rank's array to `out` of every rank, in rank order.\n\nIn place: `array` has "
                              "all blocks, and this rank's block is at its place.",
                              array, out);
  collective<Allgatherv, H, H, H, H>(team, "allgather with a count per rank; counts and displacements are in elements.",
                                     array, counts, displacements, out);
  collective<Alltoall, H, H>(team, "Send block i of `array` to rank i, and receive its block in block i of `out`.",
                             array, out);
  collective<Alltoallv, H, H, H, H, H, H, std::size_t>(
      team,
      "alltoall with a count per rank in each direction, in elements.\n\nlargest: for ialltoallv and plan_alltoallv "
      "the "
      "largest count that any two ranks exchange, the same on every rank. The error for another value names it.",
      array, counts, nb::arg("out"), nb::arg("receive_counts"), displacements,
      nb::arg("receive_displacements") = nb::none(), nb::arg("largest") = 0);
  collective<Reduce, H, H, H, int, H, bool>(team, "Combine the arrays of all ranks into the root's `out`.", array, out,
                                            op, root, dtype, deterministic);
  collective<Allreduce, H, H, H, H, bool>(
      team,
      "Combine the arrays of all ranks into `out` of every rank.\n\nop: hmc.sum, \"sum\", ... (see Op). dtype: an "
      "element type that the array doesn't state, for example \"bf16\". deterministic: the result's bits don't depend "
      "on the algorithm and the placement of ranks.",
      array, out, op, dtype, deterministic);
  collective<ReduceScatter, H, H, H, H, bool>(
      team,
      "Combine the arrays of all ranks; `out` gets this rank's block.\n\nIn place the result is the first block of "
      "`array`.",
      array, out, op, dtype, deterministic);
  collective<ReduceScatterv, H, H, H, H, H, bool>(
      team, "reduce_scatter with a count per rank, in elements. In place the result is at the begin of `array`.", array,
      counts, out, op, dtype, deterministic);
  collective<Scan, H, H, H, H, bool>(team, "Inclusive prefix: combine the arrays of ranks 0 to rank.", array, out, op,
                                     dtype, deterministic);
  collective<Exscan, H, H, H, H, bool>(
      team, "Exclusive prefix: combine the arrays of ranks 0 to rank - 1. Rank 0's `out` isn't written.", array, out,
      op, dtype, deterministic);

  team.def(
      "broadcast_object",
      [](nb::object self, nb::object value, int root_rank) {
        return by_pickle("broadcast_object", self, value, root_rank);
      },
      nb::arg("value").none() = nb::none(), root, "Return the root's object on every rank, by pickle.");
  team.def(
      "gather_object",
      [](nb::object self, nb::object value, int root_rank) {
        return by_pickle("gather_object", self, value, root_rank);
      },
      nb::arg("value").none(), root, "Return the list of all ranks' objects on the root, None elsewhere, by pickle.");
  team.def(
      "allgather_object", [](nb::object self, nb::object value) { return by_pickle("allgather_object", self, value); },
      nb::arg("value").none(), "Return the list of all ranks' objects on every rank, by pickle.");
  team.def(
      "scatter_object",
      [](nb::object self, nb::object values, int root_rank) {
        return by_pickle("scatter_object", self, values, root_rank);
      },
      nb::arg("values").none() = nb::none(), root, "Return item i of the root's sequence on rank i, by pickle.");
  team.def(
      "alltoall_object", [](nb::object self, nb::object values) { return by_pickle("alltoall_object", self, values); },
      nb::arg("values"), "Send item i to rank i; return the list of the received objects, by pickle.");
}

}  // namespace hmc::python
