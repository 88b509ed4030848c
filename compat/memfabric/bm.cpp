#include "compat/memfabric/bm.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "compat/memfabric/numa.hpp"

namespace hmc::memfabric {
namespace {

constexpr std::uint32_t known_operations =
    SMEMB_DATA_OP_SDMA | SMEMB_DATA_OP_HOST_RDMA | SMEMB_DATA_OP_HOST_TCP | SMEMB_DATA_OP_DEVICE_RDMA |
    SMEMB_DATA_OP_HOST_URMA | SMEMB_DATA_OP_HOST_SHM | SMEMB_DATA_OP_DEVICE_URMA | SMEMB_DATA_OP_DEVICE_UBOE;
constexpr std::uint32_t hints = SMEM_BM_FLAG_DRAM_MAP_HOST_VA | SMEM_BM_FLAG_DRAM_BEST_EFFORT;
constexpr std::uint32_t numa_node_bits = SMEM_BM_BIND_NUMA_AUTO_AFFINITY_FLAG;
constexpr std::uint32_t performance_bit = 1U << SMEM_BM_PERFORMANCE_MODE_FLAG_INDEX;

void require_sizes(std::uint64_t local, std::uint64_t most, std::uint64_t limit) {
  require(local % block_bytes == 0 && most % block_bytes == 0, "sizes are multiples of 2 MiB");
  require(local <= most, "the local size is above the maximum");
  require(most <= limit, "host parts have at most 2 TiB, device parts 64 GiB");
}

/// The text of a fixed array, which need not end with a zero byte.
template <std::size_t n> std::string text_of(const char (&chars)[n]) {
  return {chars, std::find(chars, chars + n, '\0')};
}

Pool create_pool(Session& session, PoolState& state) {
  const smem_bm_create_option_t& option = state.option;
  require_operations(option.dataOpType, known_operations);
  require_network(session.has_network, option.dataOpType);
  require_sizes(option.localDRAMSize, option.maxDramSize, most_host_bytes);
  require_sizes(option.localHBMSize, option.maxHbmSize, most_device_bytes);
  require(option.maxDramSize + option.maxHbmSize > 0, "both maxima are 0");
  PoolOptions options;
  options.name = fmt::format("bm.{}", state.id);
  options.most_members = static_cast<int>(session.world);
  options.rank = session.rank;
  options.host_bytes = option.localDRAMSize;
  options.device_bytes = option.localHBMSize;
  options.host_stride = option.maxDramSize;
  options.device_stride = option.maxHbmSize;
  options.device_type = device_memory(session.device);
  options.device = options.device_type == MemoryType::CPU ? 0 : session.device;
  options.tag = text_of(option.tag);
  if (!options.tag.empty()) require_tag(options.tag);
  options.rules = rules_of(text_of(option.tagOpInfo));
  if (state.host == nullptr) state.host = std::make_shared<HostMemory>(option);
  if (option.localDRAMSize > 0) options.host_fd = state.host->descriptor();
  return Pool::create(session.joined(), options);
}

std::string names_of(std::uint32_t operations) {
  constexpr std::array<const char*, 8> names = {"SDMA",      "HOST_RDMA", "HOST_TCP",    "DEVICE_RDMA",
                                                "HOST_URMA", "HOST_SHM",  "DEVICE_URMA", "DEVICE_UBOE"};
  std::vector<const char*> set;
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((operations >> i & 1U) != 0) set.push_back(names[i]);
  return fmt::format("{}", fmt::join(set, "|"));
}

/// The ends of each type: to the pool or from it, the kind of the local end, and whether the pool's end is a host part.
struct Ends {
  bool to_pool;
  bool local_is_device;
  bool host_part;
};
constexpr std::array<Ends, 8> ends_of = {{
    {true, true, false},    // L2G
    {false, true, false},   // G2L
    {false, false, false},  // G2H
    {true, false, false},   // H2G
    {true, true, true},     // L2GH
    {false, true, true},    // GH2L
    {false, false, true},   // GH2H
    {true, false, true},    // H2GH
}};

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= 30 && std::all_of(text.begin(), text.end(), [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || (each >= '0' && each <= '9') || each == '_';
  });
}

PoolDirection direction(bool to_pool, bool local_is_device, PoolPart part) {
  const bool device_part = part == PoolPart::device;
  if (to_pool) {
    if (local_is_device)
      return device_part ? PoolDirection::device_to_global_device : PoolDirection::device_to_global_host;
    return device_part ? PoolDirection::host_to_global_device : PoolDirection::host_to_global_host;
  }
  if (local_is_device)
    return device_part ? PoolDirection::global_device_to_device : PoolDirection::global_host_to_device;
  return device_part ? PoolDirection::global_device_to_host : PoolDirection::global_host_to_host;
}

}  // namespace

