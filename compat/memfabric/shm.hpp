// SHM: a pool with parts of one size, and control operations of its ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <smem_hmc.h>
#include <hmc/pool.hpp>

#include "compat/memfabric/control_store.hpp"

namespace hmc::memfabric {

inline constexpr std::uint32_t longest_context = 65536;
inline constexpr std::uint32_t longest_gathered = 65536;  ///< of one rank
inline constexpr std::size_t longest_key = 63;

class ShareMemory {
 public:
  struct Shape {
    std::uint32_t id = 0;
    int size = 0;
    int rank = 0;
    std::uint64_t bytes = 0;
  };
  /// Collective. If it fails on one rank, it throws on each, and no rank keeps anything.
  ShareMemory(Session& session, const Shape& shape);
  /// No handler starts afterwards.
  ~ShareMemory();
  ShareMemory(const ShareMemory&) = delete;
  ShareMemory& operator=(const ShareMemory&) = delete;

  const Shape& shape() const noexcept { return shape_; }
  Pool& pool() noexcept { return pool_; }
  PoolPart part() const noexcept { return part_; }
  const Store& store() const noexcept { return store_; }
  void* address(std::uint32_t rank) const;
  std::uint32_t reach(std::uint32_t rank) const;

  void barrier(const std::string& name, std::uint32_t size, std::uint32_t rank) const;
  void allgather(const std::string& name, std::uint32_t size, std::uint32_t rank, std::span<const char> mine,
                 std::span<char> all) const;
  void set_context(std::span<const char> bytes) const;
  std::string context(std::uint32_t rank) const;
  void on_exit(void (*handler)(int));

 private:
  /// Runs `step` and compares its result with the other ranks'.
  template <typename Step> void agree(const char* name, Step&& step) const;
  void create(Session& session);

  Shape shape_;
  PoolPart part_;
  Timeout create_timeout_;
  Timeout control_timeout_;
  Store store_;
  Pool pool_;
};

}  // namespace hmc::memfabric
