// BM: a pool, and the copies of its directions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <smem_hmc.h>
#include <hmc/pool.hpp>

#include "compat/memfabric/control_store.hpp"

namespace hmc::memfabric {

/// "tagA:HOST_TCP:tagB,..." in the words of PoolOptions::rules. Throws Failure.
std::string rules_of(const std::string& tag_operations);
void require_tag(const std::string& tag);

/// The kinds of a copy's ends, as SMEMB_COPY_... names them.
class Directions {
 public:
  /// `has_accelerator`: L means device memory; else it means host memory.
  Directions(const Pool& pool, bool has_accelerator) : pool_(&pool), has_accelerator_(has_accelerator) {}
  /// The direction that the core checks. Throws Failure if an end isn't what `type` says.
  PoolDirection of(smem_bm_copy_type type, const void* destination, const void* source) const;

 private:
  const Pool* pool_;
  bool has_accelerator_;
};

class BigMemory {
 public:
  BigMemory(Session& session, std::uint32_t id, const smem_bm_create_option_t& option);

  void join();
  void leave() { pool_.leave(control_timeout_); }
  /// `stream`: used with SMEM_BM_FLAG_USE_EXTERNAL_STREAM.
  void copy(std::span<const PoolCopy> pieces, smem_bm_copy_type type, std::uint32_t flags, void* stream);
  void copy_2d(void* destination, std::uint64_t destination_pitch, const void* source, std::uint64_t source_pitch,
               std::uint64_t width, std::uint64_t height, smem_bm_copy_type type);
  void wait() { pool_.wait(control_timeout_); }
  void register_memory(std::uint64_t address, std::uint64_t bytes);
  void barrier(std::uint32_t size);
  void on_event(smem_bm_t handle, smem_bm_group_event_cb callback, void* context);
  /// The address at which this process, or its device, accesses a byte of the pool. Throws Failure.
  void* local_address(const void* address, smem_bm_mem_type type) const;

  Pool& pool() noexcept { return pool_; }
  std::uint32_t id() const noexcept { return id_; }
  int world() const noexcept { return pool_.most_members(); }
  std::uint64_t local_bytes(PoolPart part) const noexcept {
    return part == PoolPart::host ? host_bytes_ : device_bytes_;
  }
  /// The first release's pools have parts of one kind.
  PoolPart main_part() const noexcept { return pool_.stride(PoolPart::device) > 0 ? PoolPart::device : PoolPart::host; }

 private:
  void copy_each(std::span<const PoolCopy> pieces, smem_bm_copy_type type, bool async);
  void report_ways();

  std::uint32_t id_;
  std::uint32_t operations_;
  int device_;
  std::uint64_t host_bytes_;
  std::uint64_t device_bytes_;
  Timeout create_timeout_;
  Timeout control_timeout_;
  bool has_accelerator_;
  Pool pool_;
};

PoolPart part_of(smem_bm_mem_type type);

}  // namespace hmc::memfabric
