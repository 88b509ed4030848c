// Memory: physical memory, and address ranges that hold one or several pieces of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/fake_drivers/memory.hpp"

namespace fake {

namespace {

constexpr std::uint64_t fabric_magic = 0x46414b4546414231;

}  // namespace

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
  fd = ::fcntl(found->second->fd(), F_DUPFD, 0);  // without close-on-exec, as in the real driver
  return fd < 0 ? Result::out_of_memory : Result::ok;
}
Result Memory::import_fd(std::uint64_t& handle, int fd, bool used_by_map) {
  struct stat info {};
  const int device = device_of_memory(fd);
  if (device < 0 || ::fstat(fd, &info) != 0 || info.st_size == 0) return Result::invalid_value;
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  handle = next_handle_++;
  const auto physical = std::make_shared<Physical>(own, static_cast<std::size_t>(info.st_size), device);
  if (used_by_map) physical->importers_fd = fd;
  handles_[handle] = physical;
  return Result::ok;
}

Result Memory::fabric_get(IpcContent& content, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Result::invalid_handle;
  const Physical& physical = *found->second;
  content = {fabric_magic,
             static_cast<std::uint64_t>(::getpid()),
             static_cast<std::uint64_t>(physical.fd()),
             inode_of(physical.fd()),
             physical.bytes(),
             static_cast<std::uint64_t>(physical.device())};
  return Result::ok;
}
Result Memory::fabric_open(std::uint64_t& handle, const IpcContent& content) {
  if (content.magic != fabric_magic) return Result::invalid_value;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lu/fd/%lu", static_cast<unsigned long>(content.pid),
                static_cast<unsigned long>(content.fd));
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return Result::invalid_value;
  const Result result = inode_of(fd) == content.inode ? import_fd(handle, fd) : Result::invalid_value;
  ::close(fd);
  return result;
}

Result Memory::reserve(void*& address, std::size_t bytes, std::size_t aligned) {
  if (bytes == 0 || bytes % granularity != 0 || (aligned & (aligned - 1)) != 0) return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  Ranges::iterator range;
  const Result result = place(range, bytes, Kind::reserved, 0, std::max(aligned, granularity));
  if (result != Result::ok) return result;
  address = window_ + range->first;
  control().gained(Live::reservation);
  return Result::ok;
}
Result Memory::unreserve(void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto range = exact(address);
  if (range == ranges_.end() || range->second.kind != Kind::reserved || range->second.reserved != bytes)
    return Result::invalid_value;
  const auto mapped = mapped_.lower_bound(range->first);
  if (mapped != mapped_.end() && mapped->first < range->first + bytes) return Result::invalid_value;
  ranges_.erase(range);
  control().lost(Live::reservation);
  return Result::ok;
}

Result Memory::map(void* address, std::size_t bytes, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Result::invalid_handle;
  std::size_t offset = 0;
  if (!in_window(address, offset) || offset % granularity != 0 || bytes != found->second->bytes())
    return Result::invalid_value;
  if (const int needed = found->second->importers_fd; needed >= 0 && inode_of(needed) != inode_of(found->second->fd()))
    return Result::invalid_value;
  const auto whole = around(ranges_, offset);
  if (whole == ranges_.end() || whole->second.kind != Kind::reserved ||
      offset + bytes > whole->first + whole->second.reserved)
    return Result::invalid_value;
  const auto next = mapped_.lower_bound(offset);
  if (around(mapped_, offset) != mapped_.end() || (next != mapped_.end() && next->first < offset + bytes))
    return Result::already_mapped;
  Range mapped;
  mapped.bytes = mapped.reserved = bytes;
  const auto piece = mapped_.emplace(offset, std::move(mapped)).first;
  if (const Result result = back(piece, found->second, false); result != Result::ok) {
    mapped_.erase(piece);
    return result;
  }
  control().gained(Live::mapping);
  return Result::ok;
}
Result Memory::unmap(void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  const auto piece = in_window(address, offset) ? mapped_.find(offset) : mapped_.end();
  if (piece == mapped_.end() || piece->second.bytes != bytes) return Result::invalid_value;
  clear(piece);
  mapped_.erase(piece);
  control().lost(Live::mapping);
  return Result::ok;
}
Result Memory::set_access(void* address, std::size_t bytes, int device, int flags) {
  const auto access = static_cast<Permitted>(flags);
  if (access != Permitted::none && access != Permitted::read && access != Permitted::read_write)
    return Result::invalid_value;
  const std::scoped_lock lock(mutex_);
  std::size_t offset = 0;
  const auto piece = in_window(address, offset) ? mapped_.find(offset) : mapped_.end();
  if (piece == mapped_.end() || bytes != piece->second.bytes) return Result::invalid_value;
  auto& [start, range] = *piece;
  if (control().peers == 0 && device != range.physical->device()) return Result::invalid_device;
  range.permitted[device] = access;
  // The shadow is for the kernels of all devices.
  Permitted most = Permitted::none;
  for (const auto& [each, permitted] : range.permitted) most = std::max(most, permitted);
  const int protection = most == Permitted::none   ? PROT_NONE
                         : most == Permitted::read ? PROT_READ
                                                   : PROT_READ | PROT_WRITE;
  return ::mprotect(shadow(start), bytes, protection) == 0 ? Result::ok : Result::out_of_memory;
}

}  // namespace fake
