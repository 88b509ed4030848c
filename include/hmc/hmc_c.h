/* HMC's C ABI: what other languages bind to. The same core as the C++ API in <hmc/hmc.hpp>, whose
 * comments say what each call promises (ordering, ownership, threads); here is what differs.
 *
 * - Every function that can fail returns an hmc_code; hmc_last_error() has the text of this thread's
 *   last failure. No exception leaves this interface.
 * - Handles are opaque. X_create makes one, X_close ends its work (collective), X_destroy frees it
 *   (local, never blocks, takes NULL). A window must be destroyed before its runtime.
 * - Structs start with struct_size, which the caller sets to sizeof: a later version may append fields
 *   and still serve a program that was compiled with this one.
 * - Timeouts are nanoseconds; HMC_JOB_TIMEOUT means the runtime's own (HMC_TIMEOUT_S).
 */
#ifndef HMC_HMC_C_H
#define HMC_HMC_C_H

#include <stddef.h>
#include <stdint.h>

#define HMC_C_API __attribute__((visibility("default")))
#define HMC_JOB_TIMEOUT ((int64_t)-1)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors. The numbers are those of hmc::Code. */
typedef enum hmc_code {
  HMC_SUCCESS = 0,
  HMC_ERROR = 1,
  HMC_UNSUPPORTED = 2,
  HMC_INVALID_CONFIG = 3,
  HMC_TIMEOUT = 4,
  HMC_NOT_FOUND = 5,
  HMC_INVALID_ARGUMENT = 6,
  HMC_OUT_OF_RANGE = 7,
  HMC_MISALIGNED = 8,
  HMC_BAD_RANK = 9,
  HMC_CLOSED = 10,
  HMC_OUT_OF_MEMORY = 11,
  HMC_PEER_FAILED = 12,
  HMC_ABORTED = 13,
  HMC_MISMATCH = 14,
  HMC_UNAVAILABLE = 15,
  HMC_REFUSED = 16,
  HMC_IN_PROGRESS = 17
} hmc_code;

/* Fields that don't apply are -1 or 0. */
typedef struct hmc_error_detail {
  size_t struct_size;
  int code;
  int rank; /* who reports */
  int peer; /* the other side, or the rank that failed */
  int sys_errno;
  int has_extent; /* offset and size mean something */
  int reserved;
  uint64_t offset;
  uint64_t size;
} hmc_error_detail;

HMC_C_API const char* hmc_code_name(hmc_code code);
/* Of this thread; "" before the first failure; valid until this thread's next failure. */
HMC_C_API const char* hmc_last_error(void);
HMC_C_API hmc_code hmc_last_error_detail(hmc_error_detail* detail);
HMC_C_API const char* hmc_version(void);

/* ---- the vocabulary. The numbers are those of the C++ enums. */
typedef enum hmc_memory_type {
  /* the first of NVIDIA_GPU, AMD_GPU, MOORE_GPU, CAMBRICON_MLU, ASCEND_NPU whose library finds a device, else CPU */
  HMC_MEMORY_DEFAULT = 0,
  HMC_MEMORY_CPU = 1,
  HMC_MEMORY_NVIDIA_GPU = 2,
  HMC_MEMORY_AMD_GPU = 3,
  HMC_MEMORY_CAMBRICON_MLU = 4,
  HMC_MEMORY_MOORE_GPU = 5,
  HMC_MEMORY_ASCEND_NPU = 6,
  HMC_MEMORY_OPENCL = 7,
  HMC_MEMORY_NVIDIA_PINNED = 8,
  HMC_MEMORY_NVIDIA_MANAGED = 9,
  HMC_MEMORY_AMD_PINNED = 10,
  HMC_MEMORY_AMD_MANAGED = 11
} hmc_memory_type;

