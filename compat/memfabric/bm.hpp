// BM: a pool, and the copies of its directions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

/// The shared memory of a host part, if this layer says where it is. It outlives the pool when the part is extended.
class HostMemory {
 public:
  /// Throws Failure.
  explicit HostMemory(const smem_bm_create_option_t& option);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  int descriptor() const noexcept { return descriptor_; }  ///< -1: the pool allocates
  /// The contents remain. Throws Failure.
  void extend(std::uint64_t bytes);

 private:
  int descriptor_ = -1;
  bool is_owned_ = false;
  std::optional<int> node_;
};

/// What remains of a pool when its host part is extended.
struct PoolState {
  std::uint32_t id = 0;
  smem_bm_create_option_t option{};
  std::shared_ptr<HostMemory> host;
  std::map<std::uint64_t, std::uint64_t> registered;  ///< memory of the user: address, bytes
  smem_bm_group_event_cb event_callback = nullptr;
  void* event_context = nullptr;
};

class BigMemory {
 public:
  /// Throws Failure and Error. state.host: null, or that of the former pool.
  BigMemory(Session& session, PoolState state);

  void join();
  void leave() { pool_.leave(control_timeout_); }
  /// `stream`: used with SMEM_BM_FLAG_USE_EXTERNAL_STREAM.
  void copy(std::span<const PoolCopy> pieces, smem_bm_copy_type type, std::uint32_t flags, void* stream);
  void copy_2d(void* destination, std::uint64_t destination_pitch, const void* source, std::uint64_t source_pitch,
               std::uint64_t width, std::uint64_t height, smem_bm_copy_type type);
  void wait() { pool_.wait(control_timeout_); }
  void register_memory(std::uint64_t address, std::uint64_t bytes);
  void deregister_memory(std::uint64_t address);
  void barrier(std::uint32_t size);
  void on_event(smem_bm_t handle, smem_bm_group_event_cb callback, void* context);
  /// The address at which this process, or its device, accesses a byte of the pool. Throws Failure.
  void* local_address(const void* address, smem_bm_mem_type type) const;

  Pool& pool() noexcept { return pool_; }
  /// With a host part that has so many bytes more. Throws Failure if that is impossible.
  PoolState extended(smem_bm_mem_type type, std::uint64_t bytes) const;
  PoolState state() const;
  std::uint32_t id() const noexcept { return state_.id; }
  int world() const noexcept { return pool_.most_members(); }
  std::chrono::nanoseconds control_timeout() const noexcept { return control_timeout_; }
  std::uint64_t local_bytes(PoolPart part) const noexcept {
    return part == PoolPart::host ? state_.option.localDRAMSize : state_.option.localHBMSize;
  }
  /// The first release's pools have parts of one kind.
  PoolPart main_part() const noexcept { return pool_.stride(PoolPart::device) > 0 ? PoolPart::device : PoolPart::host; }

 private:
  void copy_each(std::span<const PoolCopy> pieces, smem_bm_copy_type type, bool async);
  void report_ways();

  mutable std::mutex mutex_;  // of the user's memory and the callback in state_; its other members are constant
  PoolState state_;
  int device_;
  Timeout create_timeout_;
  Timeout control_timeout_;
  bool has_accelerator_;
  Pool pool_;
};

PoolPart part_of(smem_bm_mem_type type);

}  // namespace hmc::memfabric
