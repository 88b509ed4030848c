#include "compat/memfabric/hybm.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <hmc/copy.hpp>

#include "compat/memfabric/control_store.hpp"

namespace hmc::memfabric::hybm {
namespace {

constexpr std::uint64_t first_address = std::uint64_t{40} << 40;
constexpr std::uint64_t address_step = std::uint64_t{1} << 40;
constexpr std::uint64_t address_steps = 64;
constexpr std::uint32_t most_ranks = 1024;

[[noreturn]] void fail(const char* call, std::int32_t code = BM_ERROR) {
  throw Failure(code, fmt::format("{}: {}", call, std::strerror(errno)));
}

std::uint64_t inode_of(int fd, std::uint64_t at_least) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail("fstat");
  if (static_cast<std::uint64_t>(info.st_size) < at_least)
    throw Failure(BM_INVALID_PARAM, "the shared memory is smaller than the slice");
  return info.st_ino;
}

/// The same text on one machine until its next start.
std::array<char, 40> machine() {
  std::array<char, 40> text{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(text.data(), text.size() - 1);
  return text;
}

/// The kinds of the ends of each direction: a global end is in slices of this type, a local one isn't in a slice.
struct Ends {
  bool from_global, from_device, to_global, to_device;
};
constexpr std::array<Ends, HYBM_DATA_COPY_DIRECTION_AUTO> ends_of = {{{false, false, true, false},
                                                                      {false, false, true, true},
                                                                      {false, true, true, false},
                                                                      {false, true, true, true},
                                                                      {true, false, true, false},
                                                                      {true, false, true, true},
                                                                      {true, false, false, false},
                                                                      {true, false, false, true},
                                                                      {true, true, true, false},
                                                                      {true, true, true, true},
                                                                      {true, true, false, false},
                                                                      {true, true, false, true}}};

}  // namespace

Exchange decode(const hybm_exchange_info& info) {
  Exchange exchange;
  check(info.desc != nullptr && info.descLen == sizeof exchange, "these aren't bytes of hybm_export");
  std::memcpy(&exchange, info.desc, sizeof exchange);
  check(exchange.magic == Exchange::magic_number, "these aren't bytes of hybm_export");
  if (exchange.machine != machine())
    throw Failure(BM_NOT_SUPPORTED, fmt::format("rank {} is on another machine: use smem_bm", exchange.rank));
  return exchange;
}

Entity::Entity(std::uint16_t id, const hybm_options& options) : id_(id), options_(options) {
  check(options.rankCount >= 1 && options.rankCount <= most_ranks && options.rankId < options.rankCount,
        "rankCount is 1..1024, and rankId is below it");
  check(options.maxDRAMSize % block_bytes == 0 && options.maxHBMSize % block_bytes == 0,
        "sizes are multiples of 2 MiB");
  check(options.maxDRAMSize <= most_host_bytes && options.maxHBMSize <= most_device_bytes,
        "host parts have at most 2 TiB, device parts 64 GiB");
  if (!has(HYBM_MEM_TYPE_HOST)) options_.maxDRAMSize = 0;
  if (!has(HYBM_MEM_TYPE_DEVICE)) options_.maxHBMSize = 0;
  check(options_.maxDRAMSize + options_.maxHBMSize > 0, "both maxima are 0, or memType has no type");
  known_ranks_.push_back(options.rankId);
}

void Entity::reserve() {
  const std::unique_lock lock(mutex_);
  if (base_ != 0) return;
  const std::uint64_t bytes = options_.rankCount * (options_.maxDRAMSize + options_.maxHBMSize);
  for (std::uint64_t step = 0; step < address_steps && base_ == 0; ++step) {
    const std::uint64_t at = first_address + (id_ + step) % address_steps * address_step;
    void* const got =
        ::mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == pointer(at)) {
      base_ = at;
    } else if (got != MAP_FAILED) {  // an old kernel takes the address for a hint
      ::munmap(got, bytes);
    }
  }
  if (base_ == 0) throw Failure(BM_MALLOC_FAILED, fmt::format("{} bytes of addresses aren't free", bytes));
  reserved_ = bytes;
}

void Entity::unreserve() {
  const std::unique_lock lock(mutex_);
  release();
}