typedef enum hmc_dtype {
  HMC_I8 = 0,
  HMC_U8 = 1,
  HMC_I16 = 2,
  HMC_U16 = 3,
  HMC_I32 = 4,
  HMC_U32 = 5,
  HMC_I64 = 6,
  HMC_U64 = 7,
  HMC_F16 = 8,
  HMC_BF16 = 9,
  HMC_F32 = 10,
  HMC_F64 = 11,
  HMC_E4M3 = 12,
  HMC_E5M2 = 13,
  HMC_LOCATED_I32 = 14, /* hmc_located_i32, for HMC_MAXLOC, HMC_MINLOC and users' functions */
  HMC_LOCATED_I64 = 15,
  HMC_LOCATED_F32 = 16,
  HMC_LOCATED_F64 = 17
} hmc_dtype;

/* A value, and where it stands. */
typedef struct hmc_located_i32 {
  int32_t value;
  int32_t index;
} hmc_located_i32;
typedef struct hmc_located_i64 {
  int64_t value;
  int64_t index;
} hmc_located_i64;
typedef struct hmc_located_f32 {
  float value;
  int32_t index;
} hmc_located_f32;
typedef struct hmc_located_f64 {
  double value;
  int64_t index;
} hmc_located_f64;

typedef enum hmc_op {
  HMC_SUM = 0,
  HMC_PROD = 1,
  HMC_MIN = 2,
  HMC_MAX = 3,
  HMC_AVG = 4,
  HMC_BAND = 5,
  HMC_BOR = 6,
  HMC_BXOR = 7,
  HMC_LAND = 8, /* the result of land and lor is 0 or 1, also of a single contribution */
  HMC_LOR = 9,
  HMC_MAXLOC = 10,
  HMC_MINLOC = 11
} hmc_op;

typedef enum hmc_cmp { HMC_EQ = 0, HMC_NE = 1, HMC_LT = 2, HMC_LE = 3, HMC_GT = 4, HMC_GE = 5 } hmc_cmp;

HMC_C_API size_t hmc_dtype_size(hmc_dtype type); /* 0 for a number that is no type */
HMC_C_API const char* hmc_dtype_name(hmc_dtype type);
HMC_C_API const char* hmc_op_name(hmc_op op);
HMC_C_API uint16_t hmc_f16_from_float(float value);
HMC_C_API float hmc_f16_to_float(uint16_t bits);
HMC_C_API uint16_t hmc_bf16_from_float(float value);
HMC_C_API float hmc_bf16_to_float(uint16_t bits);
HMC_C_API uint8_t hmc_e4m3_from_float(float value);
HMC_C_API float hmc_e4m3_to_float(uint8_t bits);
HMC_C_API uint8_t hmc_e5m2_from_float(float value);
HMC_C_API float hmc_e5m2_to_float(uint8_t bits);

/* ---- the runtime */
typedef struct hmc_runtime* hmc_runtime_t;
typedef struct hmc_team* hmc_team_t;
typedef struct hmc_buffer* hmc_buffer_t;
typedef struct hmc_window* hmc_window_t;

typedef struct hmc_path {
  size_t struct_size;
  int direct; /* load and store reach the peer's windows */
  int reserved;
  char wire[24];
  char why[224]; /* cut where it doesn't fit */
  /* Of hmc_window_path, where the peer's part is a device's: as measured ("staged": by the first call). Else 0. */
  double gigabytes_per_s;
  double latency_us;
} hmc_path;

typedef struct hmc_counters {
  size_t struct_size;
  uint64_t puts_direct;
  uint64_t puts_wire;
  uint64_t buffers_in_place;
  uint64_t buffers_staged;
  uint64_t reduced_on_device;
  uint64_t buffers_read; /* by peers, out of this rank's memory */
  uint64_t runs_landed;  /* that a wire brought straight to a collective's output */
} hmc_counters;

HMC_C_API hmc_code hmc_runtime_create(hmc_runtime_t* runtime);
HMC_C_API hmc_code hmc_runtime_close(hmc_runtime_t runtime);
HMC_C_API void hmc_runtime_destroy(hmc_runtime_t runtime);

