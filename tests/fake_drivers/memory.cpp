#include "tests/fake_drivers/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

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

constexpr char memfd_prefix[] = "/memfd:fake-" FAKE_NAME "-device-";

int new_memfd(std::size_t bytes, int device) {
  char name[sizeof memfd_prefix + 16];
  std::snprintf(name, sizeof name, "fake-" FAKE_NAME "-device-%d", device);
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// New device memory may hold old data, so the fake's has no zero byte.
bool fill_with_garbage(int fd, std::size_t bytes) {
  static const auto& garbage = *new std::vector<unsigned char>(std::size_t{1} << 20, 0xA5);  // never destroyed
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t done = ::pwrite(fd, garbage.data(), std::min(garbage.size(), bytes - at), static_cast<off_t>(at));
    if (done <= 0) return false;
    at += static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

std::uint64_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

int device_of_memory(int fd) {
  char link[64], name[64] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (::readlink(link, name, sizeof name - 1) < 0) return -1;
  constexpr std::size_t length = sizeof memfd_prefix - 1;
  return std::strncmp(name, memfd_prefix, length) == 0 ? std::atoi(name + length) : -1;
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
  if (!in_window(address, offset)) return ranges_.end();
  const auto found = around(ranges_, offset);
  return found != ranges_.end() && offset == found->first + found->second.lead ? found : ranges_.end();
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
    if (found == ranges->end() || found->second.physical == nullptr || found->second.leaving) continue;
    start = found->first + found->second.lead;
    return offset < start ? nullptr : &found->second;
  }
  return nullptr;
}

/// First fit. One granule stays free behind each range, so that an overrun doesn't hit the next range.
Result Memory::place(Ranges::iterator& placed, std::size_t bytes, Kind kind, std::size_t lead, std::size_t aligned) {
  const std::size_t reserved = round_up(lead + bytes, granularity);
  const auto base = reinterpret_cast<std::uintptr_t>(window_);
  const auto next = [&](std::size_t offset) { return round_up(base + offset, aligned) - base; };
  std::size_t offset = next(granularity);
  for (const auto& [start, range] : ranges_) {
    if (offset + reserved + granularity <= start) break;
    offset = next(start + range.reserved + granularity);
  }
  if (offset + reserved > window_bytes) return Result::out_of_memory;
  Range range;
  range.bytes = bytes;
  range.reserved = reserved;
  range.lead = lead;
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
  const int fd = new_memfd(bytes, device);
  if (fd < 0) return Result::out_of_memory;
  made = std::make_shared<Physical>(fd, bytes, device);
  return fill_with_garbage(fd, bytes) ? Result::ok : Result::out_of_memory;
}

// ---- plain memory

Result Memory::allocate(void*& address, std::size_t bytes, int device, bool at_once) {
  if (bytes == 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Physical> physical;
  const std::size_t whole = round_up(alignment + bytes, 4096);
  if (const Result result = make_physical(physical, whole, device); result != Result::ok) return result;
  Ranges::iterator range;
  if (const Result result = place(range, bytes, Kind::malloced, alignment, granularity); result != Result::ok)
    return result;
  if (const Result result = back(range, std::move(physical), at_once); result != Result::ok) {
    ranges_.erase(range);
    return result;
  }
  range->second.dormant = !at_once;
  address = window_ + range->first + alignment;
  control().gained(Live::memory);
  return Result::ok;
}
void Memory::come_alive(void* address) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end()) return;  // freed before: the caller didn't order the free after the allocation
  range->second.dormant = false;
  (void)::mprotect(shadow(range->first), range->second.physical->bytes(), PROT_READ | PROT_WRITE);
}
Result Memory::free_soon(void* address) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.kind != Kind::malloced || range->second.leaving)
    return Result::invalid_value;
  range->second.leaving = true;
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

Result Memory::allocate_host(void*& address, const HostBlock& block) {
  if (block.bytes == 0) return Result::invalid_value;
  const std::size_t span = round_up(block.bytes, 4096);
  void* const at = ::mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return Result::out_of_memory;
  const std::scoped_lock lock(mutex_);
  host_[reinterpret_cast<std::uintptr_t>(at)] = block;
  std::memset(at, 0xA5, block.bytes);
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

Result Memory::pin(void* address, HostBlock block) {
  std::size_t offset = 0;
  if (block.bytes == 0 || in_window(address, offset)) return Result::invalid_value;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::scoped_lock lock(mutex_);
  const auto next = host_.lower_bound(at);
  if (next != host_.end() && next->first < at + block.bytes) return Result::already_mapped;
  if (next != host_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at)
    return Result::already_mapped;
  block.is_users = true;
  host_[at] = block;
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

Result Memory::device_pointer(void*& seen, void* address, int device) {
  const std::scoped_lock lock(mutex_);
  std::size_t left = 0;
  const HostBlock* const block = host_block(address, left);
  if (block == nullptr || !block->mapped || !(block->portable || block->device == device)) return Result::invalid_value;
  seen = address;
  return Result::ok;
}

const HostBlock* Memory::host_block(const void* address, std::size_t& left) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto found = host_.upper_bound(at);
  if (found == host_.begin()) return nullptr;
  --found;
  if (at >= found->first + found->second.bytes) return nullptr;
  left = found->first + found->second.bytes - at;
  return &found->second;
}

// ---- IPC handles: the importer opens the exporter's descriptor

Result Memory::ipc_get(IpcContent& content, void* address) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) return Result::invalid_value;
  const auto range = around(ranges_, offset);
  if (range == ranges_.end() || range->second.kind != Kind::malloced || range->second.dormant)
    return Result::invalid_value;
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
  if (const Result result = place(range, content.bytes, Kind::imported, alignment, granularity); result != Result::ok)
    return result;
  if (const Result result = back(range, std::move(physical), true); result != Result::ok) {
    ranges_.erase(range);
    return result;
  }
  address = window_ + range->first + alignment;
  control().gained(Live::import);
  return Result::ok;
}
Result Memory::ipc_close(void* address) { return drop(address, Kind::imported); }

// ---- lookup, for copies and words

std::byte* Memory::resolve(const void* address, std::size_t bytes, Side side, Use use) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  if (!in_window(address, offset)) {
    std::size_t left = 0;
    const bool registered = host_block(address, left) != nullptr;
    if (registered ? bytes > left : side == Side::device) return nullptr;
    return static_cast<std::byte*>(const_cast<void*>(address));
  }
  if (side == Side::host) return nullptr;
  std::size_t start = 0;
  const Range* const range = backed(offset, start);
  if (range == nullptr || offset + bytes > start + range->bytes) return nullptr;
  const auto permits = [&](int device) {
    const auto found = range->permitted.find(device);
    return found != range->permitted.end() && found->second >= (use.writes ? Permitted::read_write : Permitted::read);
  };
  const bool is_mapped = mapped_.count(start) != 0;
  return !is_mapped || permits(use.device) || permits(range->physical->device()) ? shadow(offset) : nullptr;
}

std::byte* Memory::word(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) return nullptr;
  if (HostBlock block; find_host(block, address) && !block.mapped && !block.signal) return nullptr;
  return resolve(address, bytes, Side::device);
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
  std::size_t left = 0;
  const HostBlock* const found = host_block(address, left);
  if (found != nullptr) block = *found;
  return found != nullptr;
}

}  // namespace fake