void* Entity::base(hybm_mem_type type) const {
  const std::shared_lock lock(mutex_);
  check(base_ != 0 && stride(type) > 0, "the addresses aren't reserved, or there are no parts of this type");
  return pointer(part(type, 0));
}

hybm_mem_slice_t Entity::allocate(hybm_mem_type type, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  check(base_ != 0, "the addresses aren't reserved");
  check(bytes % block_bytes == 0, "the size isn't a multiple of 2 MiB");
  std::uint64_t& used = type == HYBM_MEM_TYPE_HOST ? host_used_ : device_used_;
  check(bytes <= stride(type) - used, "this rank's part is full");
  auto slice = std::make_unique<Slice>();
  slice->type = type;
  slice->address = part(type, options_.rankId) + used;
  slice->bytes = bytes;
  if (bytes > 0) {
    slice->file = open_file(type, bytes);
    map(slice->address, bytes, slice->file.get());
  }
  used += bytes;
  slices_.push_back(std::move(slice));
  return slices_.back().get();
}

hybm_mem_slice_t Entity::register_memory(const void* address, std::uint64_t bytes) {
  check(address != nullptr && bytes > 0, "the address is null, or the size is 0");
  const std::unique_lock lock(mutex_);
  auto slice = std::make_unique<Slice>();
  slice->address = reinterpret_cast<std::uint64_t>(address);
  slice->bytes = bytes;
  slice->is_users = true;
  slices_.push_back(std::move(slice));
  return slices_.back().get();
}

void Entity::free(hybm_mem_slice_t handle) {
  const std::unique_lock lock(mutex_);
  if (handle == nullptr) {
    while (!slices_.empty()) free_at(slices_.size() - 1);
    return;
  }
  free_at(index_of(handle));
}

std::pair<std::uint64_t, std::uint64_t> Entity::range_of(hybm_mem_slice_t handle) const {
  const std::shared_lock lock(mutex_);
  const Slice& slice = *slices_[index_of(handle)];
  return {slice.address, slice.bytes};
}

Exchange Entity::export_of(hybm_mem_slice_t handle) const {
  const std::shared_lock lock(mutex_);
  Exchange exchange;
  exchange.machine = machine();
  exchange.rank = options_.rankId;
  exchange.process = ::getpid();
  if (handle == nullptr) return exchange;
  const Slice& slice = *slices_[index_of(handle)];
  if (slice.is_users) throw Failure(BM_NOT_SUPPORTED, "registered memory can't be exported");
  exchange.is_entity = 0;
  exchange.type = slice.type;
  exchange.address = slice.address;
  exchange.bytes = slice.bytes;
  exchange.descriptor = slice.file.get();
  if (slice.bytes > 0) exchange.inode = inode_of(slice.file.get(), slice.bytes);
  return exchange;
}

void Entity::import(const std::vector<Exchange>& exchanges) {
  const std::unique_lock lock(mutex_);
  std::vector<std::pair<std::uint64_t, Imported>> opened;
  for (const Exchange& each : exchanges) {
    check(each.rank < options_.rankCount, "the rank isn't below rankCount");
    if (each.is_entity != 0 || each.rank == options_.rankId || each.bytes == 0) continue;
    opened.emplace_back(each.address, open(each));
  }
  for (auto& [address, imported] : opened) {
    const auto had = imported_.find(address);
    if (had != imported_.end() && had->second.is_mapped) continue;  // again
    imported_.insert_or_assign(address, std::move(imported));
  }
  for (const Exchange& each : exchanges)
    if (!knows(each.rank)) known_ranks_.push_back(each.rank);
}

void Entity::map_imported() {
  const std::unique_lock lock(mutex_);
  for (auto& [address, imported] : imported_) {
    if (imported.is_mapped) continue;
    map(address, imported.bytes, imported.file.get());
    imported.is_mapped = true;
  }
}

void Entity::unmap(std::optional<std::uint32_t> rank) {
  const std::unique_lock lock(mutex_);
  unmap_imported(rank);
}

void Entity::remove(std::uint32_t rank) {
  const std::unique_lock lock(mutex_);
  unmap_imported(rank);
  std::erase_if(imported_, [&](const auto& each) { return each.second.rank == rank; });
  std::erase(known_ranks_, rank);
}

