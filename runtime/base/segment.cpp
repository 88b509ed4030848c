#include "runtime/base/segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include <hmc/error.hpp>

#include "runtime/base/limits.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; glibc 2.36 may lack the name
#endif

namespace hmc::base {

namespace {

[[noreturn]] void fail(const char* what, std::size_t bytes, int error) {
  const bool memory = error == ENOMEM || error == ENOSPC || error == EFAULT || error == EFBIG;
  ErrorDetail detail;
  detail.code = memory ? Code::out_of_memory : Code::error;
  detail.operation = what;
  detail.size = bytes;
  detail.has_extent = true;
  detail.sys_errno = error;
  detail.message = fmt::format("{} of {} bytes of shared memory: {}", what, bytes, std::strerror(error));
  if (memory) detail.hint = "use less memory, or raise the memory limit of this container or session";
  rlimit addresses{};
  if (error == ENOMEM && ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    detail.hint =
        fmt::format("RLIMIT_AS (ulimit -v) is {} bytes: mapped memory of other ranks counts too", addresses.rlim_cur);
  throw Error(std::move(detail));
}

/// An empty file in memory, without a name. Some sandboxes refuse memfd_create. Then it is a file of /dev/shm, which
/// can't be sealed.
UniqueFd memory_file(bool& has_seals) {
  has_seals = true;
  UniqueFd file(::memfd_create("hmc", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file || (errno != ENOSYS && errno != EPERM)) return file;
  has_seals = false;
  file.reset(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  return file;
}

/// The least memory that `bytes` more of the file take. A file's pages that exist may be those of the range. Files of
/// other systems have pages that the kernel can write back, or that it has set aside (hugetlbfs).
std::uint64_t missing_bytes(int fd, std::size_t bytes) noexcept {
  constexpr long tmpfs = 0x01021994;
  struct statfs system {};
  struct stat info {};
  if (::fstatfs(fd, &system) != 0 || system.f_type != tmpfs || ::fstat(fd, &info) != 0) return 0;
  const std::uint64_t present = static_cast<std::uint64_t>(info.st_blocks) * 512;
  return bytes > present ? bytes - present : 0;
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

struct Segment::Parts {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Segment>> by_offset;
};

Segment::Segment() : parts_(std::make_unique<Parts>()) {}

std::shared_ptr<Segment> Segment::create(std::size_t bytes, std::uint64_t reserve) {
  const std::size_t rounded = round_up(bytes == 0 ? 1 : bytes, page_size());
  if (rounded < bytes || rounded > static_cast<std::size_t>(PTRDIFF_MAX)) fail("memfd_create", bytes, ENOMEM);
  std::shared_ptr<Segment> segment(new Segment);
  bool has_seals = false;
  segment->fd_ = memory_file(has_seals);
  if (!segment->fd_) fail("memfd_create", bytes, errno);
  // Beyond this limit ftruncate raises SIGXFSZ, which kills the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < rounded) {
    ErrorDetail detail;
    detail.code = Code::out_of_memory;
    detail.operation = "memfd_create";
    detail.message = fmt::format("{} bytes of shared memory are more than RLIMIT_FSIZE (ulimit -f) allows: {} bytes",
                                 rounded, limit.rlim_cur);
    detail.hint = "raise `ulimit -f`: shared memory counts as a file";
    throw Error(std::move(detail));
  }
  std::uint64_t longer = std::min<std::uint64_t>(reserve, static_cast<std::uint64_t>(PTRDIFF_MAX) - rounded);
  if (limit.rlim_cur != RLIM_INFINITY) longer = std::min<std::uint64_t>(longer, limit.rlim_cur - rounded);
  const auto whole = static_cast<off_t>(rounded + longer);
  if ((longer == 0 || ::ftruncate(segment->fd_.get(), whole) != 0) &&
      ::ftruncate(segment->fd_.get(), static_cast<off_t>(rounded)) != 0)
    fail("ftruncate", bytes, errno);
  // Without seals a peer could shrink the file, and this process's loads would raise SIGBUS.
  if (has_seals && ::fcntl(segment->fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    fail("F_ADD_SEALS", bytes, errno);
  segment->map_now(rounded, 0, MADV_HUGEPAGE);
  return segment;
}

std::shared_ptr<Segment> Segment::map(UniqueFd memfd, std::size_t bytes, std::uint64_t file_offset) {
  struct stat info {};
  if (::fstat(memfd.get(), &info) != 0) fail("fstat", bytes, errno);
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (file_offset > file_bytes || bytes > file_bytes - file_offset) {
    throw Error(Code::out_of_range, "map",
                fmt::format("a file of {} bytes can't give {} bytes from offset {}", file_bytes, bytes, file_offset));
  }
  std::shared_ptr<Segment> segment(new Segment);
  segment->fd_ = std::move(memfd);
  segment->map_now(bytes == 0 ? static_cast<std::size_t>(file_bytes - file_offset) : bytes, file_offset, MADV_HUGEPAGE);
  return segment;
}

std::shared_ptr<Segment> Segment::part(const std::shared_ptr<Segment>& file, std::uint64_t file_offset,
                                       std::size_t bytes) {
  const std::uint64_t file_bytes = file->file_bytes();
  if (file_offset > file_bytes || bytes > file_bytes - file_offset)
    throw Error(Code::out_of_range, "map",
                fmt::format("a file of {} bytes can't give {} bytes from offset {}", file_bytes, bytes, file_offset));
  const std::lock_guard guard(file->parts_->mutex);
  std::weak_ptr<Segment>& known = file->parts_->by_offset[file_offset];
  std::shared_ptr<Segment> part = known.lock();
  if (part != nullptr && part->bytes_ == bytes) return part;
  part.reset(new Segment);
  part->file_ = file;
  part->map_now(bytes, file_offset, MADV_NOHUGEPAGE);
  known = part;
  return part;
}

std::uint64_t Segment::file_bytes() const {
  struct stat info {};
  if (::fstat(fd(), &info) != 0) fail("fstat", bytes_, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

void Segment::map_now(std::size_t bytes, std::uint64_t file_offset, int advice) {
  struct stat info {};
  if (::fstat(fd(), &info) != 0) fail("fstat", bytes, errno);
  identity_ = {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino)};
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), static_cast<off_t>(file_offset));
  if (base == MAP_FAILED) fail("mmap", bytes, errno);
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  file_offset_ = file_offset;
  // Huge pages reduce TLB misses if shared memory supports them; a failure isn't an error.
  (void)::madvise(base, bytes, advice);
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

void Segment::populate(std::size_t offset, std::size_t bytes) {
  const std::size_t first = offset / page_size() * page_size();
  const std::size_t span = std::min(bytes_ - first, round_up(offset + bytes - first, page_size()));
  if (span == 0) return;
  if (span >= worth_a_look) require_memory("allocate", missing_bytes(fd(), span));
  int result = 0;
  do {
    result = ::madvise(base_ + first, span, MADV_POPULATE_WRITE);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return;
  if (errno != EINVAL) fail("populate", bytes, errno);
  // Before Linux 5.14: fallocate allocates the pages; the first access maps them.
  const auto start = static_cast<off_t>(file_offset_ + first);
  if (::fallocate(fd(), 0, start, static_cast<off_t>(span)) != 0) fail("fallocate", bytes, errno);
}

bool Segment::clear(std::uint64_t file_offset, std::size_t bytes) const noexcept {
  return ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(file_offset),
                     static_cast<off_t>(bytes)) == 0;
}

}  // namespace hmc::base
