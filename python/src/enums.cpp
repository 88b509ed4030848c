#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "python/src/objects.hpp"

namespace hmc::python {

namespace {

// The members of the enums, by value. Immortal: the enums live as long as the process.
std::array<PyObject*, op_count> ops;
std::array<PyObject*, 6> comparisons;
std::array<PyObject*, dtype_count> dtypes;
constexpr const char* comparison_signs[] = {"==", "!=", "<", "<=", ">", ">="};

template <typename Enum, std::size_t count>
Enum value_of(const std::array<PyObject*, count>& members, nb::handle object, const char* what) {
  for (std::size_t i = 0; i < count; ++i)
    if (members[i] == object.ptr()) return static_cast<Enum>(i);
  if (nb::isinstance<nb::str>(object)) {
    const std::string name = nb::cast<std::string>(object);
    for (std::size_t i = 0; i < count; ++i)
      if (nb::cast<std::string>(nb::handle(members[i]).attr("name")) == name) return static_cast<Enum>(i);
  }
  std::string text = nb::cast<std::string>(nb::repr(object)) + ": no such " + what + "; there are";
  for (PyObject* const member : members) text += " " + nb::cast<std::string>(nb::handle(member).attr("name"));
  throw nb::value_error(text.c_str());
}

template <std::size_t count> void remember(nb::handle type, std::array<PyObject*, count>& members) {
  std::size_t i = 0;
  for (const nb::handle member : type) members[i++] = member.inc_ref().ptr();
}

}  // namespace

hmc::Op op_of(nb::handle object) { return value_of<hmc::Op>(ops, object, "operation"); }
hmc::DType dtype_of(nb::handle object) { return value_of<hmc::DType>(dtypes, object, "element type"); }
hmc::Cmp comparison_of(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) {
    const std::string sign = nb::cast<std::string>(object);
    for (std::size_t i = 0; i < std::size(comparison_signs); ++i)
      if (sign == comparison_signs[i]) return static_cast<hmc::Cmp>(i);
  }
  return value_of<hmc::Cmp>(comparisons, object, "comparison");
}

void define_enums(nb::module_& module) {
  nb::enum_<hmc::Op> op(module, "Op",
                        "A reduction. Each member is also a name of the module (hmc.sum), and a string names it "
                        "(op=\"sum\").\n\navg: the sum divided by the number of ranks. band, bor, bxor, land, lor: "
                        "integers only.\nmaxloc, minloc: pairs of a value and an index (DType.located_f64, ...).");
  for (int i = 0; i < op_count; ++i) op.value(hmc::name_of(static_cast<hmc::Op>(i)), static_cast<hmc::Op>(i));
  op.export_values();
  remember(op, ops);

  nb::enum_<hmc::DType> dtype(module, "DType",
                              "An element type. Calls read it from the array; dtype= overrides it, for example for "
                              "bfloat16 in a uint16 array.");
  for (int i = 0; i < dtype_count; ++i)
    dtype.value(hmc::name_of(static_cast<hmc::DType>(i)), static_cast<hmc::DType>(i));
  remember(dtype, dtypes);

  nb::enum_<hmc::Cmp> cmp(module, "Cmp", "A comparison of wait_until. Strings name it too: \">=\" or \"ge\".");
  int i = 0;
  for (const char* const name : {"eq", "ne", "lt", "le", "gt", "ge"}) cmp.value(name, static_cast<hmc::Cmp>(i++));
  remember(cmp, comparisons);
}

}  // namespace hmc::python
