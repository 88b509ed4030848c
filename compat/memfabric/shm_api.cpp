// The C functions of <smem_shm.h>.
#include <cstring>

#include "compat/memfabric/sessions.hpp"
#include "compat/memfabric/shm.hpp"

namespace hmc::memfabric {
namespace {

constexpr std::uint32_t most_ids = 64;
constexpr std::uint32_t known_operations = SMEMS_DATA_OP_MTE | SMEMS_DATA_OP_SDMA | SMEMS_DATA_OP_RDMA;

struct ShmProcess {
  std::mutex mutex;  // of init and uninit
  std::optional<Session> session;
  Handles<ShareMemory> memories;
  std::mutex create_mutex;
};
ShmProcess& shm() { return per_process<ShmProcess>(); }

Session& session() {
  const std::lock_guard lock(shm().mutex);
  if (!shm().session) throw Failure(SMEM_NOT_INITIALIZED, "smem_shm_init wasn't called");
  return *shm().session;
}
std::shared_ptr<ShareMemory> find(smem_shm_t handle) {
  require(handle != nullptr, "the handle is null");
  (void)session();
  return shm().memories.find(handle);
}

Session start(const char* url_text, std::uint32_t world, std::uint32_t rank, std::uint16_t device,
              const smem_shm_config_t& config) {
  require(world >= 1 && world <= SMEM_WORLD_SIZE_MAX, "worldSize is 1..1024");
  require(rank < world, "rankId isn't below worldSize");
  const Url url = parse_url(url_text);
  require_security();
  Session started;
  started.url = url_text;
  started.world = world;
  started.rank = static_cast<int>(rank);
  started.device = device;
  const auto init_timeout = checked_timeout(config.shmInitTimeout);
  started.create_timeout = checked_timeout(config.shmCreateTimeout);
  started.control_timeout = checked_timeout(config.controlOperationTimeout);
  if (config.startConfigStoreServer && rank == 0) serve_if_free(url);
  started.store = Store::connect(url.address(), init_timeout).with_prefix("smem.shm");
  started.store->acquire_rank(static_cast<int>(world), static_cast<int>(rank));
  return started;
}

std::string control_name(const char* key) {
  require(key != nullptr, "the key is null");
  const std::size_t length = ::strnlen(key, longest_key + 1);
  require(length >= 1 && length <= longest_key, "a key has 1..63 characters");
  return "subgroup." + std::string(key, length);
}

template <typename T> std::span<T> span_of(T* data, std::uint32_t size) {
  require(data != nullptr, "a buffer is null");
  return {data, size};
}

}  // namespace

std::string shm_status() {
  const std::lock_guard lock(shm().mutex);
  return shm().session ? status_of(*shm().session, "shm") : std::string();
}

void end_shm() noexcept {
  const auto memories = shm().memories.remove_all();
  const std::lock_guard lock(shm().mutex);
  if (shm().session && shm().session->store) {
    try {
      shm().session->store->release_rank();
    } catch (const Error&) {  // the store has ended
    }
  }
  shm().session.reset();
}

}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_shm_config_init(smem_shm_config_t* config) {
  return guarded("smem_shm_config_init", [&] {
    smem_shm_config_t& out = required(config, "the config is null");
    out = {120, 120, 120, true, 0};
  });
}

int32_t smem_shm_init(const char* configStoreIpPort, uint32_t worldSize, uint32_t rankId, uint16_t deviceId,
                      smem_shm_config_t* config) {
  return guarded("smem_shm_init", [&] {
    const smem_shm_config_t& with = required(config, "the config is null");
    const std::lock_guard lock(shm().mutex);
    if (const auto& had = shm().session) {
      const bool same = configStoreIpPort != nullptr && had->url == configStoreIpPort && had->world == worldSize &&
                        had->rank == static_cast<int>(rankId) && had->device == deviceId;
      if (!same) throw Failure(SMEM_REPEAT_CALL, "smem_shm_init was called with other arguments before");
      return;
    }
    shm().session = start(configStoreIpPort, worldSize, rankId, deviceId, with);
  });
}

void smem_shm_uninit(uint32_t flags) {
  (void)guarded("smem_shm_uninit", [&] { require_no_flags(flags); });
  end_shm();
}

uint32_t smem_shm_query_support_data_operation() { return SMEMS_DATA_OP_MTE; }

smem_shm_t smem_shm_create(uint32_t id, uint32_t rankSize, uint32_t rankId, uint64_t symmetricSize,
                           smem_shm_data_op_type dataOpType, uint32_t flags, void** gva) {
  return guarded_or<smem_shm_t>("smem_shm_create", nullptr, [&]() -> smem_shm_t {
    Session& of = session();
    void*& base = required(gva, "the place for the address is null");
    require(id < most_ids, "an id is 0..63");
    require(rankSize >= 1 && rankSize <= of.world && rankId < rankSize, "the rank or the number of ranks is wrong");
    require(symmetricSize > 0 && symmetricSize % block_bytes == 0, "the size isn't a multiple of 2 MiB");
    require(symmetricSize <= most_device_bytes, "the size is above 64 GiB");
    require_operations(dataOpType, known_operations);
    require_no_flags(flags);
    const std::lock_guard lock(shm().create_mutex);
    if (shm().memories.any([&](const ShareMemory& other) { return other.shape().id == id; }))
      throw Failure(SMEM_DUPLICATED_OBJECT, fmt::format("id {} exists", id));
    const ShareMemory::Shape shape{id, static_cast<int>(rankSize), static_cast<int>(rankId), symmetricSize};
    auto memory = std::make_shared<ShareMemory>(of, shape);
    base = memory->address(0);
    return shm().memories.add(std::move(memory));
  });
}

