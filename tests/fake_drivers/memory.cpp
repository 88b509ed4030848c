#include "tests/fake_drivers/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace fake {

namespace {

constexpr std::size_t window_bytes = std::size_t{64} << 30;
constexpr std::uint64_t ipc_magic = 0x46414b4549504331;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::byte* reserve_window() {
  void* const at = ::mmap(nullptr, window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

int new_memfd(std::size_t bytes) {
  const int fd = ::memfd_create("fake-device", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace

std::uint64_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

Physical::Physical(int fd, std::size_t bytes, int device) : fd_(fd), bytes_(bytes), device_(device) {
  control().gained(Live::physical);
}
Physical::~Physical() {
  ::close(fd_);
  control().lost(Live::physical);
}

Memory::Memory() : window_(reserve_window()), shadow_(reserve_window()) {}

Memory& memory() {
  static Memory* const one = new Memory;
  return *one;
}

bool Memory::in_window(const void* address, std::size_t& offset) const noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  if (at < window_ || at >= window_ + window_bytes) return false;
  offset = static_cast<std::size_t>(at - window_);
  return true;
}

Memory::Ranges::iterator Memory::exact(void* address) {
  std::size_t offset = 0;
  return in_window(address, offset) ? ranges_.find(offset) : ranges_.end();
}
Memory::Ranges::iterator Memory::around(Ranges& ranges, std::size_t offset) {
  auto found = ranges.upper_bound(offset);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return offset < found->first + found->second.reserved ? found : ranges.end();
}
const Memory::Range* Memory::backed(std::size_t offset, std::size_t& start) {
  for (Ranges* const ranges : {&mapped_, &ranges_}) {
    const auto found = around(*ranges, offset);
    if (found == ranges->end() || found->second.physical == nullptr) continue;
    start = found->first;
    return &found->second;
  }
  return nullptr;
}

/// First fit. One piece of granularity stays free behind each range, so that overruns don't hit a neighbour.
Result Memory::place(Ranges::iterator& placed, std::size_t bytes, Kind kind) {
  const std::size_t reserved = round_up(bytes, granularity);
  std::size_t offset = granularity;
  for (const auto& [start, range] : ranges_) {
    if (offset + reserved + granularity <= start) break;
    offset = start + range.reserved + granularity;
  }
  if (offset + reserved > window_bytes) return Result::out_of_memory;
  Range range;
  range.bytes = bytes;
  range.reserved = reserved;
  range.kind = kind;
  placed = ranges_.emplace(offset, std::move(range)).first;
  return Result::ok;
}

Result Memory::back(Ranges::iterator range, std::shared_ptr<Physical> physical, bool readable) {
  const std::size_t bytes = physical->bytes();
  const int protection = readable ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const at = ::mmap(shadow(range->first), bytes, protection, MAP_SHARED | MAP_FIXED, physical->fd(), 0);
  if (at == MAP_FAILED) return Result::out_of_memory;
  range->second.inode = inode_of(physical->fd());
  range->second.physical = std::move(physical);
  return Result::ok;
}

void Memory::clear(Ranges::iterator range) {
  if (range->second.physical == nullptr) return;
  ::mmap(shadow(range->first), range->second.reserved, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  range->second.physical.reset();
}

Result Memory::make_physical(std::shared_ptr<Physical>& made, std::size_t bytes, int device) {
  if (bytes > control().device_bytes) return Result::out_of_memory;
  const int fd = new_memfd(bytes);
  if (fd < 0) return Result::out_of_memory;
  made = std::make_shared<Physical>(fd, bytes, device);
  return Result::ok;
}

// ---- plain memory

Result Memory::allocate(void*& address, std::size_t bytes, int device) {
  if (bytes == 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Physical> physical;
  if (const Result result = make_physical(physical, round_up(bytes, 4096), device); result != Result::ok) return result;
  Ranges::iterator range;
  if (const Result result = place(range, bytes, Kind::malloced); result != Result::ok) return result;
  // Real memory holds what its last user left: never zeros.
  if (const Result result = back(range, std::move(physical), true); result != Result::ok) return result;
  std::memset(shadow(range->first), 0xA5, bytes);
  address = window_ + range->first;
  control().gained(Live::memory);
  return Result::ok;
}

Result Memory::drop(void* address, Kind kind) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.kind != kind) return Result::invalid_value;
  clear(range);
  ranges_.erase(range);
  control().lost(kind == Kind::imported ? Live::import : Live::memory);
  return Result::ok;
}
Result Memory::free(void* address) { return drop(address, Kind::malloced); }

Result Memory::allocate_host(void*& address, std::size_t bytes, int device, bool managed) {
  if (bytes == 0) return Result::invalid_value;
  const std::size_t span = round_up(bytes, 4096);
  void* const at = ::mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return Result::out_of_memory;
  const std::scoped_lock lock(mutex_);
  host_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, managed, false};
  std::memset(at, 0xA5, bytes);
  address = at;
  control().gained(Live::host);
  return Result::ok;
}
Result Memory::free_host(void* address) {
  const std::scoped_lock lock(mutex_);
  const auto found = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == host_.end() || found->second.is_users) return Result::invalid_value;
  ::munmap(address, round_up(found->second.bytes, 4096));
  host_.erase(found);
  control().lost(Live::host);
  return Result::ok;
}

Result Memory::pin(void* address, std::size_t bytes, int device) {
  std::size_t offset = 0;
  if (bytes == 0 || in_window(address, offset)) return Result::invalid_value;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::scoped_lock lock(mutex_);
  const auto next = host_.lower_bound(at);
  if (next != host_.end() && next->first < at + bytes) return Result::already_mapped;
  if (next != host_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at)
    return Result::already_mapped;
  host_[at] = {bytes, device, false, true};
  control().gained(Live::host);
  return Result::ok;
}
Result Memory::unpin(void* address) {
  const std::scoped_lock lock(mutex_);
  const auto found = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == host_.end() || !found->second.is_users) return Result::invalid_value;
  host_.erase(found);
  control().lost(Live::host);
  return Result::ok;
}

// ---- handles between processes: the importer opens the exporter's descriptor

Result Memory::ipc_get(IpcContent& content, void* address) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) return Result::invalid_value;
  const auto range = around(ranges_, offset);
  if (range == ranges_.end() || range->second.kind != Kind::malloced) return Result::invalid_value;
  const auto& physical = *range->second.physical;
  content = {ipc_magic,
             static_cast<std::uint64_t>(::getpid()),
             static_cast<std::uint64_t>(physical.fd()),
             range->second.inode,
             range->second.bytes,
             static_cast<std::uint64_t>(physical.device())};
  return Result::ok;
}

