// hybm: entities that share slices of host memory on one machine. The caller exchanges what they export.
//
// A slice is a memfd. Its export names the process and the descriptor, by which the importer opens it; the file's inode
// proves that it is the exported one. All parts are mapped into one reservation, at the same address in each process.
#include <fcntl.h>
#include <hybm.h>
#include <hybm_big_mem.h>
#include <hybm_data_op.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <shared_mutex>
#include <vector>

#include <hmc/copy.hpp>
#include <hmc/pool.hpp>

#include "compat/memfabric/control_store.hpp"

namespace hmc::memfabric {
namespace {

constexpr std::uint64_t first_address = std::uint64_t{40} << 40;
constexpr std::uint64_t address_step = std::uint64_t{1} << 40;
constexpr std::uint64_t address_steps = 64;
constexpr std::uint32_t most_ranks = 1024;
constexpr std::uint32_t most_exchanged = 1U << 20;

[[noreturn]] void fail(const char* call, std::int32_t code = BM_ERROR) {
  throw Failure(code, fmt::format("{}: {}", call, std::strerror(errno)));
}
void check(bool holds, const char* text) {
  if (!holds) throw Failure(BM_INVALID_PARAM, text);
}

std::int32_t hybm_code(const Error& error) noexcept {
  switch (code_of(error)) {
    case SMEM_TIMEOUT: return BM_TIMEOUT;
    case SMEM_INVALID_PARAM: return BM_INVALID_PARAM;
    case SMEM_MALLOC_FAILED: return BM_MALLOC_FAILED;
    default: return BM_ERROR;
  }
}

/// As guarded(), with hybm's codes.
template <typename Body> std::int32_t hybm_guarded(const char* function, Body&& body) noexcept {
  try {
    body();
    return BM_OK;
  } catch (const Failure& failure) {
    // The layer's own checks have codes of smem.
    return remember(function, failure.code == SMEM_INVALID_PARAM ? BM_INVALID_PARAM : failure.code, failure.what());
  } catch (const Error& error) {
    return remember(function, hybm_code(error), error.what());
  } catch (const std::bad_alloc&) {
    return remember(function, BM_MALLOC_FAILED, "out of memory");
  } catch (const std::exception& error) {
    return remember(function, BM_ERROR, error.what());
  }
}
template <typename T, typename Body> T hybm_guarded_or(const char* function, T failed, Body&& body) noexcept {
  T result = failed;
  return hybm_guarded(function, [&] { result = body(); }) == BM_OK ? result : failed;
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

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

/// What hybm_export writes.
struct Exchange {
  static constexpr std::uint64_t magic_number = 0x6d62796863686d31;
  std::uint64_t magic = magic_number;
  std::array<char, 40> machine{};
  std::uint32_t is_entity = 1;
  std::uint32_t rank = 0;
  std::int32_t type = 0;  // hybm_mem_type
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Exchange>);

Exchange decode(const hybm_exchange_info& info) {
  Exchange exchange;
  check(info.desc != nullptr && info.descLen == sizeof exchange, "these aren't bytes of hybm_export");
  std::memcpy(&exchange, info.desc, sizeof exchange);
  check(exchange.magic == Exchange::magic_number, "these aren't bytes of hybm_export");
  if (exchange.machine != machine())
    throw Failure(BM_NOT_SUPPORTED, fmt::format("rank {} is on another machine: use smem_bm", exchange.rank));
  return exchange;
}

struct Slice {
  hybm_mem_type type = HYBM_MEM_TYPE_HOST;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Descriptor file;
  bool is_users = false;  // registered
};
struct Imported {
  std::uint32_t rank = 0;
  std::uint64_t bytes = 0;
  Descriptor file;
  bool is_mapped = false;
};

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

/// Threads: any. Copies run at once; the other calls one at a time.
class Entity {
 public:
  Entity(std::uint16_t id, const hybm_options& options) : id_(id), options_(options) {
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
  ~Entity() { release(); }
  Entity(const Entity&) = delete;
  Entity& operator=(const Entity&) = delete;

  std::uint16_t id() const noexcept { return id_; }

  void reserve() {
    const std::unique_lock lock(mutex_);
    if (base_ != 0) return;
    const std::uint64_t bytes = options_.rankCount * (options_.maxDRAMSize + options_.maxHBMSize);
    for (std::uint64_t step = 0; step < address_steps && base_ == 0; ++step) {
      const std::uint64_t at = first_address + (id_ + step) % address_steps * address_step;
      void* const got = ::mmap(pointer(at), bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
      if (got == pointer(at)) {
        base_ = at;
      } else if (got != MAP_FAILED) {  // an old kernel takes the address for a hint
        ::munmap(got, bytes);
      }
    }
    if (base_ == 0) throw Failure(BM_MALLOC_FAILED, fmt::format("{} bytes of addresses aren't free", bytes));
    reserved_ = bytes;
  }
  void unreserve() {
    const std::unique_lock lock(mutex_);
    release();
  }
  void* base(hybm_mem_type type) const {
    const std::shared_lock lock(mutex_);
    check(base_ != 0 && stride(type) > 0, "the addresses aren't reserved, or there are no parts of this type");
    return pointer(part(type, 0));
  }

  hybm_mem_slice_t allocate(hybm_mem_type type, std::uint64_t bytes) {
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
  hybm_mem_slice_t register_memory(const void* address, std::uint64_t bytes) {
    check(address != nullptr && bytes > 0, "the address is null, or the size is 0");
    const std::unique_lock lock(mutex_);
    auto slice = std::make_unique<Slice>();
    slice->address = reinterpret_cast<std::uint64_t>(address);
    slice->bytes = bytes;
    slice->is_users = true;
    slices_.push_back(std::move(slice));
    return slices_.back().get();
  }
  void free(hybm_mem_slice_t handle) {
    const std::unique_lock lock(mutex_);
    if (handle == nullptr) {
      while (!slices_.empty()) free_at(slices_.size() - 1);
      return;
    }
    free_at(index_of(handle));
  }
  /// Of a slice: its address and its size.
  std::pair<std::uint64_t, std::uint64_t> range_of(hybm_mem_slice_t handle) const {
    const std::shared_lock lock(mutex_);
    const Slice& slice = *slices_[index_of(handle)];
    return {slice.address, slice.bytes};
  }

  Exchange export_of(hybm_mem_slice_t handle) const {
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
  void import(const std::vector<Exchange>& exchanges) {
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
  void map_imported() {
    const std::unique_lock lock(mutex_);
    for (auto& [address, imported] : imported_) {
      if (imported.is_mapped) continue;
      map(address, imported.bytes, imported.file.get());
      imported.is_mapped = true;
    }
  }
  void unmap(std::optional<std::uint32_t> rank) {
    const std::unique_lock lock(mutex_);
    unmap_imported(rank);
  }
  void remove(std::uint32_t rank) {
    const std::unique_lock lock(mutex_);
    unmap_imported(rank);
    std::erase_if(imported_, [&](const auto& each) { return each.second.rank == rank; });
    std::erase(known_ranks_, rank);
  }
  void require_known(const std::uint32_t* ranks, std::uint32_t count) const {
    const std::shared_lock lock(mutex_);
    for (std::uint32_t i = 0; i < count; ++i)
      if (!knows(ranks[i])) throw Failure(BM_NOT_CONNECTED, fmt::format("rank {} hasn't been imported", ranks[i]));
  }
  bool reaches(std::uint32_t rank) const {
    const std::shared_lock lock(mutex_);
    return rank == options_.rankId || std::any_of(imported_.begin(), imported_.end(), [&](const auto& each) {
             return each.second.rank == rank && each.second.is_mapped;
           });
  }
  bool is_accessible(std::uint64_t address, hybm_mem_type type) const {
    const std::shared_lock lock(mutex_);
    return is_in_slices(address, 1, type);
  }

  void copy(const std::vector<PoolCopy>& pieces, hybm_data_copy_direction direction, void* stream) const {
    const std::shared_lock lock(mutex_);
    for (const PoolCopy& piece : pieces) check_piece(piece, direction);
    wait_for_stream(stream, options_.devId);
    for (const PoolCopy& piece : pieces) hmc::copy(Location(piece.destination), Location(piece.source), piece.bytes);
  }

 private:
  static void* pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }
  bool has(hybm_mem_type type) const noexcept {
    return (static_cast<unsigned>(options_.memType) & static_cast<unsigned>(type)) != 0;
  }
  bool knows(std::uint32_t rank) const {
    return std::find(known_ranks_.begin(), known_ranks_.end(), rank) != known_ranks_.end();
  }
  std::uint64_t stride(hybm_mem_type type) const {
    check(type == HYBM_MEM_TYPE_HOST || type == HYBM_MEM_TYPE_DEVICE, "the memory type is DEVICE or HOST");
    return type == HYBM_MEM_TYPE_HOST ? options_.maxDRAMSize : options_.maxHBMSize;
  }
  /// All host parts, then all device parts.
  std::uint64_t part(hybm_mem_type type, std::uint32_t rank) const {
    const std::uint64_t first = type == HYBM_MEM_TYPE_HOST ? 0 : options_.rankCount * options_.maxDRAMSize;
    return base_ + first + rank * stride(type);
  }
  std::size_t index_of(hybm_mem_slice_t handle) const {
    const auto found =
        std::find_if(slices_.begin(), slices_.end(), [&](const auto& each) { return each.get() == handle; });
    check(found != slices_.end(), "the slice is null, or was freed");
    return static_cast<std::size_t>(found - slices_.begin());
  }
  Descriptor open_file(hybm_mem_type type, std::uint64_t bytes) const {
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
  Imported open(const Exchange& exchange) const {
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
  static void map(std::uint64_t address, std::uint64_t bytes, int fd) {
    if (::mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
      fail("mmap", BM_MALLOC_FAILED);
  }
  /// The range is reserved again.
  static void hide(std::uint64_t address, std::uint64_t bytes) noexcept {
    (void)::mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  void free_at(std::size_t index) {
    const Slice& slice = *slices_[index];
    if (!slice.is_users && slice.bytes > 0) {
      hide(slice.address, slice.bytes);
      std::uint64_t& used = slice.type == HYBM_MEM_TYPE_HOST ? host_used_ : device_used_;
      if (slice.address + slice.bytes == part(slice.type, options_.rankId) + used) used -= slice.bytes;
    }
    slices_.erase(slices_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void unmap_imported(std::optional<std::uint32_t> rank) {
    for (auto& [address, imported] : imported_) {
      if (!imported.is_mapped || (rank && imported.rank != *rank)) continue;
      hide(address, imported.bytes);
      imported.is_mapped = false;
    }
  }
  void release() noexcept {
    if (base_ != 0) ::munmap(pointer(base_), reserved_);
    base_ = reserved_ = host_used_ = device_used_ = 0;
    slices_.clear();
    imported_.clear();
  }

  bool is_reserved(std::uint64_t address) const { return address >= base_ && address - base_ < reserved_; }
  /// Each byte is in an accessible slice of this type. Slices of one part follow each other.
  bool is_in_slices(std::uint64_t address, std::uint64_t bytes, hybm_mem_type type) const {
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
  /// From the address to the end of its slice; 0: it is in none.
  std::uint64_t bytes_from(std::uint64_t address) const {
    for (const auto& slice : slices_)
      if (!slice->is_users && address >= slice->address && address - slice->address < slice->bytes)
        return slice->bytes - (address - slice->address);
    auto next = imported_.upper_bound(address);
    if (next == imported_.begin()) return 0;
    const auto& [start, imported] = *--next;
    return imported.is_mapped && address - start < imported.bytes ? imported.bytes - (address - start) : 0;
  }
  void check_piece(const PoolCopy& piece, hybm_data_copy_direction direction) const {
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
  void check_end(std::uint64_t address, std::uint64_t bytes, bool is_global, std::optional<bool> is_device) const {
    if (!is_global) {
      check(!is_reserved(address), "the local address is in the entity");
      return;
    }
    const bool is_host = is_device != true && is_in_slices(address, bytes, HYBM_MEM_TYPE_HOST);
    check(is_host || (is_device != false && is_in_slices(address, bytes, HYBM_MEM_TYPE_DEVICE)),
          "the global address isn't in accessible slices of this type");
  }

  std::uint16_t id_;
  hybm_options options_;
  mutable std::shared_mutex mutex_;  // exclusive: mappings and lists change
  std::uint64_t base_ = 0, reserved_ = 0;
  std::uint64_t host_used_ = 0, device_used_ = 0;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::map<std::uint64_t, Imported> imported_;  // by address
  std::vector<std::uint32_t> known_ranks_;
};

struct HybmProcess {
  std::mutex mutex;  // of the count and of creation
  int inits = 0;
  Handles<Entity> entities;
};
HybmProcess& hybm() { return per_process<HybmProcess>(); }

std::shared_ptr<Entity> find(hybm_entity_t e) {
  check(e != nullptr, "the entity is null");
  return hybm().entities.find(e);
}

}  // namespace
}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's
using hmc::PoolCopy;

int32_t hybm_init(uint16_t /*deviceId*/, uint64_t /*flags*/) {
  return hybm_guarded("hybm_init", [] {
    const std::lock_guard lock(hybm().mutex);
    ++hybm().inits;
  });
}

void hybm_uninit() {
  const std::lock_guard lock(hybm().mutex);
  if (hybm().inits > 0 && --hybm().inits == 0) (void)hybm().entities.remove_all();
}

void hybm_set_extern_logger(void (*logger)(int, const char*)) { (void)smem_set_extern_logger(logger); }

int32_t hybm_set_log_level(int level) { return smem_set_log_level(level) == SMEM_OK ? BM_OK : BM_ERROR; }

const char* hybm_get_error_string(int32_t errCode) {
  switch (errCode) {
    case BM_OK: return "OK";
    case BM_ERROR: return "ERROR";
    case BM_INVALID_PARAM: return "INVALID_PARAM";
    case BM_MALLOC_FAILED: return "MALLOC_FAILED";
    case BM_NEW_OBJECT_FAILED: return "NEW_OBJECT_FAILED";
    case BM_FILE_NOT_ACCESS: return "FILE_NOT_ACCESS";
    case BM_DL_FUNCTION_FAILED: return "DL_FUNCTION_FAILED";
    case BM_TIMEOUT: return "TIMEOUT";
    case BM_UNDER_API_UNLOAD: return "UNDER_API_UNLOAD";
    case BM_NOT_INITIALIZED: return "NOT_INITIALIZED";
    case BM_NOT_SUPPORT_FUNC: return "NOT_SUPPORT_FUNC";
    case BM_P2P_NOT_READY: return "P2P_NOT_READY";
    case BM_NOT_SUPPORTED: return "NOT_SUPPORTED";
    case BM_NOT_CONNECTED: return "NOT_CONNECTED";
    default: return nullptr;
  }
}

hybm_entity_t hybm_create_entity(uint16_t id, const hybm_options* options, uint32_t /*flags*/) {
  return hybm_guarded_or<hybm_entity_t>("hybm_create_entity", nullptr, [&] {
    const std::lock_guard lock(hybm().mutex);
    if (hybm().inits == 0) throw Failure(BM_NOT_INITIALIZED, "hybm_init wasn't called");
    check(!hybm().entities.any([&](const Entity& other) { return other.id() == id; }), "the id exists");
    return hybm().entities.add(std::make_shared<Entity>(id, required(options, "the options are null")));
  });
}

void hybm_destroy_entity(hybm_entity_t e, uint32_t /*flags*/) {
  (void)hybm_guarded("hybm_destroy_entity", [&] { (void)hybm().entities.remove(e); });
}

int32_t hybm_reserve_mem_space(hybm_entity_t e, uint32_t /*flags*/) {
  return hybm_guarded("hybm_reserve_mem_space", [&] { find(e)->reserve(); });
}

int32_t hybm_unreserve_mem_space(hybm_entity_t e, uint32_t /*flags*/) {
  return hybm_guarded("hybm_unreserve_mem_space", [&] { find(e)->unreserve(); });
}

void* hybm_get_memory_ptr(hybm_entity_t e, hybm_mem_type mType) {
  return hybm_guarded_or<void*>("hybm_get_memory_ptr", nullptr, [&] { return find(e)->base(mType); });
}

hybm_mem_slice_t hybm_alloc_local_memory(hybm_entity_t e, hybm_mem_type mType, uint64_t size, uint32_t /*flags*/) {
  return hybm_guarded_or<hybm_mem_slice_t>("hybm_alloc_local_memory", nullptr,
                                           [&] { return find(e)->allocate(mType, size); });
}

int32_t hybm_free_local_memory(hybm_entity_t e, hybm_mem_slice_t slice, uint32_t /*count*/, uint32_t /*flags*/) {
  return hybm_guarded("hybm_free_local_memory", [&] { find(e)->free(slice); });
}

void* hybm_get_slice_va(hybm_entity_t e, hybm_mem_slice_t slice) {
  return hybm_guarded_or<void*>("hybm_get_slice_va", nullptr,
                                [&] { return reinterpret_cast<void*>(find(e)->range_of(slice).first); });
}

uint64_t hybm_get_slice_size(hybm_entity_t e, hybm_mem_slice_t slice) {
  return hybm_guarded_or("hybm_get_slice_size", uint64_t{0}, [&] { return find(e)->range_of(slice).second; });
}

hybm_mem_slice_t hybm_register_local_memory(hybm_entity_t e, const void* ptr, uint64_t size, uint32_t /*flags*/) {
  return hybm_guarded_or<hybm_mem_slice_t>("hybm_register_local_memory", nullptr,
                                           [&] { return find(e)->register_memory(ptr, size); });
}

int32_t hybm_export(hybm_entity_t e, hybm_mem_slice_t slice, uint32_t flags, hybm_exchange_info* exInfo) {
  return hybm_guarded("hybm_export", [&] {
    hybm_exchange_info& out = required(exInfo, "the place for the bytes is null");
    const Exchange exchange = find(e)->export_of((flags & HYBM_FLAG_EXPORT_ENTITY) != 0 ? nullptr : slice);
    auto* const bytes = static_cast<uint8_t*>(std::malloc(sizeof exchange));
    if (bytes == nullptr) throw std::bad_alloc();
    std::memcpy(bytes, &exchange, sizeof exchange);
    out = {bytes, sizeof exchange};
  });
}

void hybm_export_info_free(hybm_exchange_info* exInfo) {
  if (exInfo == nullptr) return;
  std::free(exInfo->desc);
  *exInfo = {};
}

int32_t hybm_import(hybm_entity_t e, const hybm_exchange_info allExInfo[], uint32_t count, void* addresses[],
                    uint32_t /*flags*/) {
  return hybm_guarded("hybm_import", [&] {
    check(allExInfo != nullptr && count > 0 && count <= most_exchanged, "the list is null or empty");
    std::vector<Exchange> exchanges(count);
    for (uint32_t i = 0; i < count; ++i) exchanges[i] = decode(allExInfo[i]);
    find(e)->import(exchanges);
    if (addresses == nullptr) return;
    for (uint32_t i = 0; i < count; ++i) addresses[i] = reinterpret_cast<void*>(exchanges[i].address);
  });
}

int32_t hybm_mmap(hybm_entity_t e, uint32_t /*flags*/) {
  return hybm_guarded("hybm_mmap", [&] { find(e)->map_imported(); });
}

int32_t hybm_transport_connect(hybm_entity_t e, const uint32_t* ranks, uint32_t count, uint32_t /*flags*/) {
  return hybm_guarded("hybm_transport_connect", [&] {
    check(ranks != nullptr || count == 0, "the list is null");
    find(e)->require_known(ranks, count);
  });
}

int32_t hybm_unmap_rank(hybm_entity_t e, uint32_t rankId) {
  return hybm_guarded("hybm_unmap_rank", [&] { find(e)->unmap(rankId); });
}

void hybm_unmap(hybm_entity_t e, uint32_t /*flags*/) {
  (void)hybm_guarded("hybm_unmap", [&] { find(e)->unmap(std::nullopt); });
}

int32_t hybm_remove_imported(hybm_entity_t e, uint32_t rank, uint32_t /*flags*/) {
  return hybm_guarded("hybm_remove_imported", [&] { find(e)->remove(rank); });
}

int32_t hybm_entity_reach_types(hybm_entity_t e, uint32_t rank, hybm_data_op_type& reachTypes, uint32_t /*flags*/) {
  return hybm_guarded("hybm_entity_reach_types", [&] {
    constexpr unsigned all = HYBM_DOP_TYPE_MTE | HYBM_DOP_TYPE_SDMA | HYBM_DOP_TYPE_HOST_SHM;
    reachTypes = find(e)->reaches(rank) ? static_cast<hybm_data_op_type>(all) : HYBM_DOP_TYPE_DEFAULT;
  });
}

int32_t hybm_gva_to_va(uint64_t gva, hybm_mem_type vaMemType, uint64_t* va) {
  return hybm_guarded("hybm_gva_to_va", [&] {
    uint64_t& out = required(va, "the place for the address is null");
    check(hybm().entities.any([&](const Entity& each) { return each.is_accessible(gva, vaMemType); }),
          "the address isn't in accessible slices of this type");
    out = gva;
  });
}

int32_t hybm_data_copy(hybm_entity_t e, hybm_copy_params* params, hybm_data_copy_direction direction, void* stream,
                       uint32_t /*flags*/) {
  return hybm_guarded("hybm_data_copy", [&] {
    const hybm_copy_params& with = required(params, "the parameters are null");
    find(e)->copy({{with.dest, with.src, with.dataSize}}, direction, stream);
  });
}

int32_t hybm_data_batch_copy(hybm_entity_t e, hybm_batch_copy_params* params, hybm_data_copy_direction direction,
                             void* stream, uint32_t /*flags*/) {
  return hybm_guarded("hybm_data_batch_copy", [&] {
    const hybm_batch_copy_params& with = required(params, "the parameters are null");
    check(with.batchSize > 0 && with.sources != nullptr && with.destinations != nullptr && with.dataSizes != nullptr,
          "an array is null, or the batch is empty");
    std::vector<PoolCopy> pieces(with.batchSize);
    for (uint32_t i = 0; i < with.batchSize; ++i)
      pieces[i] = {with.destinations[i], with.sources[i], with.dataSizes[i]};
    find(e)->copy(pieces, direction, stream);
  });
}

int32_t hybm_wait(hybm_entity_t e) {
  return hybm_guarded("hybm_wait", [&] { (void)find(e); });
}
