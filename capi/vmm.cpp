// The C ABI of <hmc/vmm.hpp>.
#include <cstring>
#include <memory>

#include <hmc/vmm_c.h>
#include <hmc/vmm.hpp>

#include "capi/c_api.hpp"

struct hmc_physical_memory {
  static constexpr const char* name = "the physical memory";
  hmc::PhysicalMemory object;
};

struct hmc_mapping {
  static constexpr const char* name = "the mapping";
  hmc::Mapping object;
};

namespace hmc::c_api {
namespace {

static_assert(HMC_ACCESS_READ == static_cast<int>(Access::read) &&
              HMC_ACCESS_READ_WRITE == static_cast<int>(Access::read_write) &&
              HMC_ACCESS_READ_WRITE + 1 == access_count);
static_assert(sizeof(hmc_fabric_handle::bytes) == sizeof(FabricHandle::bytes));

/// Stores a new handle of what `make` returns.
template <typename Handle, typename Make> hmc_code create(const char* operation, Handle** handle, Make&& make) {
  return guarded(operation, [&] {
    Handle*& out = required(handle, operation, "the place for the result");
    out = new Handle{make()};
  });
}

MemoryType type_of(const hmc_memory_type& type, const char* operation) {
  return enum_of<MemoryType>(type, memory_type_count, operation, "memory type");
}

}  // namespace
}  // namespace hmc::c_api

using namespace hmc::c_api;  // NOLINT: the functions below are C's

hmc_code hmc_physical_memory_create(std::size_t bytes, int device_id, hmc_memory_type type,
                                    hmc_physical_memory_t* memory) {
  constexpr const char* operation = "PhysicalMemory::create";
  return create(operation, memory,
                [&] { return hmc::PhysicalMemory::create(bytes, device_id, type_of(type, operation)); });
}

hmc_code hmc_physical_memory_import_fd(int fd, std::size_t bytes, int device_id, hmc_memory_type type,
                                       hmc_physical_memory_t* memory) {
  constexpr const char* operation = "PhysicalMemory::import_fd";
  return create(operation, memory,
                [&] { return hmc::PhysicalMemory::import_fd(fd, bytes, device_id, type_of(type, operation)); });
}

hmc_code hmc_physical_memory_import_fabric(const hmc_fabric_handle* handle, std::size_t bytes, int device_id,
                                           hmc_memory_type type, hmc_physical_memory_t* memory) {
  constexpr const char* operation = "PhysicalMemory::import_fabric";
  return create(operation, memory, [&] {
    hmc::FabricHandle native;
    std::memcpy(native.bytes.data(), required(handle, operation, "the handle").bytes, sizeof native.bytes);
    return hmc::PhysicalMemory::import_fabric(native, bytes, device_id, type_of(type, operation));
  });
}

hmc_code hmc_physical_memory_export_fd(hmc_physical_memory_t memory, int* fd) {
  return query(memory, "PhysicalMemory::export_fd", fd,
               [](const hmc::PhysicalMemory& object) { return object.export_fd(); });
}

hmc_code hmc_physical_memory_export_fabric(hmc_physical_memory_t memory, hmc_fabric_handle* handle) {
  return with(memory, "PhysicalMemory::export_fabric", [&](const hmc::PhysicalMemory& object) {
    hmc_fabric_handle& out = required(handle, "PhysicalMemory::export_fabric", "the place for the result");
    const hmc::FabricHandle native = object.export_fabric();
    std::memcpy(out.bytes, native.bytes.data(), sizeof out.bytes);
  });
}

hmc_code hmc_physical_memory_send(hmc_physical_memory_t memory, int socket, std::int64_t timeout_ns) {
  return with(memory, "PhysicalMemory::send",
              [&](const hmc::PhysicalMemory& object) { object.send(socket, timeout_of(timeout_ns)); });
}

hmc_code hmc_physical_memory_receive(int socket, int device_id, std::int64_t timeout_ns,
                                     hmc_physical_memory_t* memory) {
  return create("PhysicalMemory::receive", memory,
                [&] { return hmc::PhysicalMemory::receive(socket, device_id, timeout_of(timeout_ns)); });
}

std::size_t hmc_physical_memory_size(hmc_physical_memory_t memory) {
  return memory == nullptr ? 0 : memory->object.size();
}
int hmc_physical_memory_device_id(hmc_physical_memory_t memory) {
  return memory == nullptr ? -1 : memory->object.device();
}
hmc_memory_type hmc_physical_memory_type(hmc_physical_memory_t memory) {
  return memory == nullptr ? HMC_MEMORY_DEFAULT : static_cast<hmc_memory_type>(memory->object.type());
}
void hmc_physical_memory_destroy(hmc_physical_memory_t memory) { delete memory; }

hmc_code hmc_physical_memory_map(hmc_physical_memory_t memory, hmc_access access, hmc_mapping_t* mapping) {
  constexpr const char* operation = "PhysicalMemory::map";
  return create(operation, mapping, [&] {
    return object_of(memory, operation).map(enum_of<hmc::Access>(access, hmc::access_count, operation, "access"));
  });
}

void* hmc_mapping_data(hmc_mapping_t mapping) { return mapping == nullptr ? nullptr : mapping->object.data(); }
std::size_t hmc_mapping_size(hmc_mapping_t mapping) { return mapping == nullptr ? 0 : mapping->object.size(); }

hmc_code hmc_mapping_write(hmc_mapping_t mapping, std::size_t offset, const void* source, std::size_t bytes) {
  return with(mapping, "Mapping::write", [&](hmc::Mapping& object) { object.write(offset, source, bytes); });
}

hmc_code hmc_mapping_read(hmc_mapping_t mapping, std::size_t offset, void* destination, std::size_t bytes) {
  return with(mapping, "Mapping::read", [&](const hmc::Mapping& object) { object.read(offset, destination, bytes); });
}

hmc_code hmc_mapping_buffer(hmc_mapping_t mapping, hmc_buffer_t* buffer) {
  return create("Mapping::conn_buffer", buffer,
                [&] { return object_of(mapping, "Mapping::conn_buffer").conn_buffer(); });
}

void hmc_mapping_destroy(hmc_mapping_t mapping) { delete mapping; }