void Entity::require_known(const std::uint32_t* ranks, std::uint32_t count) const {
  const std::shared_lock lock(mutex_);
  for (std::uint32_t i = 0; i < count; ++i)
    if (!knows(ranks[i])) throw Failure(BM_NOT_CONNECTED, fmt::format("rank {} hasn't been imported", ranks[i]));
}

bool Entity::reaches(std::uint32_t rank) const {
  const std::shared_lock lock(mutex_);
  return rank == options_.rankId || std::any_of(imported_.begin(), imported_.end(), [&](const auto& each) {
           return each.second.rank == rank && each.second.is_mapped;
         });
}

bool Entity::is_accessible(std::uint64_t address, hybm_mem_type type) const {
  const std::shared_lock lock(mutex_);
  return is_in_slices(address, 1, type);
}

void Entity::copy(const std::vector<PoolCopy>& pieces, hybm_data_copy_direction direction, void* stream) const {
  const std::shared_lock lock(mutex_);
  for (const PoolCopy& piece : pieces) check_piece(piece, direction);
  wait_for_stream(stream, options_.devId);
  for (const PoolCopy& piece : pieces) hmc::copy(Location(piece.destination), Location(piece.source), piece.bytes);
}

bool Entity::has(hybm_mem_type type) const noexcept {
  return (static_cast<unsigned>(options_.memType) & static_cast<unsigned>(type)) != 0;
}

bool Entity::knows(std::uint32_t rank) const {
  return std::find(known_ranks_.begin(), known_ranks_.end(), rank) != known_ranks_.end();
}

std::uint64_t Entity::stride(hybm_mem_type type) const {
  check(type == HYBM_MEM_TYPE_HOST || type == HYBM_MEM_TYPE_DEVICE, "the memory type is DEVICE or HOST");
  return type == HYBM_MEM_TYPE_HOST ? options_.maxDRAMSize : options_.maxHBMSize;
}

std::uint64_t Entity::part(hybm_mem_type type, std::uint32_t rank) const {
  const std::uint64_t first = type == HYBM_MEM_TYPE_HOST ? 0 : options_.rankCount * options_.maxDRAMSize;
  return base_ + first + rank * stride(type);
}

std::size_t Entity::index_of(hybm_mem_slice_t handle) const {
  const auto found =
      std::find_if(slices_.begin(), slices_.end(), [&](const auto& each) { return each.get() == handle; });
  check(found != slices_.end(), "the slice is null, or was freed");
  return static_cast<std::size_t>(found - slices_.begin());
}

Descriptor Entity::open_file(hybm_mem_type type, std::uint64_t bytes) const {
  if (type == HYBM_MEM_TYPE_HOST && (options_.flags & HYBM_FLAG_CREATE_WITH_SHM) != 0) {
    check(host_used_ == 0, "dramShmFd is one slice");
    Descriptor given(::fcntl(options_.dramShmFd, F_DUPFD_CLOEXEC, 0));
    if (given.get() < 0) fail("dramShmFd", BM_INVALID_PARAM);
    (void)inode_of(given.get(), bytes);
    return given;
  }
  Descriptor made(::memfd_create("hybm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (made.get() < 0) fail("memfd_create", BM_MALLOC_FAILED);
  errno = ::posix_fallocate(made.get(), 0, static_cast<off_t>(bytes));
  if (errno != 0) fail("posix_fallocate", BM_MALLOC_FAILED);
  // A smaller file would make the accesses of other processes fault.
  if (::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) fail("F_SEAL_SHRINK");
  return made;
}

Imported Entity::open(const Exchange& exchange) const {
  check(base_ != 0, "the addresses aren't reserved");
  const auto type = static_cast<hybm_mem_type>(exchange.type);
  const std::uint64_t first = part(type, exchange.rank);
  if (exchange.address < first || exchange.bytes > stride(type) ||
      exchange.address - first > stride(type) - exchange.bytes)
    throw Failure(BM_ERROR, fmt::format("rank {} has another address space, or other maxima", exchange.rank));
  const std::string path = fmt::format("/proc/{}/fd/{}", exchange.process, exchange.descriptor);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) fail(path.c_str(), BM_FILE_NOT_ACCESS);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || info.st_ino != exchange.inode ||
      static_cast<std::uint64_t>(info.st_size) < exchange.bytes)
    throw Failure(BM_FILE_NOT_ACCESS, fmt::format("the slice of rank {} doesn't exist any more", exchange.rank));
  return {exchange.rank, exchange.bytes, std::move(file), false};
}