/* -1 without a runtime; hmc_runtime_node_of: -1 for a bad rank too. */
HMC_C_API int hmc_runtime_rank(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_size(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_node(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_node_of(hmc_runtime_t runtime, int rank);
HMC_C_API int hmc_runtime_node_count(hmc_runtime_t runtime);
HMC_C_API int64_t hmc_runtime_timeout_ns(hmc_runtime_t runtime);
/* Valid until hmc_runtime_destroy; NULL without a runtime. */
HMC_C_API const char* hmc_runtime_launcher(hmc_runtime_t runtime);
HMC_C_API hmc_team_t hmc_runtime_world(hmc_runtime_t runtime);

HMC_C_API hmc_code hmc_runtime_path(hmc_runtime_t runtime, int rank, hmc_path* path);
HMC_C_API hmc_code hmc_runtime_counters(hmc_runtime_t runtime, hmc_counters* counters);
/* Ends the whole job with this exit code. */
HMC_C_API void hmc_runtime_abort(hmc_runtime_t runtime, int exit_code, const char* text);

/* ---- ConnBuffer */
HMC_C_API hmc_code hmc_buffer_create(int device_id, size_t size, hmc_memory_type type, hmc_buffer_t* buffer);
HMC_C_API void hmc_buffer_destroy(hmc_buffer_t buffer);
HMC_C_API void* hmc_buffer_ptr(hmc_buffer_t buffer); /* NULL without a buffer */
HMC_C_API size_t hmc_buffer_size(hmc_buffer_t buffer);
/* The type that the buffer was made with; for HMC_MEMORY_DEFAULT, the type that it stands for on this machine. The host
 * can load from and store to CPU, PINNED and MANAGED memory. */
HMC_C_API hmc_memory_type hmc_buffer_memory_type(hmc_buffer_t buffer);
HMC_C_API int hmc_buffer_device_id(hmc_buffer_t buffer);
HMC_C_API hmc_code hmc_buffer_write_from_cpu(hmc_buffer_t buffer, const void* source, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_read_to_cpu(hmc_buffer_t buffer, void* destination, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_write_from_gpu(hmc_buffer_t buffer, const void* source, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_read_to_gpu(hmc_buffer_t buffer, void* destination, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_copy_within(hmc_buffer_t buffer, size_t to, size_t from, size_t bytes);

/* ---- windows */
HMC_C_API hmc_code hmc_window_create(hmc_team_t team, size_t bytes, hmc_window_t* window);
/* The buffer may be destroyed before the window. */
HMC_C_API hmc_code hmc_window_create_over_buffer(hmc_team_t team, hmc_buffer_t buffer, hmc_window_t* window);
HMC_C_API hmc_code hmc_window_create_over_memfd(hmc_team_t team, int memfd, size_t bytes, uint64_t file_offset,
                                                hmc_window_t* window);
HMC_C_API hmc_code hmc_window_close(hmc_window_t window);
HMC_C_API void hmc_window_destroy(hmc_window_t window);
HMC_C_API int hmc_window_is_open(hmc_window_t window);

/* rank < 0: this rank's part */
HMC_C_API hmc_code hmc_window_bytes(hmc_window_t window, int rank, size_t* bytes);
/* Which way bytes take to a rank's part; for a device's memory `wire` names the kind of sharing. */
HMC_C_API hmc_code hmc_window_path(hmc_window_t window, int rank, hmc_path* path);
HMC_C_API hmc_code hmc_window_data(hmc_window_t window, void** data);
/* *pointer is NULL where load and store can't reach */
HMC_C_API hmc_code hmc_window_ptr(hmc_window_t window, int rank, uint64_t offset, void** pointer);

/* The same offset on every rank that makes the same calls in the same order; hmc_window_close compares them, and gives
 * HMC_MISMATCH if they differ. */
HMC_C_API hmc_code hmc_window_alloc(hmc_window_t window, size_t bytes, size_t align, uint64_t* offset);
HMC_C_API hmc_code hmc_window_free(hmc_window_t window, uint64_t offset);

/* ---- transfers */
typedef struct hmc_put_item {
  size_t struct_size;
  uint64_t offset;
  const void* source;
  size_t bytes;
} hmc_put_item;

typedef struct hmc_get_item {
  size_t struct_size;
  uint64_t offset;
  void* destination;
  size_t bytes;
} hmc_get_item;

/* `rows` rows of `row_bytes`; row i starts at i * pitch on each side. */
typedef struct hmc_strides {
  size_t struct_size;
  size_t rows;
  size_t row_bytes;
  size_t local_pitch;
  size_t remote_pitch;
} hmc_strides;

/* A transfer under way: plain bytes, passed and copied by value; all zeros is an empty one. One that was
 * reported as over is empty. After hmc_window_close it gives HMC_CLOSED; after hmc_window_destroy, or the
 * hmc_team_destroy of the team whose collective it is, it must not be used. */
typedef struct hmc_request_t {
  size_t struct_size;
  uint64_t opaque[5];
} hmc_request_t;

HMC_C_API hmc_code hmc_put(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes);
HMC_C_API hmc_code hmc_get(hmc_window_t window, int rank, uint64_t offset, void* destination, size_t bytes);
HMC_C_API hmc_code hmc_put_nb(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes,
                              hmc_request_t* request);
HMC_C_API hmc_code hmc_get_nb(hmc_window_t window, int rank, uint64_t offset, void* destination, size_t bytes,
                              hmc_request_t* request);
HMC_C_API hmc_code hmc_put_strided(hmc_window_t window, int rank, uint64_t offset, const void* source,
                                   const hmc_strides* strides);
HMC_C_API hmc_code hmc_get_strided(hmc_window_t window, int rank, uint64_t offset, void* destination,
                                   const hmc_strides* strides);
HMC_C_API hmc_code hmc_put_batch(hmc_window_t window, int rank, const hmc_put_item* items, size_t count);
HMC_C_API hmc_code hmc_get_batch(hmc_window_t window, int rank, const hmc_get_item* items, size_t count);

/* The user context: HMC_CONTEXT_BYTES per rank beside its part. Its rank sets it, everybody reads it. Collective over
 * the window's team; once. */
#define HMC_CONTEXT_BYTES 65536
HMC_C_API hmc_code hmc_window_open_context(hmc_window_t window, hmc_team_t team);
HMC_C_API hmc_code hmc_window_set_context(hmc_window_t window, uint64_t offset, const void* source, size_t bytes);
HMC_C_API hmc_code hmc_window_get_context(hmc_window_t window, int rank, uint64_t offset, void* destination,
                                          size_t bytes);

HMC_C_API hmc_code hmc_request_test(hmc_request_t* request, int* done);
/* HMC_TIMEOUT at the deadline, and the request stays valid. */
HMC_C_API hmc_code hmc_request_wait(hmc_request_t* request, int64_t timeout_ns);
/* Gives the transfer up: its buffers are the caller's again. */
HMC_C_API hmc_code hmc_request_abandon(hmc_request_t* request);
HMC_C_API hmc_code hmc_request_wait_all(hmc_request_t* requests, size_t count, int64_t timeout_ns);
/* The index of one that is done, each one once; HMC_NO_REQUEST if all are empty, or if count is 0. */
#define HMC_NO_REQUEST ((size_t)-1)
HMC_C_API hmc_code hmc_request_wait_any(hmc_request_t* requests, size_t count, int64_t timeout_ns, size_t* index);

/* ---- signals: 64-bit words, 8-byte aligned */
HMC_C_API hmc_code hmc_put_signal(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes,
                                  uint64_t signal_offset, uint64_t value);
/* seen may be NULL */
HMC_C_API hmc_code hmc_wait_until(hmc_window_t window, uint64_t offset, hmc_cmp compare, uint64_t value,
                                  int64_t timeout_ns, uint64_t* seen);
HMC_C_API hmc_code hmc_test_until(hmc_window_t window, uint64_t offset, hmc_cmp compare, uint64_t value, int* holds);

/* ---- atomics on words of 32 and 64 bits, naturally aligned, signed or not. *old may be NULL. */
HMC_C_API hmc_code hmc_fetch_add_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old);
HMC_C_API hmc_code hmc_fetch_and_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old);
HMC_C_API hmc_code hmc_fetch_or_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old);
HMC_C_API hmc_code hmc_fetch_xor_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old);
HMC_C_API hmc_code hmc_swap_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old);
HMC_C_API hmc_code hmc_compare_swap_32(hmc_window_t window, int rank, uint64_t offset, uint32_t expected,
                                       uint32_t desired, uint32_t* old);
HMC_C_API hmc_code hmc_fetch_32(hmc_window_t window, int rank, uint64_t offset, uint32_t* value);
HMC_C_API hmc_code hmc_add_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value);
HMC_C_API hmc_code hmc_set_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value);
HMC_C_API hmc_code hmc_and_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value);
HMC_C_API hmc_code hmc_or_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value);
HMC_C_API hmc_code hmc_xor_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value);

