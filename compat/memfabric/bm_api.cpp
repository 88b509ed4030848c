// The C functions of <smem_bm.h>.
#include <chrono>
#include <cstring>
#include <thread>

#include "compat/memfabric/bm.hpp"
#include "compat/memfabric/sessions.hpp"

namespace hmc::memfabric {
namespace {

struct BmProcess {
  std::mutex mutex;  // of init, uninit and create
  std::optional<Session> session;
  std::optional<smem_bm_config_t> config;  // of the init call
  Handles<BigMemory> memories;
};
BmProcess& bm() { return per_process<BmProcess>(); }

Session& session() {
  if (!bm().session) throw Failure(SMEM_NOT_INITIALIZED, "smem_bm_init wasn't called");
  return *bm().session;
}
std::shared_ptr<BigMemory> find(smem_bm_t handle) {
  require(handle != nullptr, "the handle is null");
  {
    const std::lock_guard lock(bm().mutex);
    (void)session();
  }
  return bm().memories.find(handle);
}

/// The first release's default of autoRanking is false, the later ones' is true. With false, and no rank set, a program
/// of each gets what it expects.
bool is_ranked_by_store(const smem_bm_config_t& config) { return config.autoRanking || config.rankId == UINT16_MAX; }

void check(const smem_bm_config_t& config, std::uint32_t world) {
  require(config.unifiedAddressSpace, "unifiedAddressSpace must be true");
  require_security();
  require_security(config.hcomTlsConfig, "hcomTlsConfig");
  require_security(config.storeTlsConfig, "storeTlsConfig");
  require(is_ranked_by_store(config) || config.rankId < world, "rankId isn't below worldSize");
}

Session start(const char* url_text, std::uint32_t world, std::uint16_t device, const smem_bm_config_t& config) {
  require(world >= 1 && world <= SMEM_WORLD_SIZE_MAX, "worldSize is 1..1024");
  const Url url = parse_url(url_text);
  check(config, world);
  Session started;
  started.url = url_text;
  started.world = world;
  started.device = device;
  const auto init_timeout = checked_timeout(config.initTimeout);
  started.create_timeout = checked_timeout(config.createTimeout);
  started.control_timeout = checked_timeout(config.controlOperationTimeout);
  started.has_network = use_network(config.hcomUrl);
  if (config.startConfigStoreOnly) {
    serve(url);
    return started;
  }
  const int wanted = is_ranked_by_store(config) ? -1 : static_cast<int>(config.rankId);
  if (config.startConfigStoreServer && wanted <= 0) serve_if_free(url);
  started.store = Store::connect(url.address(), init_timeout).with_prefix("smem.bm");
  started.rank = started.store->acquire_rank(static_cast<int>(world), wanted);
  return started;
}

smem_bm_t create(std::uint32_t id, const smem_bm_create_option_t& option) {
  const std::lock_guard lock(bm().mutex);
  Session& of = session();
  if (bm().memories.any([&](const BigMemory& other) { return other.id() == id; }))
    throw Failure(SMEM_DUPLICATED_OBJECT, fmt::format("id {} exists", id));
  PoolState state;
  state.id = id;
  state.option = option;
  return bm().memories.add(std::make_shared<BigMemory>(of, std::move(state)));
}

/// A pool of `state` behind the handle, with the same rank.
std::shared_ptr<BigMemory> replace(smem_bm_t handle, const PoolState& state, bool is_member) {
  std::shared_ptr<BigMemory> memory;
  {
    const std::lock_guard lock(bm().mutex);
    memory = std::make_shared<BigMemory>(session(), state);
  }
  if (state.event_callback != nullptr) memory->on_event(handle, state.event_callback, state.event_context);
  if (is_member) memory->join();
  return memory;
}

/// The pool is replaced by one with a larger part in the same shared memory, when no other call uses it.
void extend(smem_bm_t handle, smem_bm_mem_type type, std::uint64_t bytes) {
  (void)find(handle);  // initialized
  std::shared_ptr<BigMemory> memory = bm().memories.take(handle);
  PoolState former;
  bool is_member = false;
  try {
    former = memory->state();
    const PoolState larger = memory->extended(type, bytes);
    const auto give_up = std::chrono::steady_clock::now() + memory->control_timeout();
    while (memory.use_count() > 1) {
      if (std::chrono::steady_clock::now() > give_up) throw Failure(SMEM_RESOURCE_IN_USE, "other threads use the pool");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    is_member = memory->pool().is_member();
    if (is_member) memory->leave();
    larger.host->extend(larger.option.localDRAMSize);
    memory.reset();  // its addresses are free
    bm().memories.give(handle, replace(handle, larger, is_member));
  } catch (...) {
    try {
      if (memory == nullptr) {
        memory = replace(handle, former, is_member);
      } else if (is_member) {
        memory->join();
      }
    } catch (const std::exception& error) {
      log(LogLevel::error, fmt::format("bm {}: the pool can't be restored: {}", former.id, error.what()));
    }
    bm().memories.give(handle, std::move(memory));
    throw;
  }
}

}  // namespace

std::string bm_status() {
  const std::lock_guard lock(bm().mutex);
  return bm().session ? status_of(*bm().session, "bm") : std::string();
}

void end_bm() noexcept {
  // A destructor leaves its pool, which may wait for members.
  const auto memories = bm().memories.remove_all();
  const std::lock_guard lock(bm().mutex);
  if (bm().session && bm().session->store) {
    try {
      bm().session->store->release_rank();
    } catch (const Error&) {  // the store has ended
    }
  }
  bm().session.reset();
}

}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's
using hmc::PoolCopy;
using hmc::PoolPart;

int32_t smem_bm_config_init(smem_bm_config_t* config) {
  return guarded("smem_bm_config_init", [&] {
    smem_bm_config_t& out = required(config, "the config is null");
    out = {};
    out.initTimeout = out.createTimeout = out.controlOperationTimeout = 120;
    out.startConfigStoreServer = true;
    out.unifiedAddressSpace = true;
    out.rankId = UINT16_MAX;
  });
}

int32_t smem_bm_init(const char* storeURL, uint32_t worldSize, uint16_t deviceId, const smem_bm_config_t* config) {
  return guarded("smem_bm_init", [&] {
    const smem_bm_config_t& with = required(config, "the config is null");
    const std::lock_guard lock(bm().mutex);
    if (const auto& had = bm().session) {
      const bool same = storeURL != nullptr && had->url == storeURL && had->world == worldSize &&
                        had->device == deviceId && std::memcmp(&*bm().config, &with, sizeof with) == 0;
      if (!same) throw Failure(SMEM_REPEAT_CALL, "smem_bm_init was called with other arguments before");
      return;
    }
    bm().session = start(storeURL, worldSize, deviceId, with);
    bm().config = with;
  });
}

void smem_bm_uninit(uint32_t flags) {
  (void)guarded("smem_bm_uninit", [&] { require_no_flags(flags); });
  end_bm();
}

uint32_t smem_bm_get_rank_id() {
  return guarded_or("smem_bm_get_rank_id", UINT32_MAX, [] {
    const std::lock_guard lock(bm().mutex);
    (void)session().joined();
    return static_cast<uint32_t>(session().rank);
  });
}

int32_t smem_bm_update_store_url(const char* storeURL) {
  return guarded("smem_bm_update_store_url", [&] {
    const Url url = parse_url(storeURL);
    const std::lock_guard lock(bm().mutex);
    Session& of = session();
    if (of.joined().is_connected() && of.url == storeURL) return;
    hmc::Store store = hmc::Store::connect(url.address(), of.create_timeout).with_prefix("smem.bm");
    store.acquire_rank(static_cast<int>(of.world), of.rank);
    of.store = std::move(store);
    of.url = storeURL;
  });
}

int32_t smem_bm_update_store_server(const char* ip, uint16_t port) {
  std::string url;
  const int32_t code = guarded("smem_bm_update_store_server", [&] {
    const std::string host = &required(ip, "the address is null");
    const bool needs_brackets = host.find(':') != std::string::npos && host.front() != '[';
    url = needs_brackets ? fmt::format("tcp://[{}]:{}", host, port) : fmt::format("tcp://{}:{}", host, port);
  });
  return code == SMEM_OK ? smem_bm_update_store_url(url.c_str()) : code;
}

smem_bm_t smem_bm_create(uint32_t id, uint32_t memberSize, smem_bm_data_op_type dataOpType, uint64_t localDRAMSize,
                         uint64_t localHBMSize, uint32_t flags) {
  return guarded_or<smem_bm_t>("smem_bm_create", nullptr, [&] {
    {
      const std::lock_guard lock(bm().mutex);
      require(memberSize <= session().world, "memberSize is above worldSize");
    }
    require((flags & SMEM_BM_FLAG_CREATE_WITH_SHM) == 0, "CREATE_WITH_SHM needs smem_bm_create2");
    smem_bm_create_option_t option{};
    option.maxDramSize = option.localDRAMSize = localDRAMSize;
    option.maxHbmSize = option.localHBMSize = localHBMSize;
    option.dataOpType = dataOpType;
    option.flags = flags;
    return create(id, option);
  });
}

smem_bm_t smem_bm_create2(uint32_t id, const smem_bm_create_option_t* option) {
  return guarded_or<smem_bm_t>("smem_bm_create2", nullptr,
                               [&] { return create(id, required(option, "the option is null")); });
}

void smem_bm_destroy(smem_bm_t handle) {
  (void)guarded("smem_bm_destroy", [&] { bm().memories.remove(handle)->pool().close(); });
}

int32_t smem_bm_join(smem_bm_t handle, uint32_t flags) {
  return guarded("smem_bm_join", [&] {
    require_no_flags(flags);
    find(handle)->join();
  });
}

int32_t smem_bm_join_v1(smem_bm_t handle, uint32_t flags, void** localGvaAddress) {
  return guarded("smem_bm_join", [&] {
    require_no_flags(flags);
    void*& address = required(localGvaAddress, "the place for the address is null");
    const auto memory = find(handle);
    memory->join();
    address = memory->pool().address(memory->pool().rank(), memory->main_part());
  });
}

int32_t smem_bm_leave(smem_bm_t handle, uint32_t flags) {
  return guarded("smem_bm_leave", [&] {
    require_no_flags(flags);
    find(handle)->leave();
  });
}

int32_t smem_bm_set_group_event_handler(smem_bm_t handle, smem_bm_group_event_cb cb, void* context) {
  return guarded("smem_bm_set_group_event_handler", [&] { find(handle)->on_event(handle, cb, context); });
}

int32_t smem_bm_extend_local_mem(smem_bm_t handle, smem_bm_mem_type memType, uint64_t size) {
  return guarded("smem_bm_extend_local_mem", [&] { extend(handle, memType, size); });
}

uint64_t smem_bm_get_local_mem_size_by_mem_type(smem_bm_t handle, smem_bm_mem_type memType) {
  return guarded_or("smem_bm_get_local_mem_size_by_mem_type", uint64_t{0},
                    [&] { return find(handle)->local_bytes(part_of(memType)); });
}

uint64_t smem_bm_get_local_mem_size(smem_bm_t handle) {
  return guarded_or("smem_bm_get_local_mem_size", uint64_t{0}, [&] {
    const auto memory = find(handle);
    return memory->local_bytes(memory->main_part());
  });
}

namespace {
void* address_of(BigMemory& memory, PoolPart part, uint16_t rank) {
  require(rank < memory.world(), "the rank isn't below worldSize");
  void* const address = memory.pool().address(rank, part);
  require(address != nullptr, "the pool has no parts of this memory type");
  return address;
}
}  // namespace

void* smem_bm_ptr_by_mem_type(smem_bm_t handle, smem_bm_mem_type memType, uint16_t peerRankId) {
  return guarded_or<void*>("smem_bm_ptr_by_mem_type", nullptr, [&] {
    const auto memory = find(handle);
    return address_of(*memory, part_of(memType), peerRankId);
  });
}

void* smem_bm_ptr(smem_bm_t handle, uint16_t peerRankId) {
  return guarded_or<void*>("smem_bm_ptr", nullptr, [&] {
    const auto memory = find(handle);
    return address_of(*memory, memory->main_part(), peerRankId);
  });
}

uint32_t smem_bm_get_rank_id_by_gva(smem_bm_t handle, void* gva) {
  return guarded_or("smem_bm_get_rank_id_by_gva", UINT32_MAX, [&] {
    const int rank = find(handle)->pool().rank_of(gva);
    require(rank >= 0, "the address isn't in the pool");
    return static_cast<uint32_t>(rank);
  });
}

int32_t smem_bm_gva_to_va(smem_bm_t handle, void* gva, smem_bm_mem_type vaMemType, void** va) {
  return guarded("smem_bm_gva_to_va", [&] {
    void*& out = required(va, "the place for the address is null");
    out = find(handle)->local_address(gva, vaMemType);
  });
}

int32_t smem_bm_copy(smem_bm_t handle, smem_copy_params* params, smem_bm_copy_type t, uint32_t flags) {
  return guarded("smem_bm_copy", [&] {
    const auto memory = find(handle);
    const smem_copy_params& with = required(params, "the parameters are null");
    const PoolCopy piece{with.dest, with.src, with.dataSize};
    memory->copy({&piece, 1}, t, flags, with.stream);
  });
}

int32_t smem_bm_copy_v1(smem_bm_t handle, const void* src, void* dest, uint64_t size, smem_bm_copy_type t,
                        uint32_t flags) {
  smem_copy_params params{src, dest, size, nullptr};
  return smem_bm_copy(handle, &params, t, flags);
}

int32_t smem_bm_copy_batch(smem_bm_t handle, smem_batch_copy_params* params, smem_bm_copy_type t, uint32_t flags) {
  return guarded("smem_bm_copy_batch", [&] {
    const auto memory = find(handle);
    const smem_batch_copy_params& with = required(params, "the parameters are null");
    require(with.batchSize > 0, "the batch is empty");
    require(with.sources != nullptr && with.destinations != nullptr && with.dataSizes != nullptr, "an array is null");
    std::vector<PoolCopy> pieces(with.batchSize);
    for (uint32_t i = 0; i < with.batchSize; ++i)
      pieces[i] = {with.destinations[i], with.sources[i], with.dataSizes[i]};
    memory->copy(pieces, t, flags, with.stream);
  });
}

int32_t smem_bm_copy_2d(smem_bm_t handle, const void* src, uint64_t spitch, void* dest, uint64_t dpitch, uint64_t width,
                        uint64_t height, smem_bm_copy_type t, uint32_t flags) {
  return guarded("smem_bm_copy_2d", [&] {
    require_no_flags(flags);
    find(handle)->copy_2d(dest, dpitch, src, spitch, width, height, t);
  });
}

int32_t smem_bm_wait(smem_bm_t handle) {
  return guarded("smem_bm_wait", [&] { find(handle)->wait(); });
}

int32_t smem_bm_register_user_mem(smem_bm_t handle, uint64_t addr, uint64_t size) {
  return guarded("smem_bm_register_user_mem", [&] { find(handle)->register_memory(addr, size); });
}

int32_t smem_bm_unregister_user_mem(smem_bm_t handle, uint64_t addr) {
  return guarded("smem_bm_unregister_user_mem", [&] { find(handle)->deregister_memory(addr); });
}

// ---- <smem_hmc.h>
int32_t smem_bm_path(smem_bm_t handle, smem_bm_mem_type memType, uint32_t rank, char* text, size_t size) {
  int32_t length = 0;
  const int32_t code = guarded("smem_bm_path", [&] {
    const auto memory = find(handle);
    require(rank < static_cast<uint32_t>(memory->world()), "the rank isn't below worldSize");
    const hmc::PoolPath path = memory->pool().path(static_cast<int>(rank), part_of(memType));
    const std::string all = fmt::format("{}: {}", hmc::name_of(path.way), path.why);
    length = static_cast<int32_t>(all.size());
    if (text == nullptr || size == 0) return;
    const std::size_t copied = std::min(all.size(), size - 1);
    std::memcpy(text, all.data(), copied);
    text[copied] = '\0';
  });
  return code == SMEM_OK ? length : code;
}

bool smem_bm_has_one_address_space(smem_bm_t handle) {
  return guarded_or("smem_bm_has_one_address_space", false,
                    [&] { return find(handle)->pool().has_one_address_space(); });
}

int32_t smem_bm_barrier(smem_bm_t handle, uint32_t size) {
  return guarded("smem_bm_barrier", [&] { find(handle)->barrier(size); });
}

int32_t smem_bm_get_counter(smem_bm_t handle, const char* operation, smem_counter_t* counter) {
  return guarded("smem_bm_get_counter", [&] {
    const std::string name = &required(operation, "the operation is null");
    smem_counter_t& out = required(counter, "the counter is null");
    out = {};
    for (const hmc::PoolCounter& each : find(handle)->pool().counters())
      if (each.operation == name) out = {each.calls, each.failures, each.pieces, each.bytes};
  });
}
