// The C functions of <smem_trans.h>.
#include "compat/memfabric/sessions.hpp"
#include "compat/memfabric/trans.hpp"

namespace hmc::memfabric {
namespace {

constexpr std::uint32_t known_operations =
    SMEMB_DATA_OP_SDMA | SMEMB_DATA_OP_HOST_RDMA | SMEMB_DATA_OP_HOST_TCP | SMEMB_DATA_OP_DEVICE_RDMA |
    SMEMB_DATA_OP_HOST_URMA | SMEMB_DATA_OP_HOST_SHM | SMEMB_DATA_OP_DEVICE_URMA | SMEMB_DATA_OP_DEVICE_UBOE;

struct TransProcess {
  std::mutex mutex;  // of init, uninit, create
  bool initialized = false;
  Handles<TransferEngine> engines;
};
TransProcess& trans() { return per_process<TransProcess>(); }

void require_init() {
  if (!trans().initialized) throw Failure(SMEM_NOT_INITIALIZED, "smem_trans_init wasn't called");
}
std::shared_ptr<TransferEngine> find(smem_trans_t handle) {
  require(handle != nullptr, "the handle is null");
  {
    const std::lock_guard lock(trans().mutex);
    require_init();
  }
  return trans().engines.find(handle);
}

std::chrono::seconds check(const smem_trans_config_t& config) {
  require(config.role > SMEM_TRANS_NONE && config.role < SMEM_TRANS_BUTT, "the role is SENDER, RECEIVER or BOTH");
  require_operations(config.dataOpType, known_operations);
  require_security();
  require_security(config.hcomTlsConfig, "hcomTlsConfig");
  return checked_timeout(config.initTimeout);
}

template <typename Address> std::uint64_t number(Address* address) { return reinterpret_cast<std::uint64_t>(address); }

/// The pieces of a batch; `Local` and `Remote` are pointers to const or not.
template <typename Local, typename Remote>
std::vector<TransferPiece> pieces_of(Local* const* locals, Remote* const* remotes, const std::size_t* sizes,
                                     std::uint32_t count) {
  require(locals != nullptr && remotes != nullptr && sizes != nullptr, "an array is null");
  std::vector<TransferPiece> pieces(count);
  for (std::uint32_t i = 0; i < count; ++i) pieces[i] = {number(locals[i]), number(remotes[i]), sizes[i]};
  return pieces;
}

std::int32_t transfer(const char* function, smem_trans_t handle, TransferKind kind, const char* peer,
                      std::uint32_t flags, void* stream, auto&& make_pieces) {
  return guarded(function, [&] {
    require((flags & ~COPY_EXTEND_FLAG) == 0, "a flag is unknown");
    const auto engine = find(handle);
    const Url name = parse_place(&required(peer, "the unique id is null"), 1);
    engine->transfer_after(stream, kind, name.address(), make_pieces());
  });
}

}  // namespace

void end_trans() noexcept {
  const auto engines = trans().engines.remove_all();
  const std::lock_guard lock(trans().mutex);
  trans().initialized = false;
}

}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's

int32_t smem_trans_config_init(smem_trans_config_t* config) {
  return guarded("smem_trans_config_init", [&] {
    smem_trans_config_t& out = required(config, "the config is null");
    out = {};
    out.initTimeout = 120;
    out.dataOpType = SMEMB_DATA_OP_SDMA;
  });
}

int32_t smem_trans_init(const smem_trans_config_t* config) {
  return guarded("smem_trans_init", [&] {
    check(required(config, "the config is null"));
    const std::lock_guard lock(trans().mutex);
    trans().initialized = true;
  });
}

void smem_trans_uninit(uint32_t flags) {
  (void)guarded("smem_trans_uninit", [&] { require_no_flags(flags); });
  end_trans();
}

smem_trans_t smem_trans_create(const char* storeUrl, const char* uniqueId, const smem_trans_config_t* config) {
  return guarded_or<smem_trans_t>("smem_trans_create", nullptr, [&] {
    const smem_trans_config_t& with = required(config, "the config is null");
    const std::lock_guard lock(trans().mutex);
    require_init();
    const auto timeout = check(with);
    const Url url = parse_url(storeUrl);
    const Url name = parse_place(&required(uniqueId, "the unique id is null"), 1);
    require_network(use_network(with.nic), with.dataOpType);
    if (with.startConfigServer) serve_if_free(url);
    const hmc::Store store = hmc::Store::connect(url.address(), timeout).with_prefix("smem.trans");
    return trans().engines.add(std::make_shared<TransferEngine>(store, name, timeout, with.deviceId));
  });
}

void smem_trans_destroy(smem_trans_t handle, uint32_t flags) {
  (void)guarded("smem_trans_destroy", [&] {
    require_no_flags(flags);
    (void)trans().engines.remove(handle);
  });
}