HMC_C_API hmc_code hmc_fetch_add_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old);
HMC_C_API hmc_code hmc_fetch_and_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old);
HMC_C_API hmc_code hmc_fetch_or_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old);
HMC_C_API hmc_code hmc_fetch_xor_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old);
HMC_C_API hmc_code hmc_swap_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old);
HMC_C_API hmc_code hmc_compare_swap_64(hmc_window_t window, int rank, uint64_t offset, uint64_t expected,
                                       uint64_t desired, uint64_t* old);
HMC_C_API hmc_code hmc_fetch_64(hmc_window_t window, int rank, uint64_t offset, uint64_t* value);
HMC_C_API hmc_code hmc_add_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value);
HMC_C_API hmc_code hmc_set_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value);
HMC_C_API hmc_code hmc_and_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value);
HMC_C_API hmc_code hmc_or_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value);
HMC_C_API hmc_code hmc_xor_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value);

/* ---- order */
HMC_C_API hmc_code hmc_fence(hmc_window_t window);
HMC_C_API hmc_code hmc_flush(hmc_window_t window, int rank, int64_t timeout_ns);
HMC_C_API hmc_code hmc_flush_all(hmc_window_t window, int64_t timeout_ns);

/* ---- collectives: called by every rank of the team, in the same order, with matching arguments */
/* The same function on every rank, which nobody checks: an address says nothing in another process. What ranks compare
 * is that all give one, that all say alike whether it commutes and whether the result is to be deterministic, the count
 * and the element type. */