HostMemory::HostMemory(const smem_bm_create_option_t& option) {
  const std::uint32_t flags = option.flags;
  const bool is_bound = (flags & performance_bit) != 0;
  require((flags & ~(numa_node_bits | performance_bit | SMEM_BM_FLAG_CREATE_WITH_SHM | hints)) == 0,
          "a flag is unknown");
  require(is_bound || (flags & numa_node_bits) == 0, "a NUMA node needs the performance mode");
  if ((flags & SMEM_BM_FLAG_CREATE_WITH_SHM) != 0) {
    require(option.dramShmFd >= 0 && option.localDRAMSize > 0, "CREATE_WITH_SHM needs dramShmFd and localDRAMSize");
    descriptor_ = option.dramShmFd;
  }
  if (is_bound) {
    const std::uint32_t asked = flags & numa_node_bits;
    node_ = asked == numa_node_bits ? current_numa_node() : static_cast<int>(asked);
  }
  // Only a pool without device parts can be extended: its pool needs no memory behind an adopted host part.
  const bool can_extend = option.localDRAMSize < option.maxDramSize && option.maxHbmSize == 0;
  if (descriptor_ < 0 && (can_extend || (is_bound && option.localDRAMSize > 0))) {
    descriptor_ = ::memfd_create("smem_bm", MFD_CLOEXEC);
    if (descriptor_ < 0) throw Failure(SMEM_MALLOC_FAILED, fmt::format("memfd_create: {}", std::strerror(errno)));
    is_owned_ = true;
  }
  try {
    if (descriptor_ >= 0) extend(option.localDRAMSize);
  } catch (...) {
    if (is_owned_) ::close(descriptor_);
    throw;
  }
}

HostMemory::~HostMemory() {
  if (is_owned_) ::close(descriptor_);
}