void Entity::map(std::uint64_t address, std::uint64_t bytes, int fd) {
  if (::mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
    fail("mmap", BM_MALLOC_FAILED);
}

void Entity::hide(std::uint64_t address, std::uint64_t bytes) noexcept {
  (void)::mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void Entity::free_at(std::size_t index) {
  const Slice& slice = *slices_[index];
  if (!slice.is_users && slice.bytes > 0) {
    hide(slice.address, slice.bytes);
    std::uint64_t& used = slice.type == HYBM_MEM_TYPE_HOST ? host_used_ : device_used_;
    if (slice.address + slice.bytes == part(slice.type, options_.rankId) + used) used -= slice.bytes;
  }
  slices_.erase(slices_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Entity::unmap_imported(std::optional<std::uint32_t> rank) {
  for (auto& [address, imported] : imported_) {
    if (!imported.is_mapped || (rank && imported.rank != *rank)) continue;
    hide(address, imported.bytes);
    imported.is_mapped = false;
  }
}

void Entity::release() noexcept {
  if (base_ != 0) ::munmap(pointer(base_), reserved_);
  base_ = reserved_ = host_used_ = device_used_ = 0;
  slices_.clear();
  imported_.clear();
}

bool Entity::is_in_slices(std::uint64_t address, std::uint64_t bytes, hybm_mem_type type) const {
  if (base_ == 0 || stride(type) == 0) return false;
  const std::uint64_t first = part(type, 0);
  if (address < first || address - first >= options_.rankCount * stride(type)) return false;
  while (bytes > 0) {
    const std::uint64_t here = bytes_from(address);
    if (here == 0) return false;
    address += std::min(here, bytes);
    bytes -= std::min(here, bytes);
  }
  return true;
}

std::uint64_t Entity::bytes_from(std::uint64_t address) const {
  for (const auto& slice : slices_)
    if (!slice->is_users && address >= slice->address && address - slice->address < slice->bytes)
      return slice->bytes - (address - slice->address);
  auto next = imported_.upper_bound(address);
  if (next == imported_.begin()) return 0;
  const auto& [start, imported] = *--next;
  return imported.is_mapped && address - start < imported.bytes ? imported.bytes - (address - start) : 0;
}

void Entity::check_piece(const PoolCopy& piece, hybm_data_copy_direction direction) const {
  check(piece.destination != nullptr && piece.source != nullptr && piece.bytes > 0,
        "an address is null, or a size is 0");
  check(direction >= 0 && direction <= HYBM_DATA_COPY_DIRECTION_AUTO, "the direction is unknown");
  const auto source = reinterpret_cast<std::uint64_t>(piece.source);
  const auto destination = reinterpret_cast<std::uint64_t>(piece.destination);
  if (direction == HYBM_DATA_COPY_DIRECTION_AUTO) {
    check(is_reserved(source) || is_reserved(destination), "neither address is in the entity");
    check_end(source, piece.bytes, is_reserved(source), std::nullopt);
    check_end(destination, piece.bytes, is_reserved(destination), std::nullopt);
    return;
  }
  const Ends& ends = ends_of[static_cast<std::size_t>(direction)];
  check_end(source, piece.bytes, ends.from_global, ends.from_device);
  check_end(destination, piece.bytes, ends.to_global, ends.to_device);
}

void Entity::check_end(std::uint64_t address, std::uint64_t bytes, bool is_global,
                       std::optional<bool> is_device) const {
  if (!is_global) {
    check(!is_reserved(address), "the local address is in the entity");
    return;
  }
  const bool is_host = is_device != true && is_in_slices(address, bytes, HYBM_MEM_TYPE_HOST);
  check(is_host || (is_device != false && is_in_slices(address, bytes, HYBM_MEM_TYPE_DEVICE)),
        "the global address isn't in accessible slices of this type");
}

}  // namespace hmc::memfabric::hybm