typedef void (*hmc_reduce_function)(void* accumulated, const void* next, size_t count, hmc_dtype type, void* context);

HMC_C_API int hmc_team_rank(hmc_team_t team); /* -1 without a team */
HMC_C_API int hmc_team_size(hmc_team_t team);
HMC_C_API int hmc_team_world_rank(hmc_team_t team, int rank); /* -1 for a bad rank too */
/* Teams of a team's ranks: collective over it. *result is NULL on a rank that isn't in the new one. Destroy them before
 * the runtime; the world is the runtime's, and hmc_team_destroy leaves it alone. */
HMC_C_API hmc_code hmc_team_split(hmc_team_t team, int colour, int key, hmc_team_t* result); /* colour < 0: in none */
HMC_C_API hmc_code hmc_team_subset(hmc_team_t team, const int* ranks, size_t count, hmc_team_t* result);
HMC_C_API hmc_code hmc_team_duplicate(hmc_team_t team, hmc_team_t* result);
HMC_C_API hmc_code hmc_team_node(hmc_team_t team, hmc_team_t* result);
HMC_C_API hmc_code hmc_team_leaders(hmc_team_t team, hmc_team_t* result);
HMC_C_API hmc_code hmc_team_close(hmc_team_t team);
HMC_C_API void hmc_team_destroy(hmc_team_t team);

HMC_C_API hmc_code hmc_barrier(hmc_team_t team);
HMC_C_API hmc_code hmc_broadcast(hmc_team_t team, void* data, size_t bytes, int root);
HMC_C_API hmc_code hmc_allgather(hmc_team_t team, const void* in, void* out, size_t bytes);
HMC_C_API hmc_code hmc_allreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type, hmc_op op);
HMC_C_API hmc_code hmc_allreduce_user(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                      hmc_reduce_function function, void* context);
/* In the order of a device's stream (the vendor's own handle); see team.hpp. */
HMC_C_API hmc_code hmc_allreduce_on(hmc_team_t team, void* stream, const void* in, void* out, size_t count,
                                    hmc_dtype type, hmc_op op);
