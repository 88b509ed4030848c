// ShareBook: what this process gave to others and took from them, so that memory which comes back is
// recognised and memory that comes twice is opened once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/memory/allocation.hpp"
#include "runtime/memory/sharing.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// What goes over the wire, decoded.
struct ShareTicket {
  SharingKind kind = SharingKind::same_process;
  MemoryType type = MemoryType::DEFAULT;
  std::array<std::uint64_t, 2> process{};  ///< random, the exporting process's
  std::uint64_t serial = 0;                ///< of the allocation there
  std::uint64_t bytes = 0;                 ///< that the user asked for
  std::uint64_t mapped = 0;                ///< vmm and fabric: bytes of the physical memory
  std::uint64_t offset = 0;                ///< ipc: from the start of what the handle opens
  IpcHandle handle;                        ///< ipc and fabric

  base::Bytes encode() const;
  /// Throws Error{invalid_argument} for bytes that are none.
  static ShareTicket decode(base::ByteView bytes);
  /// The same for two tickets that open the same memory.
  std::string key() const;
};

/// An open import. Destroying it closes it.
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
  /// Null unless this very process gave it and still has it.
  std::shared_ptr<Allocation> own(const ShareTicket& ticket);

  /// Opens, or joins what is open already. The last holder closes, before anybody opens it anew.
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
