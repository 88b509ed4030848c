// copy: copies between any two locations. A location is memory of this process, or a rank's part of a window.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/types.hpp>

namespace hmc {

class Window;

/// The source or the destination of a copy. A window must stay open until the copy returns.
struct Location {
  /// Memory of this process, on the host or on a device of any vendor.
  Location(const void* address) noexcept : pointer(const_cast<void*>(address)) {}  // HMC doesn't write to a source
  /// Byte `at` of the part of rank `of` in the window `in`.
  Location(Window& in, int of, std::uint64_t at) noexcept : window(&in), rank(of), offset(at) {}

  Window* window = nullptr;  ///< null: the location is `pointer`
  int rank = -1;
  std::uint64_t offset = 0;
  void* pointer = nullptr;
};

/// The kinds of source and destination: `global` is a window, `host` is memory that the host can access, `local` is
/// device memory of this process. If the value isn't `automatic`, locations of other kinds are Error{invalid_argument}.
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

/// Copies `bytes` bytes. Throws Error. Returns:
///  - to a window: at local completion, as put; flush() of the destination window waits for remote completion
///  - from a window to memory of this process: when the bytes have arrived, as get
///  - within this process: when the copy is complete
///
/// From window to window, HMC copies directly if one side is mapped in this process. Otherwise it stages the bytes in
/// host memory of this rank.
HMC_API void copy(const Location& destination, const Location& source, std::size_t bytes,
                  Direction direction = Direction::automatic);

}  // namespace hmc