Result Memory::ipc_open(void*& address, const IpcContent& content, int device) {
  if (content.magic != ipc_magic) return Result::invalid_value;
  if (content.pid == static_cast<std::uint64_t>(::getpid())) return Result::invalid_context;
  const std::scoped_lock lock(mutex_);
  for (const auto& [offset, range] : ranges_)
    if (range.kind == Kind::imported && range.inode == content.inode) return Result::already_mapped;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lu/fd/%lu", static_cast<unsigned long>(content.pid),
                static_cast<unsigned long>(content.fd));
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return Result::invalid_value;
  struct stat info {};
  if (::fstat(fd, &info) != 0 || static_cast<std::uint64_t>(info.st_ino) != content.inode) {
    ::close(fd);
    return Result::invalid_value;
  }
  auto physical = std::make_shared<Physical>(fd, static_cast<std::size_t>(info.st_size), device);
  Ranges::iterator range;
  if (const Result result = place(range, content.bytes, Kind::imported); result != Result::ok) return result;
  if (const Result result = back(range, std::move(physical), true); result != Result::ok) return result;
  address = window_ + range->first;
  control().gained(Live::import);
  return Result::ok;
}
Result Memory::ipc_close(void* address) { return drop(address, Kind::imported); }

// ---- what copies ask

std::byte* Memory::resolve(const void* address, std::size_t bytes, Side side) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    auto found = host_.upper_bound(at);
    const bool registered = found != host_.begin() && at < (--found)->first + found->second.bytes;
    if (registered && at + bytes > found->first + found->second.bytes) return nullptr;
    if (side == Side::device && !registered) return nullptr;
    return static_cast<std::byte*>(const_cast<void*>(address));
  }
  if (side == Side::host) return nullptr;
  std::size_t start = 0;
  const Range* const range = backed(offset, start);
  return range != nullptr && offset + bytes <= start + range->bytes ? shadow(offset) : nullptr;
}

bool Memory::find(Found& found, const void* address) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) return false;
  std::size_t start = 0;
  const Range* const range = backed(offset, start);
  if (range == nullptr || offset >= start + range->bytes) return false;
  found = {window_ + start, range->bytes, range->physical->device(), range->kind};
  return true;
}
bool Memory::find_host(HostBlock& block, const void* address) {
  const std::scoped_lock lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto found = host_.upper_bound(at);
  if (found == host_.begin()) return false;
  --found;
  if (at >= found->first + found->second.bytes) return false;
  block = found->second;
  return true;
}

}  // namespace fake
