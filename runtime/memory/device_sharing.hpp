// ShareBook: the memory that this process has exported and imported. It recognizes tickets of the process's own memory,
// and opens memory that is imported twice only once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/memory/provider.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// The decoded form of Exported::bytes.
struct ShareTicket {
  SharingKind kind = SharingKind::same_process;
  MemoryType type = MemoryType::DEFAULT;
  std::array<std::uint64_t, 2> process{};  ///< random id of the exporting process
  std::uint64_t serial = 0;                ///< serial of the allocation in that process
  std::uint64_t bytes = 0;                 ///< size that the user requested
  std::uint64_t mapped = 0;                ///< vmm and fabric: size of the physical memory
  std::uint64_t offset = 0;                ///< ipc: offset in the memory of the handle
  IpcHandle handle;                        ///< ipc and fabric

  base::Bytes encode() const;
  /// Throws Error{invalid_argument} if `bytes` isn't a ticket.
  static ShareTicket decode(base::ByteView bytes);
  /// Equal for two tickets that open the same memory.
  std::string key() const;
};

/// An open import. The destructor closes it.
class Opened {
 public:
  virtual ~Opened() = default;
  virtual bool let_reach(int) noexcept { return false; }
  std::byte* start = nullptr;
};

/// Any thread.
class ShareBook {
 public:
  ShareBook();

  std::array<std::uint64_t, 2> process() const noexcept;
  std::uint64_t next_serial() noexcept;
  void gave(std::uint64_t serial, const std::shared_ptr<Allocation>& allocation);
  /// The allocation of `ticket` if this process exported it and it is still alive; else null.
  std::shared_ptr<Allocation> own(const ShareTicket& ticket);

  /// Returns the open import for `key`, or opens it. When the last holder releases it, it is closed before any thread
  /// can open it again.
  std::shared_ptr<Opened> open(const std::string& key, const std::function<std::unique_ptr<Opened>()>& opener);

 private:
  struct Entry {
    std::unique_ptr<Opened> opened;
    std::size_t holders = 0;
  };
  struct Table {
    std::mutex mutex;
    std::map<std::string, Entry> entries;
  };
  std::array<std::uint64_t, 2> random_;
  std::mutex mutex_;
  std::uint64_t serial_ = 0;
  std::map<std::uint64_t, std::weak_ptr<Allocation>> given_;
  std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace hmc::memory