int32_t smem_trans_set_peer_down_callback(smem_trans_t handle, smem_trans_peer_down_callback_t callback,
                                          void* userData) {
  return guarded("smem_trans_set_peer_down_callback", [&] { find(handle)->on_peer_down(callback, userData); });
}

void* smem_trans_malloc(smem_trans_t handle, size_t capacity) {
  return guarded_or<void*>("smem_trans_malloc", nullptr, [&] { return find(handle)->memory().allocate(capacity); });
}

int32_t smem_trans_free(smem_trans_t handle, void* address) {
  return guarded("smem_trans_free", [&] { find(handle)->memory().free(static_cast<std::byte*>(address)); });
}

int32_t smem_trans_register_mem(smem_trans_t handle, void* address, size_t capacity, uint32_t flags) {
  return guarded("smem_trans_register_mem", [&] {
    require_no_flags(flags);
    find(handle)->memory().add(static_cast<std::byte*>(address), capacity);
  });
}

int32_t smem_trans_batch_register_mem(smem_trans_t handle, void* addresses[], size_t capacities[], uint32_t count,
                                      uint32_t flags) {
  return guarded("smem_trans_batch_register_mem", [&] {
    require_no_flags(flags);
    require(addresses != nullptr && capacities != nullptr && count > 0, "an array is null, or the batch is empty");
    std::vector<std::pair<std::byte*, std::uint64_t>> ranges(count);
    for (uint32_t i = 0; i < count; ++i) ranges[i] = {static_cast<std::byte*>(addresses[i]), capacities[i]};
    find(handle)->memory().add(ranges);
  });
}

int32_t smem_trans_deregister_mem(smem_trans_t handle, void* address) {
  return guarded("smem_trans_deregister_mem", [&] { find(handle)->memory().remove(static_cast<std::byte*>(address)); });
}

int32_t smem_trans_write(smem_trans_t handle, const void* localAddr, const char* remoteUniqueId, void* remoteAddr,
                         size_t dataSize, uint32_t flags) {
  return smem_trans_write_submit(handle, localAddr, remoteUniqueId, remoteAddr, dataSize, nullptr, flags);
}

int32_t smem_trans_read(smem_trans_t handle, void* localAddr, const char* remoteUniqueId, const void* remoteAddr,
                        size_t dataSize, uint32_t flags) {
  return smem_trans_read_submit(handle, localAddr, remoteUniqueId, remoteAddr, dataSize, nullptr, flags);
}

int32_t smem_trans_batch_write(smem_trans_t handle, const void* localAddrs[], const char* remoteUniqueId,
                               void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize, uint32_t flags) {
  return smem_trans_batch_write_submit(handle, localAddrs, remoteUniqueId, remoteAddrs, dataSizes, batchSize, nullptr,
                                       flags);
}

int32_t smem_trans_batch_read(smem_trans_t handle, void* localAddrs[], const char* remoteUniqueId,
                              const void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize, uint32_t flags) {
  return smem_trans_batch_read_submit(handle, localAddrs, remoteUniqueId, remoteAddrs, dataSizes, batchSize, nullptr,
                                      flags);
}

int32_t smem_trans_write_submit(smem_trans_t handle, const void* localAddr, const char* remoteUniqueId,
                                void* remoteAddr, size_t dataSize, void* stream, uint32_t flags) {
  return transfer("smem_trans_write", handle, TransferKind::write, remoteUniqueId, flags, stream,
                  [&] { return pieces_of(&localAddr, &remoteAddr, &dataSize, 1); });
}

int32_t smem_trans_read_submit(smem_trans_t handle, void* localAddr, const char* remoteUniqueId, const void* remoteAddr,
                               size_t dataSize, void* stream, uint32_t flags) {
  return transfer("smem_trans_read", handle, TransferKind::read, remoteUniqueId, flags, stream,
                  [&] { return pieces_of(&localAddr, &remoteAddr, &dataSize, 1); });
}

int32_t smem_trans_batch_write_submit(smem_trans_t handle, const void* localAddrs[], const char* remoteUniqueId,
                                      void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize, void* stream,
                                      uint32_t flags) {
  return transfer("smem_trans_batch_write", handle, TransferKind::write, remoteUniqueId, flags, stream,
                  [&] { return pieces_of(localAddrs, remoteAddrs, dataSizes, batchSize); });
}

int32_t smem_trans_batch_read_submit(smem_trans_t handle, void* localAddrs[], const char* remoteUniqueId,
                                     const void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize, void* stream,
                                     uint32_t flags) {
  return transfer("smem_trans_batch_read", handle, TransferKind::read, remoteUniqueId, flags, stream,
                  [&] { return pieces_of(localAddrs, remoteAddrs, dataSizes, batchSize); });
}
