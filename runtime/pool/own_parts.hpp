// OwnParts: the memory that this process adds to a pool, and how others on its node map it.
#pragma once

#include <memory>
#include <string>

#include <hmc/pool.hpp>

#include "runtime/memory/provider.hpp"
#include "runtime/pool/control.hpp"

namespace hmc::pool {

/// Constant after construction. Threads: any.
class OwnParts {
 public:
  /// Allocates and populates the parts, or adopts options.host_fd. Throws Error.
  explicit OwnParts(const PoolOptions& options);

  /// Null: this process has no such part.
  const std::shared_ptr<memory::Allocation>& host() const noexcept { return host_; }
  const std::shared_ptr<memory::Allocation>& device() const noexcept { return device_; }
  MemoryType device_type() const noexcept { return device_type_; }
  /// What members on other nodes access: the host part, followed by the staging memory, if there is any. Null: neither.
  const std::shared_ptr<memory::Allocation>& exposed() const noexcept { return exposed_; }
  /// The staging memory for the device part begins here in exposed(); 0: there is none.
  std::uint64_t staging() const noexcept { return staging_; }
  /// Each member has a place in the staging memory, of two halves.
  static std::size_t half_of_a_place(int most_members) noexcept;

  /// For a process of this node. Throws Error.
  Shared share() const;

 private:
  std::shared_ptr<memory::Allocation> host_, device_, exposed_;
  std::uint64_t staging_ = 0;
  MemoryType device_type_ = MemoryType::CPU;
};

/// The other side of OwnParts::share().
struct SharedParts {
  base::UniqueFd host;
  std::uint64_t host_offset = 0;  ///< in the file
  std::int32_t process = 0;
  std::uint64_t host_address = 0;  ///< in that process
  std::uint64_t nonce_address = 0, nonce = 0;
  std::shared_ptr<memory::Allocation> device;  ///< null: not mapped
  std::string device_why;                      ///< how it is mapped, or why not

  struct Expected {  // of the member's card
    std::uint64_t host_bytes = 0, device_bytes = 0;
    MemoryType device_type = MemoryType::CPU;
    int device = 0;
  };
  /// Throws Error{refused} if the bytes can't be read. A device part that can't be mapped isn't an error.
  static SharedParts open(Shared theirs, const Expected& expected);
};

}  // namespace hmc::pool
