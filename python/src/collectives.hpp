// The arguments of each collective, from Python arrays; and its blocking, non-blocking and persistent form.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>

#include "python/src/array.hpp"
#include "python/src/objects.hpp"

namespace hmc::python {

/// One call. Without an output it is in place.
struct Operands {
  Operands(const char* operation, const hmc::Team& team) : operation(operation), team(team) {}

  const char* operation;
  const hmc::Team& team;
  Array first;   ///< the argument `array`
  Array second;  ///< the argument `out`, unless the call is in place
  bool in_place = false;
  void* in = nullptr;
  void* out = nullptr;
  nb::handle result;  ///< the output's object; invalid on ranks without an output
  std::size_t size() const noexcept { return static_cast<std::size_t>(team.size()); }

  const Array& output() const noexcept { return in_place ? first : second; }
  /// Reads both arguments. `writes_first`: in place the array is written.
  void read(nb::handle array, nb::handle output_object);
  /// Reads the argument `array` only, because this rank has no output.
  void read_input(nb::handle array);
  [[noreturn]] void refuse(const std::string& what) const;  ///< a wrong argument
  /// The array's size divided by the team's size.
  std::size_t block(const Array& all, const char* name) const;
  std::vector<Array> take_arrays() {
    std::vector<Array> arrays;
    arrays.push_back(std::move(first));
    if (!in_place) arrays.push_back(std::move(second));
    return arrays;
  }
};

/// What reductions have in addition.
struct Reduced : Operands {
  using Operands::Operands;
  DType type = DType::u8;
  Reduction how = Op::sum;
  std::size_t count = 0;
  void read_type(nb::handle op, nb::handle dtype, bool deterministic);
};

}  // namespace hmc::python