void HostMemory::extend(std::uint64_t bytes) {
  if (is_owned_ && ::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    throw Failure(SMEM_MALLOC_FAILED, fmt::format("ftruncate: {}", std::strerror(errno)));
  if (node_ && bytes > 0) bind_to_node(descriptor_, bytes, *node_);
}

void require_tag(const std::string& tag) { require(is_tag(tag), "a tag has 1 to 30 letters, digits and `_`"); }

// Without std::regex: its functions would be replaced by those of a program that has the old form of std::string.
std::string rules_of(const std::string& tag_operations) {
  // The way that is tried first; the pool tries the others if it fails, as the original tries other operations.
  static const std::map<std::string_view, std::string_view> ways = {
      {"DEVICE_SDMA", "device"}, {"DEVICE_MTE", "shm"},  {"DEVICE_RDMA", "verbs"},
      {"HOST_RDMA", "verbs"},    {"HOST_URMA", "ucx"},   {"HOST_TCP", "tcp"},
      {"HOST_SHM", "shm"},       {"DEVICE_URMA", "ucx"}, {"DEVICE_UBOE", "verbs"}};
  std::string rules;
  if (tag_operations.empty()) return rules;
  for (std::string_view rest = tag_operations;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view rule = rest.substr(0, comma);
    const std::size_t first = rule.find(':'), last = rule.rfind(':');
    require(first != last && is_tag(rule.substr(0, first)) && is_tag(rule.substr(last + 1)),
            "tagOpInfo isn't tagA:OP:tagB,...");
    const auto way = ways.find(rule.substr(first + 1, last - first - 1));
    require(way != ways.end(), "tagOpInfo: the operation is unknown");
    rules +=
        fmt::format("{}{}:{}:{}", rules.empty() ? "" : ",", rule.substr(0, first), way->second, rule.substr(last + 1));
    if (comma == std::string_view::npos) return rules;
    rest.remove_prefix(comma + 1);
  }
}

PoolPart part_of(smem_bm_mem_type type) {
  require(type == SMEM_MEM_TYPE_DEVICE || type == SMEM_MEM_TYPE_HOST, "the memory type is DEVICE or HOST");
  return type == SMEM_MEM_TYPE_HOST ? PoolPart::host : PoolPart::device;
}

PoolDirection Directions::of(smem_bm_copy_type type, const void* destination, const void* source) const {
  require(destination != nullptr && source != nullptr, "an address is null");
  if (type == SMEMB_COPY_AUTO) return PoolDirection::automatic;
  if (type == SMEMB_COPY_G2G) return PoolDirection::global_to_global;
  require(type >= 0 && static_cast<std::size_t>(type) < ends_of.size(), "the copy type is unknown");
  const Ends& ends = ends_of[static_cast<std::size_t>(type)];
  const PoolPlace place = pool_->place_of(ends.to_pool ? destination : source);
  require(place.rank >= 0, "the global address isn't in the pool");
  require(!ends.host_part || place.part == PoolPart::host, "the global address isn't in a host part");
  const bool local_is_device = ends.local_is_device && has_accelerator_;
  // This member's own part may also be named as local memory.
  const PoolPlace local = pool_->place_of(ends.to_pool ? source : destination);
  if (local.rank >= 0) {
    require(local.rank == pool_->rank(), "the local address is in the part of another member");
    require(!has_accelerator_ || (local.part == PoolPart::device) == ends.local_is_device,
            "the local address is in the other part of this member");
    return PoolDirection::global_to_global;
  }
  return direction(ends.to_pool, local_is_device, place.part);
}

BigMemory::BigMemory(Session& session, PoolState state)
    : state_(std::move(state)),
      device_(session.device),
      create_timeout_(session.create_timeout),
      control_timeout_(session.control_timeout),
      has_accelerator_(device_memory(session.device) != MemoryType::CPU),
      pool_(create_pool(session, state_)) {
  if (!pool_.has_one_address_space())
    log(LogLevel::warning, fmt::format("bm {}: addresses differ by process: {}", state_.id, pool_.why_not_one()));
  for (const auto& [address, bytes] : state_.registered) pool_.register_memory(reinterpret_cast<void*>(address), bytes);
}

PoolState BigMemory::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

PoolState BigMemory::extended(smem_bm_mem_type type, std::uint64_t bytes) const {
  PoolState more = state();
  smem_bm_create_option_t& option = more.option;
  require(part_of(type) == PoolPart::host && option.maxHbmSize == 0,
          "only the host part of a pool without device parts can be extended");
  require(bytes > 0 && bytes % block_bytes == 0, "the size isn't a multiple of 2 MiB");
  require(bytes <= option.maxDramSize - option.localDRAMSize, "the part would exceed maxDramSize");
  option.localDRAMSize += bytes;
  return more;
}

void BigMemory::join() {
  if (pool_.is_member()) return;
  pool_.join(create_timeout_);
  if (logs(LogLevel::info)) report_ways();
}

void BigMemory::report_ways() {
  for (const int rank : pool_.members()) {
    for (const PoolPart part : {PoolPart::host, PoolPart::device}) {
      if (pool_.bytes(part, rank) == 0) continue;
      const PoolPath path = pool_.path(rank, part);
      log(LogLevel::info, fmt::format("bm {}: {} part of rank {}: {} requested, {} used: {}", state_.id, name_of(part),
                                      rank, names_of(state_.option.dataOpType), name_of(path.way), path.why));
    }
  }
}

void BigMemory::copy(std::span<const PoolCopy> pieces, smem_bm_copy_type type, std::uint32_t flags, void* stream) {
  require((flags & ~(ASYNC_COPY_FLAG | COPY_EXTEND_FLAG | SMEM_BM_FLAG_USE_EXTERNAL_STREAM)) == 0, "a flag is unknown");
  for (const PoolCopy& piece : pieces) require(piece.bytes > 0, "a size is 0");
  if ((flags & SMEM_BM_FLAG_USE_EXTERNAL_STREAM) != 0) wait_for_stream(stream, device_);
  copy_each(pieces, type, (flags & ASYNC_COPY_FLAG) != 0);
}

void BigMemory::copy_each(std::span<const PoolCopy> pieces, smem_bm_copy_type type, bool async) {
  const Directions directions(pool_, has_accelerator_);
  // One call of the core has one direction. Pieces of several are checked here, and then detected there.
  PoolDirection all = directions.of(type, pieces[0].destination, pieces[0].source);
  for (const PoolCopy& piece : pieces.subspan(1))
    if (directions.of(type, piece.destination, piece.source) != all) all = PoolDirection::automatic;
  if (async) return pool_.copy_async(pieces, all);
  if (pieces.size() > 1) return pool_.copy_batch(pieces, all);
  pool_.copy(pieces[0].destination, pieces[0].source, pieces[0].bytes, all);
}

void BigMemory::copy_2d(void* destination, std::uint64_t destination_pitch, const void* source,
                        std::uint64_t source_pitch, std::uint64_t width, std::uint64_t height, smem_bm_copy_type type) {
  require(width > 0 && height > 0, "the width or the height is 0");
  pool_.copy_2d(destination, destination_pitch, source, source_pitch, width, height,
                Directions(pool_, has_accelerator_).of(type, destination, source));
}

void BigMemory::register_memory(std::uint64_t address, std::uint64_t bytes) {
  require(address != 0 && bytes > 0, "the address or the size is 0");
  const std::lock_guard lock(mutex_);
  pool_.register_memory(reinterpret_cast<void*>(address), bytes);
  state_.registered[address] = bytes;
}

void BigMemory::deregister_memory(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  pool_.deregister_memory(reinterpret_cast<void*>(address));
  state_.registered.erase(address);
}

void BigMemory::on_event(smem_bm_t handle, smem_bm_group_event_cb callback, void* context) {
  {
    const std::lock_guard lock(mutex_);
    state_.event_callback = callback;
    state_.event_context = context;
  }
  if (callback == nullptr) return pool_.on_change({});
  pool_.on_change([=, this](const PoolChange& change) {
    if (change.rank == pool_.rank()) return;
    callback(handle, static_cast<std::uint32_t>(change.rank),
             change.joined ? SMEM_GROUP_EVENT_JOIN : SMEM_GROUP_EVENT_LEAVE, context);
  });
}

void* BigMemory::local_address(const void* address, smem_bm_mem_type type) const {
  require(type == SMEM_MEM_TYPE_LOCAL_HOST || type == SMEM_MEM_TYPE_LOCAL_DEVICE,
          "the memory type is LOCAL_HOST or LOCAL_DEVICE");
  const PoolPlace place = pool_.place_of(address);
  require(place.rank >= 0 && place.offset < pool_.bytes(place.part, place.rank), "no member has this address");
  if (has_accelerator_ && (place.part == PoolPart::device) != (type == SMEM_MEM_TYPE_LOCAL_DEVICE))
    throw Failure(SMEM_ERROR, fmt::format("this is an address of a {} part", name_of(place.part)));
  void* const part = pool_.pointer(place.rank, place.part);
  if (part == nullptr)
    throw Failure(SMEM_ERROR, fmt::format("rank {} is reached by copies alone: {}", place.rank,
                                          pool_.path(place.rank, place.part).why));
  return static_cast<std::byte*>(part) + place.offset;
}

void BigMemory::barrier(std::uint32_t size) {
  require(size >= 1 && size <= static_cast<std::uint32_t>(world()), "the size is above the world's");
  pool_.store().barrier("smem_bm_barrier", static_cast<int>(size), pool_.rank(), control_timeout_);
}

}  // namespace hmc::memfabric
