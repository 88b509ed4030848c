// The C ABI: ConnBuffer.
#include <memory>

#include "capi/c_api.hpp"

using namespace hmc::c_api;  // NOLINT: the functions below are C's

namespace {

// Throws Error with a message unless `status` is SUCCESS. The values of status_t equal the first values of Code.
void check(hmc::status_t status, const char* operation) {
  if (status == hmc::status_t::SUCCESS) return;
  throw hmc::Error(static_cast<hmc::Code>(status), operation,
                   status == hmc::status_t::UNSUPPORT ? "this machine has no such memory"
                                                      : "the range exceeds the buffer, or a pointer is null");
}

hmc::ConnBuffer& buffer_of(hmc_buffer_t buffer, const char* operation) {
  return required(buffer, operation, "the buffer").buffer;
}

}  // namespace

hmc_code hmc_buffer_create(int device_id, std::size_t size, hmc_memory_type type, hmc_buffer_t* buffer) {
  return guarded("ConnBuffer", [&] {
    hmc_buffer_t& out = required(buffer, "ConnBuffer", "the place for the result");
    const auto memory = enum_of<hmc::MemoryType>(type, hmc::memory_type_count, "ConnBuffer", "memory type");
    out = new hmc_buffer{hmc::ConnBuffer(device_id, size, memory)};
  });
}

void hmc_buffer_destroy(hmc_buffer_t buffer) { delete buffer; }

void* hmc_buffer_ptr(hmc_buffer_t buffer) { return buffer == nullptr ? nullptr : buffer->buffer.ptr; }
std::size_t hmc_buffer_size(hmc_buffer_t buffer) { return buffer == nullptr ? 0 : buffer->buffer.buffer_size; }
hmc_memory_type hmc_buffer_memory_type(hmc_buffer_t buffer) {
  return buffer == nullptr ? HMC_MEMORY_DEFAULT : static_cast<hmc_memory_type>(buffer->buffer.memory_type());
}
int hmc_buffer_device_id(hmc_buffer_t buffer) { return buffer == nullptr ? -1 : buffer->buffer.device_id(); }

hmc_code hmc_buffer_write_from_cpu(hmc_buffer_t buffer, const void* source, std::size_t bytes, std::size_t bias) {
  constexpr const char* operation = "writeFromCpu";
  return guarded(operation, [&] { check(buffer_of(buffer, operation).writeFromCpu(source, bytes, bias), operation); });
}

hmc_code hmc_buffer_read_to_cpu(hmc_buffer_t buffer, void* destination, std::size_t bytes, std::size_t bias) {
  constexpr const char* operation = "readToCpu";
  return guarded(operation,
                 [&] { check(buffer_of(buffer, operation).readToCpu(destination, bytes, bias), operation); });
}

hmc_code hmc_buffer_write_from_gpu(hmc_buffer_t buffer, const void* source, std::size_t bytes, std::size_t bias) {
  constexpr const char* operation = "writeFromGpu";
  return guarded(operation, [&] { check(buffer_of(buffer, operation).writeFromGpu(source, bytes, bias), operation); });
}

hmc_code hmc_buffer_read_to_gpu(hmc_buffer_t buffer, void* destination, std::size_t bytes, std::size_t bias) {
  constexpr const char* operation = "readToGpu";
  return guarded(operation,
                 [&] { check(buffer_of(buffer, operation).readToGpu(destination, bytes, bias), operation); });
}

hmc_code hmc_buffer_copy_within(hmc_buffer_t buffer, std::size_t to, std::size_t from, std::size_t bytes) {
  constexpr const char* operation = "copyWithin";
  return guarded(operation, [&] { check(buffer_of(buffer, operation).copyWithin(to, from, bytes), operation); });
}