HMC_C_API hmc_code hmc_barrier_on(hmc_team_t team, void* stream, const void* buffer);

/* How a reduction combines. All zeros (but struct_size) is a sum. */
typedef struct hmc_reduction {
  size_t struct_size;
  hmc_op op;
  int deterministic;            /* the bits depend on the contributions and the team's size alone */
  hmc_reduce_function function; /* instead of op, unless NULL; the same on every rank */
  void* context;
  int commutative; /* of the function */
} hmc_reduction;

/* v-forms: a count per rank, the same on every rank (alltoallv: each rank's own), in elements of `element` bytes;
 * `displacements` may be NULL: one block after the other. */
HMC_C_API hmc_code hmc_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root);
HMC_C_API hmc_code hmc_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                               const size_t* displacements, int root, size_t element);
HMC_C_API hmc_code hmc_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root);
HMC_C_API hmc_code hmc_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                const size_t* displacements, int root, size_t element);
HMC_C_API hmc_code hmc_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                  const size_t* displacements, size_t element);
HMC_C_API hmc_code hmc_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes);
HMC_C_API hmc_code hmc_alltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements,
                                 void* out, const size_t* receive_counts, const size_t* receive_displacements,
                                 size_t element);
HMC_C_API hmc_code hmc_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                              const hmc_reduction* how, int root);
HMC_C_API hmc_code hmc_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                      const hmc_reduction* how);
HMC_C_API hmc_code hmc_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                                       const hmc_reduction* how);
HMC_C_API hmc_code hmc_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                            const hmc_reduction* how);
HMC_C_API hmc_code hmc_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                              const hmc_reduction* how);

/* Non-blocking: the request is over when this rank's part is. Buffers stay in use until then. It goes on while the rank
 * computes, by a thread of the runtime's (HMC_PROGRESS=caller: in waits and tests only); a user's function is called by
 * the caller's thread alone, in its waits and tests. ialltoallv: `largest` is the largest count that any two ranks
 * exchange. */
HMC_C_API hmc_code hmc_ibarrier(hmc_team_t team, hmc_request_t* request);
HMC_C_API hmc_code hmc_ibroadcast(hmc_team_t team, void* data, size_t bytes, int root, hmc_request_t* request);
HMC_C_API hmc_code hmc_iallgather(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request);
HMC_C_API hmc_code hmc_iallreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                  const hmc_reduction* how, hmc_request_t* request);
HMC_C_API hmc_code hmc_igather(hmc_team_t team, const void* in, void* out, size_t bytes, int root,
                               hmc_request_t* request);
HMC_C_API hmc_code hmc_igatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                const size_t* displacements, int root, size_t element, hmc_request_t* request);
HMC_C_API hmc_code hmc_iscatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root,
                                hmc_request_t* request);
HMC_C_API hmc_code hmc_iscatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                 const size_t* displacements, int root, size_t element, hmc_request_t* request);
HMC_C_API hmc_code hmc_iallgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                   const size_t* displacements, size_t element, hmc_request_t* request);
HMC_C_API hmc_code hmc_ialltoall(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_request_t* request);
HMC_C_API hmc_code hmc_ialltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements,
                                  void* out, const size_t* receive_counts, const size_t* receive_displacements,
                                  size_t largest, size_t element, hmc_request_t* request);
HMC_C_API hmc_code hmc_ireduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                               const hmc_reduction* how, int root, hmc_request_t* request);
HMC_C_API hmc_code hmc_ireduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                       const hmc_reduction* how, hmc_request_t* request);
HMC_C_API hmc_code hmc_ireduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                        hmc_dtype type, const hmc_reduction* how, hmc_request_t* request);
HMC_C_API hmc_code hmc_iscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                             const hmc_reduction* how, hmc_request_t* request);
HMC_C_API hmc_code hmc_iexscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                               const hmc_reduction* how, hmc_request_t* request);

#ifdef __cplusplus
}
#endif

#endif
