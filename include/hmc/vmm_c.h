/* The C form of <hmc/vmm.hpp>, which states the rules: memory of a device that any processes share by a handle. The
 * rules of <hmc/hmc_c.h> apply. All functions are local: they need no runtime and no job.
 */
#ifndef HMC_VMM_C_H
#define HMC_VMM_C_H

#include <hmc/hmc_c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hmc_physical_memory* hmc_physical_memory_t;
typedef struct hmc_mapping* hmc_mapping_t;

typedef enum hmc_access { HMC_ACCESS_READ = 0, HMC_ACCESS_READ_WRITE = 1 } hmc_access;

/* Plain bytes that may go through any channel, also to other nodes of the same fabric. */
typedef struct hmc_fabric_handle {
  unsigned char bytes[64];
} hmc_fabric_handle;

/* ---- physical memory: a reference to memory that was created here or imported. Threads: any number at a time. */

/* Allocates at least `bytes` bytes; the size is rounded up to the device's granularity. The memory isn't zeroed.
 * HMC_UNSUPPORTED if this machine or memory type has no such memory; hmc_last_error() has the reason. */
HMC_C_API hmc_code hmc_physical_memory_create(size_t bytes, int device_id, hmc_memory_type type,
                                              hmc_physical_memory_t* memory);
/* `fd` is from hmc_physical_memory_export_fd() or the vendor's own call; the caller keeps it and may close it at once.
 * `bytes`: as passed to create, or the exporter's size. `device_id`: the device of this process that accesses it. */
HMC_C_API hmc_code hmc_physical_memory_import_fd(int fd, size_t bytes, int device_id, hmc_memory_type type,
                                                 hmc_physical_memory_t* memory);
HMC_C_API hmc_code hmc_physical_memory_import_fabric(const hmc_fabric_handle* handle, size_t bytes, int device_id,
                                                     hmc_memory_type type, hmc_physical_memory_t* memory);
/* A new descriptor, close-on-exec, which the caller closes. */
HMC_C_API hmc_code hmc_physical_memory_export_fd(hmc_physical_memory_t memory, int* fd);
HMC_C_API hmc_code hmc_physical_memory_export_fabric(hmc_physical_memory_t memory, hmc_fabric_handle* handle);
/* Pass the memory over a connected Unix socket. */
HMC_C_API hmc_code hmc_physical_memory_send(hmc_physical_memory_t memory, int socket, int64_t timeout_ns);
HMC_C_API hmc_code hmc_physical_memory_receive(int socket, int device_id, int64_t timeout_ns,
                                               hmc_physical_memory_t* memory);
HMC_C_API size_t hmc_physical_memory_size(hmc_physical_memory_t memory);   /* 0 for NULL */
HMC_C_API int hmc_physical_memory_device_id(hmc_physical_memory_t memory); /* -1 for NULL */
HMC_C_API hmc_memory_type hmc_physical_memory_type(hmc_physical_memory_t memory);
/* Ends this reference. Mappings stay. Accepts NULL. */
HMC_C_API void hmc_physical_memory_destroy(hmc_physical_memory_t memory);

/* ---- mappings. Threads: one at a time per mapping. */

/* Maps the whole memory at a new address. Each call makes another mapping. */
HMC_C_API hmc_code hmc_physical_memory_map(hmc_physical_memory_t memory, hmc_access access, hmc_mapping_t* mapping);
HMC_C_API void* hmc_mapping_data(hmc_mapping_t mapping);  /* a device address; NULL for NULL */
HMC_C_API size_t hmc_mapping_size(hmc_mapping_t mapping); /* 0 for NULL */
/* Copy between the mapping and other memory of this process, on the host or on a device. Complete at return. */
HMC_C_API hmc_code hmc_mapping_write(hmc_mapping_t mapping, size_t offset, const void* source, size_t bytes);
HMC_C_API hmc_code hmc_mapping_read(hmc_mapping_t mapping, size_t offset, void* destination, size_t bytes);
/* A buffer over the mapped memory, for windows. The buffer and windows over it share the mapping. */
HMC_C_API hmc_code hmc_mapping_buffer(hmc_mapping_t mapping, hmc_buffer_t* buffer);
/* Unmaps the memory, unless a buffer or window shares the mapping. Accepts NULL. */
HMC_C_API void hmc_mapping_destroy(hmc_mapping_t mapping);

#ifdef __cplusplus
}
#endif
#endif
