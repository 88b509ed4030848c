// copy: one verb between any two places, local memory of any kind and bytes of any rank's part of a window.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/types.hpp>

namespace hmc {

class Window;

/// Where a copy reads or writes. A window named by one stays open until the copy has returned.
struct Location {
  /// Memory of this process: the host's, or a device's of any vendor.
  Location(const void* address) noexcept : pointer(const_cast<void*>(address)) {}  // a source is only read
  /// Byte `at` of a rank's part.
  Location(Window& in, int of, std::uint64_t at) noexcept : window(&in), rank(of), offset(at) {}

  Window* window = nullptr;  ///< null: `pointer` it is
  int rank = -1;
  std::uint64_t offset = 0;
  void* pointer = nullptr;
};

/// What a copy goes from and to: `global` is a window, `host` memory that the host reaches, `local` a device's.
/// Any but `automatic` is an assertion: a copy between other places is refused, Error{invalid_argument}.
enum class Direction : std::uint8_t {
  automatic,
  host_to_host,
  host_to_local,
  local_to_host,
  local_to_local,
  host_to_global,
  local_to_global,
  global_to_host,
  global_to_local,
  global_to_global,
};
HMC_API const char* name_of(Direction direction) noexcept;

/// As put into a window (whoever needs the bytes there flushes), as get out of one, and done when it returns between
/// local memory. From window to window bytes go directly where one side is this rank's or can be loaded from, else
/// through host memory here. Throws Error.
HMC_API void copy(const Location& destination, const Location& source, std::size_t bytes,
                  Direction direction = Direction::automatic);

}  // namespace hmc
