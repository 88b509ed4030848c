// Registration: memory of the program that is registered with this rank's wires once, for many transfers.
#pragma once

#include <cstddef>
#include <memory>

#include <hmc/types.hpp>

namespace hmc {

class Team;
namespace rma {
class LocalRegistration;
}

/// Puts from registered memory and gets to it need no registration per call: an RDMA device accesses the memory at
/// once. Memory of windows is registered already. Shared memory and wires of messages need none: is_used() is then
/// false, and the object has no effect. Local, not collective. Movable, not copyable.
///
/// The memory stays the program's. It must be readable and writable, and must stay mapped until release(). Registration
/// pins its pages.
/// THREADS. The thread of the Runtime.
class HMC_API Registration {
 public:
  /// Registers [address, address + bytes) with all wires of this rank; the team names the job. Throws
  /// Error{invalid_argument}, or Error{unavailable} if a device can't register the memory (limit of locked memory).
  static Registration create(Team& team, void* address, std::size_t bytes);

  Registration() noexcept;  ///< empty
  Registration(Registration&&) noexcept;
  /// Releases this one's memory first.
  Registration& operator=(Registration&&) noexcept;
  ~Registration();
  /// Waits for this rank's transfers in flight, at most half a second; if some are left, the pages stay pinned until
  /// the job ends. Then the object is empty. Called by the destructor.
  void release() noexcept;

  /// True if at least one wire uses the registration.
  bool is_used() const noexcept;

 private:
  std::unique_ptr<rma::LocalRegistration> core_;
};

}  // namespace hmc
