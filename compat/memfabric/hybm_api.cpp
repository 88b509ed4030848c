// The C functions of hybm (<hybm.h>) over hybm::Entity. The caller exchanges what they export.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "compat/memfabric/control_store.hpp"
#include "compat/memfabric/hybm.hpp"

namespace hmc::memfabric {
namespace {

using hybm::check;
using hybm::decode;
using hybm::Entity;
using hybm::Exchange;

constexpr std::uint32_t most_exchanged = 1U << 20;

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

struct HybmProcess {
  std::mutex mutex;  // of the count and of creation
  int inits = 0;
  Handles<Entity> entities;
};
HybmProcess& hybm_process() { return per_process<HybmProcess>(); }

std::shared_ptr<Entity> find(hybm_entity_t e) {
  check(e != nullptr, "the entity is null");
  return hybm_process().entities.find(e);
}

}  // namespace
}  // namespace hmc::memfabric

using namespace hmc::memfabric;  // NOLINT: the functions below are C's
using hmc::PoolCopy;

int32_t hybm_init(uint16_t /*deviceId*/, uint64_t /*flags*/) {
  return hybm_guarded("hybm_init", [] {
    const std::lock_guard lock(hybm_process().mutex);
    ++hybm_process().inits;
  });
}

void hybm_uninit() {
  const std::lock_guard lock(hybm_process().mutex);
  if (hybm_process().inits > 0 && --hybm_process().inits == 0) (void)hybm_process().entities.remove_all();
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
    const std::lock_guard lock(hybm_process().mutex);
    if (hybm_process().inits == 0) throw Failure(BM_NOT_INITIALIZED, "hybm_init wasn't called");
    check(!hybm_process().entities.any([&](const Entity& other) { return other.id() == id; }), "the id exists");
    return hybm_process().entities.add(std::make_shared<Entity>(id, required(options, "the options are null")));
  });
}

void hybm_destroy_entity(hybm_entity_t e, uint32_t /*flags*/) {
  (void)hybm_guarded("hybm_destroy_entity", [&] { (void)hybm_process().entities.remove(e); });
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
    check(hybm_process().entities.any([&](const Entity& each) { return each.is_accessible(gva, vaMemType); }),
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
