// Reservation: the address range of a pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hmc::pool {

/// A range without access, into which parts are mapped. The destructor unmaps everything. Threads: any, for disjoint
/// parts.
class Reservation {
 public:
  /// At `start`; 0: at the first free of a few fixed starts, which are far from where programs, libraries and heaps
  /// usually are, or else anywhere. If `start` isn't free: anywhere, and why_elsewhere() has the reason. Throws
  /// Error{out_of_memory}.
  Reservation(std::uint64_t start, std::uint64_t bytes);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  std::byte* base() const noexcept { return base_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::string& why_elsewhere() const noexcept { return why_elsewhere_; }
  bool contains(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_) < bytes_;
  }

  /// Maps the first `bytes` bytes of a file at `offset`. Throws Error.
  void map(std::uint64_t offset, int fd, std::uint64_t bytes, std::uint64_t file_offset);
  /// Without access again. If the system can't, the mapping stays, and the result is false.
  bool unmap(std::uint64_t offset, std::uint64_t bytes) noexcept;

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::string why_elsewhere_;
};

}  // namespace hmc::pool
