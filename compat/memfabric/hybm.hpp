// The entity of hybm: slices of host memory that processes of one machine share.
//
// A slice is a memfd. Its export names the process and the descriptor, by which the importer opens it; the file's inode
// proves that it is the exported one. All parts are mapped into one reservation, at the same address in each process.
#pragma once

#include <hybm.h>
#include <hybm_big_mem.h>
#include <hybm_data_op.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/pool.hpp>

#include "compat/memfabric/layer.hpp"

namespace hmc::memfabric::hybm {

inline void check(bool holds, const char* text) {
  if (!holds) throw Failure(BM_INVALID_PARAM, text);
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// What hybm_export writes.
struct Exchange {
  static constexpr std::uint64_t magic_number = 0x6d62796863686d31;
  std::uint64_t magic = magic_number;
  std::array<char, 40> machine{};
  std::uint32_t is_entity = 1;
  std::uint32_t rank = 0;
  std::int32_t type = 0;  // hybm_mem_type
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Exchange>);
/// Throws Failure if these aren't bytes of hybm_export, or are those of another machine.
Exchange decode(const hybm_exchange_info& info);

struct Slice {
  hybm_mem_type type = HYBM_MEM_TYPE_HOST;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Descriptor file;
  bool is_users = false;  // registered
};
struct Imported {
  std::uint32_t rank = 0;
  std::uint64_t bytes = 0;
  Descriptor file;
  bool is_mapped = false;
};

/// Threads: any. Copies run at once; the other calls one at a time.
class Entity {
 public:
  Entity(std::uint16_t id, const hybm_options& options);
  ~Entity() { release(); }
  Entity(const Entity&) = delete;
  Entity& operator=(const Entity&) = delete;

  std::uint16_t id() const noexcept { return id_; }

  void reserve();
  void unreserve();
  void* base(hybm_mem_type type) const;

  hybm_mem_slice_t allocate(hybm_mem_type type, std::uint64_t bytes);
  hybm_mem_slice_t register_memory(const void* address, std::uint64_t bytes);
  void free(hybm_mem_slice_t handle);
  /// Of a slice: its address and its size.
  std::pair<std::uint64_t, std::uint64_t> range_of(hybm_mem_slice_t handle) const;

  Exchange export_of(hybm_mem_slice_t handle) const;
  void import(const std::vector<Exchange>& exchanges);
  void map_imported();
  void unmap(std::optional<std::uint32_t> rank);
  void remove(std::uint32_t rank);
  void require_known(const std::uint32_t* ranks, std::uint32_t count) const;
  bool reaches(std::uint32_t rank) const;
  bool is_accessible(std::uint64_t address, hybm_mem_type type) const;

  void copy(const std::vector<PoolCopy>& pieces, hybm_data_copy_direction direction, void* stream) const;

 private:
  static void* pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }
  bool has(hybm_mem_type type) const noexcept;
  bool knows(std::uint32_t rank) const;
  std::uint64_t stride(hybm_mem_type type) const;
  /// All host parts, then all device parts.
  std::uint64_t part(hybm_mem_type type, std::uint32_t rank) const;
  std::size_t index_of(hybm_mem_slice_t handle) const;
  Descriptor open_file(hybm_mem_type type, std::uint64_t bytes) const;
  Imported open(const Exchange& exchange) const;
  static void map(std::uint64_t address, std::uint64_t bytes, int fd);
  /// The range is reserved again.
  static void hide(std::uint64_t address, std::uint64_t bytes) noexcept;
  void free_at(std::size_t index);
  void unmap_imported(std::optional<std::uint32_t> rank);
  void release() noexcept;

  bool is_reserved(std::uint64_t address) const { return address >= base_ && address - base_ < reserved_; }
  /// Each byte is in an accessible slice of this type. Slices of one part follow each other.
  bool is_in_slices(std::uint64_t address, std::uint64_t bytes, hybm_mem_type type) const;
  /// From the address to the end of its slice; 0: it is in none.
  std::uint64_t bytes_from(std::uint64_t address) const;
  void check_piece(const PoolCopy& piece, hybm_data_copy_direction direction) const;
  void check_end(std::uint64_t address, std::uint64_t bytes, bool is_global, std::optional<bool> is_device) const;

  std::uint16_t id_;
  hybm_options options_;
  mutable std::shared_mutex mutex_;  // exclusive: mappings and lists change
  std::uint64_t base_ = 0, reserved_ = 0;
  std::uint64_t host_used_ = 0, device_used_ = 0;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::map<std::uint64_t, Imported> imported_;  // by address
  std::vector<std::uint32_t> known_ranks_;
};

}  // namespace hmc::memfabric::hybm