int32_t smem_shm_destroy(smem_shm_t handle, uint32_t flags) {
  return guarded("smem_shm_destroy", [&] {
    require_no_flags(flags);
    (void)shm().memories.remove(handle);
  });
}

uint32_t smem_shm_get_global_rank(smem_shm_t handle) {
  return guarded_or("smem_shm_get_global_rank", UINT32_MAX,
                    [&] { return static_cast<uint32_t>(find(handle)->shape().rank); });
}

uint32_t smem_shm_get_global_rank_size(smem_shm_t handle) {
  return guarded_or("smem_shm_get_global_rank_size", UINT32_MAX,
                    [&] { return static_cast<uint32_t>(find(handle)->shape().size); });
}

uint64_t smem_shm_get_symmetric_size(smem_shm_t handle) {
  return guarded_or("smem_shm_get_symmetric_size", uint64_t{0}, [&] { return find(handle)->shape().bytes; });
}

int32_t smem_shm_set_extra_context(smem_shm_t handle, const void* context, uint32_t size) {
  return guarded("smem_shm_set_extra_context",
                 [&] { find(handle)->set_context(span_of(static_cast<const char*>(context), size)); });
}

int32_t smem_shm_topology_can_reach(smem_shm_t handle, uint32_t remoteRank, uint32_t* reachInfo) {
  return guarded("smem_shm_topology_can_reach", [&] {
    uint32_t& out = required(reachInfo, "the place for the result is null");
    out = find(handle)->reach(remoteRank);
  });
}

int32_t smem_shm_control_barrier(smem_shm_t handle) {
  return guarded("smem_shm_control_barrier", [&] {
    const auto memory = find(handle);
    memory->barrier("control", static_cast<uint32_t>(memory->shape().size),
                    static_cast<uint32_t>(memory->shape().rank));
  });
}

int32_t smem_shm_control_allgather(smem_shm_t handle, const char* sendBuf, uint32_t sendSize, char* recvBuf,
                                   uint32_t recvSize) {
  return guarded("smem_shm_control_allgather", [&] {
    const auto memory = find(handle);
    memory->allgather("control.allgather", static_cast<uint32_t>(memory->shape().size),
                      static_cast<uint32_t>(memory->shape().rank), span_of(sendBuf, sendSize),
                      span_of(recvBuf, recvSize));
  });
}

int32_t smem_shm_subgroup_barrier(smem_shm_t handle, const char* key, uint32_t rankSize, uint32_t rankId) {
  return guarded("smem_shm_subgroup_barrier", [&] { find(handle)->barrier(control_name(key), rankSize, rankId); });
}

int32_t smem_shm_subgroup_allgather(smem_shm_t handle, const char* key, uint32_t rankSize, uint32_t rankId,
                                    const char* sendBuf, uint32_t sendSize, char* recvBuf, uint32_t recvSize) {
  return guarded("smem_shm_subgroup_allgather", [&] {
    find(handle)->allgather(control_name(key) + ".allgather", rankSize, rankId, span_of(sendBuf, sendSize),
                            span_of(recvBuf, recvSize));
  });
}

int32_t smem_shm_atomic_alloc_value(smem_shm_t handle, uint32_t limit, uint32_t* value) {
  return guarded("smem_shm_atomic_alloc_value", [&] {
    uint32_t& out = required(value, "the place for the value is null");
    require(limit >= 1 && limit <= SMEM_SHM_ATOMIC_NUM_LIMIT, "the limit is 1..1024");
    out = find(handle)->store().acquire_number(limit);
  });
}

int32_t smem_shm_atomic_release_value(smem_shm_t handle, int32_t value) {
  return guarded("smem_shm_atomic_release_value", [&] {
    require(value >= 0 && value < static_cast<int32_t>(SMEM_SHM_ATOMIC_NUM_LIMIT), "the value isn't 0..1023");
    find(handle)->store().release_number(static_cast<unsigned>(value));
  });
}

int32_t smem_shm_register_exit(smem_shm_t handle, void (*exit)(int)) {
  return guarded("smem_shm_register_exit", [&] { find(handle)->on_exit(exit); });
}

void smem_shm_global_exit(smem_shm_t handle, int status) {
  (void)guarded("smem_shm_global_exit", [&] { find(handle)->store().global_exit(status); });
}

// ---- <smem_hmc.h>
void* smem_shm_ptr(smem_shm_t handle, uint32_t rank) {
  return guarded_or<void*>("smem_shm_ptr", nullptr, [&] {
    const auto memory = find(handle);
    (void)memory->address(rank);
    return memory->pool().pointer(static_cast<int>(rank), memory->part());
  });
}

int32_t smem_shm_copy(smem_shm_t handle, void* dest, const void* src, uint64_t size) {
  return guarded("smem_shm_copy", [&] {
    require(dest != nullptr && src != nullptr && size > 0, "an address is null, or the size is 0");
    find(handle)->pool().copy(dest, src, size);
  });
}

int32_t smem_shm_get_extra_context(smem_shm_t handle, uint32_t rank, void* context, uint32_t* size) {
  return guarded("smem_shm_get_extra_context", [&] {
    uint32_t& length = required(size, "the place for the size is null");
    const std::string bytes = find(handle)->context(rank);
    const uint32_t room = std::exchange(length, static_cast<uint32_t>(bytes.size()));
    require(context != nullptr && room >= bytes.size(), "the buffer is too small");
    std::memcpy(context, bytes.data(), bytes.size());
  });
}
