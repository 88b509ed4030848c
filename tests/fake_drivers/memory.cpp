#include "tests/fake_drivers/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
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

std::uint64_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

}  // namespace

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
Memory::Ranges::iterator Memory::around(std::size_t offset) {
  auto found = ranges_.upper_bound(offset);
  if (found == ranges_.begin()) return ranges_.end();
  --found;
  return offset < found->first + found->second.reserved ? found : ranges_.end();
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
  range->second.mapped = bytes;
  range->second.inode = inode_of(physical->fd());
  range->second.physical = std::move(physical);
  return Result::ok;
}

void Memory::clear(Ranges::iterator range) {
  if (range->second.physical == nullptr) return;
  ::mmap(shadow(range->first), range->second.reserved, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  range->second.physical.reset();
  range->second.mapped = 0;
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
  host_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, managed, -1};
  std::memset(at, 0xA5, bytes);
  address = at;
  control().gained(Live::host);
  return Result::ok;
}
Result Memory::free_host(void* address) {
  const std::scoped_lock lock(mutex_);
  const auto found = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == host_.end()) return Result::invalid_value;
  ::munmap(address, round_up(found->second.bytes, 4096));
  host_.erase(found);
  control().lost(Live::host);
  return Result::ok;
}

// ---- physical memory and ranges

Result Memory::create(std::uint64_t& handle, std::size_t bytes, int device) {
  if (bytes == 0 || bytes % granularity != 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Physical> physical;
  if (const Result result = make_physical(physical, bytes, device); result != Result::ok) return result;
  handle = next_handle_++;
  handles_[handle] = std::move(physical);
  return Result::ok;
}
Result Memory::release(std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  return handles_.erase(handle) == 1 ? Result::ok : Result::invalid_handle;
}
Result Memory::export_fd(int& fd, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Result::invalid_handle;
  fd = ::fcntl(found->second->fd(), F_DUPFD, 0);  // as the real one: inherited unless the caller sees to it
  return fd < 0 ? Result::out_of_memory : Result::ok;
}
Result Memory::import_fd(std::uint64_t& handle, int fd, int device) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size == 0) return Result::invalid_value;
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  handle = next_handle_++;
  handles_[handle] = std::make_shared<Physical>(own, static_cast<std::size_t>(info.st_size), device);
  return Result::ok;
}

Result Memory::reserve(void*& address, std::size_t bytes) {
  if (bytes == 0 || bytes % granularity != 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  Ranges::iterator range;
  if (const Result result = place(range, bytes, Kind::reserved); result != Result::ok) return result;
  address = window_ + range->first;
  control().gained(Live::reservation);
  return Result::ok;
}
Result Memory::unreserve(void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.kind != Kind::reserved || range->second.reserved != bytes ||
      range->second.physical != nullptr)
    return Result::invalid_value;
  ranges_.erase(range);
  control().lost(Live::reservation);
  return Result::ok;
}
Result Memory::map(void* address, std::size_t bytes, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Result::invalid_handle;
  if (range == ranges_.end() || range->second.kind != Kind::reserved || range->second.physical != nullptr ||
      bytes > range->second.reserved || bytes != found->second->bytes())
    return Result::invalid_value;
  if (const Result result = back(range, found->second, false); result != Result::ok) return result;
  control().gained(Live::mapping);
  return Result::ok;
}
Result Memory::unmap(void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.kind != Kind::reserved || range->second.mapped != bytes)
    return Result::invalid_value;
  clear(range);
  control().lost(Live::mapping);
  return Result::ok;
}
Result Memory::set_access(void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.mapped == 0 || bytes > range->second.mapped) return Result::invalid_value;
  return ::mprotect(shadow(range->first), bytes, PROT_READ | PROT_WRITE) == 0 ? Result::ok : Result::out_of_memory;
}

// ---- handles between processes: the importer opens the exporter's descriptor

Result Memory::ipc_get(IpcContent& content, void* address) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) return Result::invalid_value;
  const auto range = around(offset);
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
  const auto range = around(offset);
  if (range == ranges_.end() || range->second.physical == nullptr) return nullptr;
  const std::size_t end = range->second.kind == Kind::reserved ? range->second.mapped : range->second.bytes;
  if (offset + bytes > range->first + end) return nullptr;
  return shadow(offset);
}

bool Memory::find(Found& found, const void* address) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) return false;
  const auto range = around(offset);
  if (range == ranges_.end() || range->second.physical == nullptr || offset >= range->first + range->second.bytes)
    return false;
  found = {window_ + range->first, range->second.bytes, range->second.physical->device(), range->second.kind};
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
