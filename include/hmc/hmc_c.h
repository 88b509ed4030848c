/* The C ABI of HMC, for C and for bindings of other languages. The functions have the semantics of the C++ API in
 * <hmc/hmc.hpp>: see window.hpp (ordering, completion), team.hpp (collectives), request.hpp and runtime.hpp. The
 * differences:
 *
 * - A function that can fail returns an hmc_code. hmc_last_error() returns the text of this thread's last failure.
 *   No function throws an exception.
 * - Handles are opaque. X_create creates one. X_close is collective and completes its operations. X_destroy frees the
 *   handle: it is local, never blocks, and accepts NULL. Destroy a window before its runtime.
 * - Structs start with struct_size, which the caller sets to the struct's sizeof. Later versions may append fields.
 *   Programs compiled with this version keep working.
 * - Timeouts are in nanoseconds. HMC_JOB_TIMEOUT means the runtime's deadline (HMC_TIMEOUT_S).
 *   Any other negative timeout is HMC_INVALID_ARGUMENT.
 * - Threads: one at a time per runtime, and one at a time per buffer. hmc_last_error() is per thread.
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
  HMC_ERROR = 1,          /* a system call or a library call failed; the message names it */
  HMC_UNSUPPORTED = 2,    /* not supported by this build, machine or memory type */
  HMC_INVALID_CONFIG = 3, /* arguments or settings that contradict each other */
  HMC_TIMEOUT = 4,        /* the deadline has passed; the message names the missing ranks */
  HMC_NOT_FOUND = 5,
  HMC_INVALID_ARGUMENT = 6,
  HMC_OUT_OF_RANGE = 7, /* offset + size is beyond the rank's part of the window */
  HMC_MISALIGNED = 8,   /* the word of an atomic or a signal isn't naturally aligned */
  HMC_BAD_RANK = 9,
  HMC_CLOSED = 10, /* the window, team or runtime was closed */
  HMC_OUT_OF_MEMORY = 11,
  HMC_PEER_FAILED = 12, /* a rank died */
  HMC_ABORTED = 13,     /* a rank called abort, or the launcher ended the job */
  HMC_MISMATCH = 14,    /* ranks called different collectives, or passed different counts, types or operations */
  HMC_UNAVAILABLE = 15, /* a wire that is needed, or forced by HMC_TRANSPORT, isn't available */
  HMC_REFUSED = 16,     /* authentication failed, or the protocol versions differ */
  HMC_IN_PROGRESS = 17  /* not an error: a request isn't complete */
} hmc_code;

/* Fields that don't apply are -1 or 0. Ranks are world ranks. */
typedef struct hmc_error_detail {
  size_t struct_size;
  int code;
  int rank; /* the rank that reports the error */
  int peer; /* the target, or the rank that failed */
  int sys_errno;
  int has_extent; /* offset and size are set */
  int reserved;
  uint64_t offset;
  uint64_t size;
} hmc_error_detail;

HMC_C_API const char* hmc_code_name(hmc_code code);
/* The text of this thread's last failure; "" before the first. Valid until this thread's next failure. */
HMC_C_API const char* hmc_last_error(void);
/* The details of this thread's last failure. */
HMC_C_API hmc_code hmc_last_error_detail(hmc_error_detail* detail);
/* The version of the library, such as "0.1.0". */
HMC_C_API const char* hmc_version(void);
/* Sets the process's function that ends long waits by returning a value other than 0; null: none. See
 * hmc::set_interrupt_check. */
HMC_C_API void hmc_set_interrupt_check(int (*check)(void));

/* ---- types. The numbers are those of the C++ enums, and never change. */
typedef enum hmc_memory_type {
  /* The first of NVIDIA_GPU, AMD_GPU, MOORE_GPU, CAMBRICON_MLU, ASCEND_NPU whose library finds a device, else CPU. */
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
  HMC_LOCATED_I32 = 14, /* hmc_located_i32, for HMC_MAXLOC, HMC_MINLOC and user-defined reductions */
  HMC_LOCATED_I64 = 15,
  HMC_LOCATED_F32 = 16,
  HMC_LOCATED_F64 = 17
} hmc_dtype;

/* A value and its index. */
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
  HMC_LAND = 8, /* the result of land and lor is 0 or 1, even for a single contribution */
  HMC_LOR = 9,
  HMC_MAXLOC = 10,
  HMC_MINLOC = 11
} hmc_op;

typedef enum hmc_cmp { HMC_EQ = 0, HMC_NE = 1, HMC_LT = 2, HMC_LE = 3, HMC_GT = 4, HMC_GE = 5 } hmc_cmp;

HMC_C_API size_t hmc_dtype_size(hmc_dtype type); /* in bytes; 0 for an invalid type */
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
typedef struct hmc_registration* hmc_registration_t;

typedef struct hmc_path {
  size_t struct_size;
  int direct; /* this rank can load from and store to the peer's windows */
  int reserved;
  char wire[24];
  char why[224]; /* why this wire is used, and why faster wires aren't; truncated if too long */
  /* Bandwidth and latency: measured for a peer's part in device memory (hmc_window_path), else 0. */
  double gigabytes_per_s;
  double latency_us;
} hmc_path;

typedef struct hmc_counters {
  size_t struct_size;
  uint64_t puts_direct;       /* puts by a copy into mapped memory */
  uint64_t puts_wire;         /* puts over a wire */
  uint64_t buffers_in_place;  /* collective buffers not staged: they or a peer's buffer are in a window */
  uint64_t buffers_staged;    /* collective buffers that were copied through staging memory */
  uint64_t reduced_on_device; /* reductions computed by devices */
  uint64_t buffers_read;      /* collective buffers outside windows that peers read directly */
  uint64_t direct_receives;   /* ranges that a wire received directly into a collective's output */
} hmc_counters;

/* Collective. Detects the launcher and joins its job. Without a launcher this process is rank 0 of 1. */
HMC_C_API hmc_code hmc_runtime_create(hmc_runtime_t* runtime);

/* A key-value store of the embedding program, through which ranks find each other. Rank 0 sets one key to a text of at
 * most 1,000 characters, and the others get it. If HMC_SECRET isn't set, the text contains the job's secret. A function
 * returns 0 for success. `value` holds `capacity` bytes with the terminating zero. */
typedef struct hmc_store {
  size_t struct_size;
  void* context; /* passed to the functions */
  int (*set)(void* context, const char* key, const char* value);
  int (*get)(void* context, const char* key, int64_t timeout_ns, char* value, size_t capacity); /* waits for the key */
  /* Optional. If the key's value is `expected` (empty: not set), sets it to `desired`. `value` receives the value after
   * the call. */
  int (*compare_set)(void* context, const char* key, const char* expected, const char* desired, char* value,
                     size_t capacity);
} hmc_store;
/* Collective over `size` ranks, each started in any way. The store is used only until this function returns. */
HMC_C_API hmc_code hmc_runtime_create_over_store(const hmc_store* store, int rank, int size, hmc_runtime_t* runtime);

/* Collective. Waits for all ranks, and leaves the job. If a runtime is destroyed without close, the other ranks treat
 * this rank as failed. */
HMC_C_API hmc_code hmc_runtime_close(hmc_runtime_t runtime);
HMC_C_API void hmc_runtime_destroy(hmc_runtime_t runtime);

/* These return -1 for a NULL runtime; hmc_runtime_node_of also for a bad rank. */
HMC_C_API int hmc_runtime_rank(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_size(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_node(hmc_runtime_t runtime);
HMC_C_API int hmc_runtime_node_of(hmc_runtime_t runtime, int rank);
HMC_C_API int hmc_runtime_node_count(hmc_runtime_t runtime);
/* The timeout in nanoseconds that HMC_JOB_TIMEOUT stands for. */
HMC_C_API int64_t hmc_runtime_timeout_ns(hmc_runtime_t runtime);
/* The launcher: "hmcrun", "by hand (HMC_RANK)", "PMIx", "alone", ... Valid until hmc_runtime_destroy; NULL for a NULL
 * runtime. */
HMC_C_API const char* hmc_runtime_launcher(hmc_runtime_t runtime);
/* 1 if this process was started in place of a process of the same rank that has ended (hmc_team_grow), else 0. */
HMC_C_API int hmc_runtime_is_replacement(hmc_runtime_t runtime);
/* The team of all ranks. It belongs to the runtime. */
HMC_C_API hmc_team_t hmc_runtime_world(hmc_runtime_t runtime);

/* The wire to a rank, and the reason for it. */
HMC_C_API hmc_code hmc_runtime_path(hmc_runtime_t runtime, int rank, hmc_path* path);
HMC_C_API hmc_code hmc_runtime_counters(hmc_runtime_t runtime, hmc_counters* counters);
/* Aborts the job: on every rank the current or next call returns HMC_ABORTED. The launcher ends the processes. The
 * launcher's exit status is exit_code, or 1 if exit_code is 0. */
HMC_C_API void hmc_runtime_abort(hmc_runtime_t runtime, int exit_code, const char* text);

/* ---- ConnBuffer */
/* Allocates memory, zeroed. Local. Host memory ignores device_id. HMC_UNSUPPORTED if this machine has no such memory.
 * HMC_OUT_OF_MEMORY if the machine or the cgroup has less host memory available. */
HMC_C_API hmc_code hmc_buffer_create(int device_id, size_t size, hmc_memory_type type, hmc_buffer_t* buffer);
/* Uses existing memory without a copy: see hmc::ConnBuffer::borrow. It must outlive the buffer and windows over it. */
HMC_C_API hmc_code hmc_buffer_borrow(void* address, size_t size, hmc_buffer_t* buffer);
HMC_C_API void hmc_buffer_destroy(hmc_buffer_t buffer);
HMC_C_API void* hmc_buffer_ptr(hmc_buffer_t buffer); /* the first byte; NULL for a NULL buffer */
HMC_C_API size_t hmc_buffer_size(hmc_buffer_t buffer);
/* The requested type; if that was HMC_MEMORY_DEFAULT, the actual type on this machine. The host can load from and store
 * to CPU, PINNED and MANAGED memory. */
HMC_C_API hmc_memory_type hmc_buffer_memory_type(hmc_buffer_t buffer);
HMC_C_API int hmc_buffer_device_id(hmc_buffer_t buffer);
/* Copies between the buffer, starting at byte bias, and other memory. The copy is complete at return. */
HMC_C_API hmc_code hmc_buffer_write_from_cpu(hmc_buffer_t buffer, const void* source, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_read_to_cpu(hmc_buffer_t buffer, void* destination, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_write_from_gpu(hmc_buffer_t buffer, const void* source, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_read_to_gpu(hmc_buffer_t buffer, void* destination, size_t bytes, size_t bias);
HMC_C_API hmc_code hmc_buffer_copy_within(hmc_buffer_t buffer, size_t to, size_t from, size_t bytes);

/* ---- the program's memory, registered once for many transfers: see hmc::Registration. Local, not collective */
HMC_C_API hmc_code hmc_registration_create(hmc_team_t team, void* address, size_t bytes,
                                           hmc_registration_t* registration);
HMC_C_API void hmc_registration_destroy(hmc_registration_t registration);
/* 0: no wire of this rank needs the registration. */
HMC_C_API int hmc_registration_is_used(hmc_registration_t registration);

/* ---- windows */
/* Collective over the team. Allocates this rank's part: host memory of the size `bytes`, zeroed. The size may differ by
 * rank. */
HMC_C_API hmc_code hmc_window_create(hmc_team_t team, size_t bytes, hmc_window_t* window);
/* Collective. Registers the buffer's memory as this rank's part. The buffer may be destroyed before the window. */
HMC_C_API hmc_code hmc_window_create_over_buffer(hmc_team_t team, hmc_buffer_t buffer, hmc_window_t* window);
/* Collective. Maps `bytes` bytes of a memfd from file_offset, a multiple of the page size. HMC duplicates the
 * descriptor. The caller closes its own descriptor. */
HMC_C_API hmc_code hmc_window_create_over_memfd(hmc_team_t team, int memfd, size_t bytes, uint64_t file_offset,
                                                hmc_window_t* window);
/* Collective. Completes this rank's puts, waits for all ranks, and frees the memory. */
HMC_C_API hmc_code hmc_window_close(hmc_window_t window);
/* Collective over the team, after hmc_team_shrink or hmc_team_grow: exposes the same memory to this team. The data
 * stays. A replacement calls hmc_window_create_over_buffer instead. */
HMC_C_API hmc_code hmc_window_rebind(hmc_window_t window, hmc_team_t team);
HMC_C_API void hmc_window_destroy(hmc_window_t window);
HMC_C_API int hmc_window_is_open(hmc_window_t window);

/* The size of a rank's part. rank < 0 means this rank. */
HMC_C_API hmc_code hmc_window_bytes(hmc_window_t window, int rank, size_t* bytes);
/* The wire to a rank's part. For device memory the field `wire` names the method of sharing. */
HMC_C_API hmc_code hmc_window_path(hmc_window_t window, int rank, hmc_path* path);
/* The first byte of this rank's part. */
HMC_C_API hmc_code hmc_window_data(hmc_window_t window, void** data);
/* The address of a byte of a rank's part; NULL if this process can't access it by load and store. */
HMC_C_API hmc_code hmc_window_ptr(hmc_window_t window, int rank, uint64_t offset, void** pointer);

/* Symmetric allocation: all ranks make the same calls in the same order, and get the same offset. The calls are local.
 * hmc_window_close compares the calls of all ranks, and returns HMC_MISMATCH if they differ. */
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

/* Row i of a strided transfer starts at i * local_pitch in the local buffer, and at offset + i * remote_pitch in the
 * target's part. A pitch is at least row_bytes. */
typedef struct hmc_strides {
  size_t struct_size;
  size_t rows;
  size_t row_bytes;
  size_t local_pitch;
  size_t remote_pitch;
} hmc_strides;

/* An operation in flight: plain bytes, passed and copied by value. Nothing detects that a request is dropped.
 * - All zeros is an empty request. A request becomes empty when its completion is reported.
 * - After hmc_window_close, a test or wait of the window's requests returns HMC_CLOSED.
 * - A request must not be used after hmc_window_destroy, or after hmc_team_destroy of its collective's team. */
typedef struct hmc_request_t {
  size_t struct_size;
  uint64_t opaque[5];
} hmc_request_t;

/* Copies `bytes` bytes from source to the target's part. Returns at local completion: source may be reused. hmc_flush
 * waits for remote completion. */
HMC_C_API hmc_code hmc_put(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes);
/* Copies `bytes` bytes from the target's part to destination. Returns when the bytes have arrived. */
HMC_C_API hmc_code hmc_get(hmc_window_t window, int rank, uint64_t offset, void* destination, size_t bytes);
/* Starts a put. source stays in use until the request is complete. */
HMC_C_API hmc_code hmc_put_nb(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes,
                              hmc_request_t* request);
/* Starts a get. destination stays in use until the request is complete. */
HMC_C_API hmc_code hmc_get_nb(hmc_window_t window, int rank, uint64_t offset, void* destination, size_t bytes,
                              hmc_request_t* request);
/* Strided and batched transfers return as hmc_put and hmc_get do. HMC checks a batch before its first byte moves. */
HMC_C_API hmc_code hmc_put_strided(hmc_window_t window, int rank, uint64_t offset, const void* source,
                                   const hmc_strides* strides);
HMC_C_API hmc_code hmc_get_strided(hmc_window_t window, int rank, uint64_t offset, void* destination,
                                   const hmc_strides* strides);
HMC_C_API hmc_code hmc_put_batch(hmc_window_t window, int rank, const hmc_put_item* items, size_t count);
HMC_C_API hmc_code hmc_get_batch(hmc_window_t window, int rank, const hmc_get_item* items, size_t count);

/* The user context: host memory per rank, in addition to the rank's part. A rank writes its own context; all ranks can
 * read all contexts. A barrier after hmc_window_set_context makes the bytes visible. */
#define HMC_CONTEXT_BYTES 65536
/* Collective over the window's team, once per window. */
HMC_C_API hmc_code hmc_window_open_context(hmc_window_t window, hmc_team_t team);
HMC_C_API hmc_code hmc_window_set_context(hmc_window_t window, uint64_t offset, const void* source, size_t bytes);
HMC_C_API hmc_code hmc_window_get_context(hmc_window_t window, int rank, uint64_t offset, void* destination,
                                          size_t bytes);

/* Sets *done to 1 if the operation is complete, to 0 if it is in flight. Makes progress. Doesn't wait. */
HMC_C_API hmc_code hmc_request_test(hmc_request_t* request, int* done);
/* Returns at completion. HMC_TIMEOUT at the deadline: the request stays valid, and the operation continues. */
HMC_C_API hmc_code hmc_request_wait(hmc_request_t* request, int64_t timeout_ns);
/* Cancels a transfer. At return HMC no longer accesses the buffers. A collective can't be cancelled. */
HMC_C_API hmc_code hmc_request_abandon(hmc_request_t* request);
/* Waits for all requests. If one fails with any code except HMC_TIMEOUT, the others are abandoned. */
HMC_C_API hmc_code hmc_request_wait_all(hmc_request_t* requests, size_t count, int64_t timeout_ns);
/* The value of *index after hmc_request_wait_any if all requests are empty or count is 0. */
#define HMC_NO_REQUEST ((size_t)-1)
/* Waits until one request completes, and sets *index to its index. That request becomes empty. */
HMC_C_API hmc_code hmc_request_wait_any(hmc_request_t* requests, size_t count, int64_t timeout_ns, size_t* index);

/* ---- signals: 64-bit words, 8-byte aligned */
/* Puts the bytes, then stores value at signal_offset of the same rank. A rank that sees the value sees the bytes.
 * Returns at local completion. */
HMC_C_API hmc_code hmc_put_signal(hmc_window_t window, int rank, uint64_t offset, const void* source, size_t bytes,
                                  uint64_t signal_offset, uint64_t value);
/* Waits until the word at `offset` of this rank's own part satisfies the condition: word `compare` value. *seen is set
 * to the word; seen may be NULL. */
HMC_C_API hmc_code hmc_wait_until(hmc_window_t window, uint64_t offset, hmc_cmp compare, uint64_t value,
                                  int64_t timeout_ns, uint64_t* seen);
/* Tests the condition of hmc_wait_until without waiting. Sets *holds to 1 if it is true, else to 0. */
HMC_C_API hmc_code hmc_test_until(hmc_window_t window, uint64_t offset, hmc_cmp compare, uint64_t value, int* holds);

/* ---- atomics: words of 32 and 64 bits, naturally aligned, signed or unsigned. *old receives the old value; old may be
 * NULL. Atomics without the parameter `old` return at local completion. compare_swap stores `desired` if the word
 * equals `expected`. */
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

/* Start an atomic. *old receives the old value; it must not be NULL, and stays in use until the request is complete. */
HMC_C_API hmc_code hmc_fetch_add_nb_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old,
                                       hmc_request_t* request);
HMC_C_API hmc_code hmc_swap_nb_32(hmc_window_t window, int rank, uint64_t offset, uint32_t value, uint32_t* old,
                                  hmc_request_t* request);
HMC_C_API hmc_code hmc_compare_swap_nb_32(hmc_window_t window, int rank, uint64_t offset, uint32_t expected,
                                          uint32_t desired, uint32_t* old, hmc_request_t* request);
HMC_C_API hmc_code hmc_fetch_nb_32(hmc_window_t window, int rank, uint64_t offset, uint32_t* value,
                                   hmc_request_t* request);

HMC_C_API hmc_code hmc_fetch_add_nb_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old,
                                       hmc_request_t* request);
HMC_C_API hmc_code hmc_swap_nb_64(hmc_window_t window, int rank, uint64_t offset, uint64_t value, uint64_t* old,
                                  hmc_request_t* request);
HMC_C_API hmc_code hmc_compare_swap_nb_64(hmc_window_t window, int rank, uint64_t offset, uint64_t expected,
                                          uint64_t desired, uint64_t* old, hmc_request_t* request);
HMC_C_API hmc_code hmc_fetch_nb_64(hmc_window_t window, int rank, uint64_t offset, uint64_t* value,
                                   hmc_request_t* request);

/* ---- order */
/* Orders this rank's puts and atomics, separately for each target: those before the fence become visible at the target
 * before those after it. */
HMC_C_API hmc_code hmc_fence(hmc_window_t window);
/* Waits for remote completion of this rank's earlier puts and atomics to a rank; hmc_flush_all: to all ranks. */
HMC_C_API hmc_code hmc_flush(hmc_window_t window, int rank, int64_t timeout_ns);
HMC_C_API hmc_code hmc_flush_all(hmc_window_t window, int64_t timeout_ns);

/* ---- collectives: called by every rank of the team, in the same order, with matching arguments */
/* A user-defined reduction: accumulated[i] = accumulated[i] (op) next[i] for i < count. It must be associative. All
 * ranks must pass the same function. HMC can't check that. HMC checks that all ranks pass a function, with the same
 * commutative, deterministic, count and type. */
typedef void (*hmc_reduce_function)(void* accumulated, const void* next, size_t count, hmc_dtype type, void* context);

/* The operation of a reduction. NULL, or all zeros except struct_size, means sum. */
typedef struct hmc_reduction {
  size_t struct_size;
  hmc_op op;
  int deterministic; /* if not 0, the bits of the result depend only on the contributions and the team size */
  hmc_reduce_function function; /* if not NULL, used in place of op; the same on every rank */
  void* context;
  int commutative; /* not 0 if `function` is commutative */
} hmc_reduction;
/* A predefined operation. */
static inline hmc_reduction hmc_reduction_of(hmc_op op) {
  hmc_reduction reduction = {sizeof(hmc_reduction), op, 0, NULL, NULL, 0};
  return reduction;
}

HMC_C_API int hmc_team_rank(hmc_team_t team);                 /* -1 for a NULL team */
HMC_C_API int hmc_team_size(hmc_team_t team);                 /* -1 for a NULL team */
HMC_C_API int hmc_team_world_rank(hmc_team_t team, int rank); /* -1 for a NULL team or a bad rank */
/* One team per colour. Its ranks are ordered by key, then by rank. A rank with colour < 0 is in no new team. All
 * functions that create teams:
 * - The call is collective over the parent.
 * - *result is NULL on a rank that isn't a member of the new team.
 * - Destroy a team before the runtime. hmc_team_destroy ignores the world, which belongs to the runtime. */
HMC_C_API hmc_code hmc_team_split(hmc_team_t team, int colour, int key, hmc_team_t* result);
/* A team of these ranks in this order. Every rank of the parent passes the same list. */
HMC_C_API hmc_code hmc_team_subset(hmc_team_t team, const int* ranks, size_t count, hmc_team_t* result);
HMC_C_API hmc_code hmc_team_duplicate(hmc_team_t team, hmc_team_t* result);
/* After the end of a rank: collective over the remaining ranks of the world. `world` becomes the team of these ranks;
 * their new numbers are in the old order. HMC_UNAVAILABLE if the process that ran the store or this node's agent has
 * ended: see Team::shrink. */
HMC_C_API hmc_code hmc_team_shrink(hmc_team_t world);
/* Waits until each rank that has ended is replaced. `world` has its original ranks again: see Team::grow.
 * HMC_UNAVAILABLE, at once: the launcher doesn't start a rank again. */
HMC_C_API hmc_code hmc_team_grow(hmc_team_t world, int64_t timeout_ns);
/* The ranks on this rank's node. */
HMC_C_API hmc_code hmc_team_node(hmc_team_t team, hmc_team_t* result);
/* The first rank of each node. */
HMC_C_API hmc_code hmc_team_leaders(hmc_team_t team, hmc_team_t* result);
/* Collective: completes operations in flight and frees the team's memory. */
HMC_C_API hmc_code hmc_team_close(hmc_team_t team);
HMC_C_API void hmc_team_destroy(hmc_team_t team);

/* ---- two-sided messages: see team.hpp (matching, completion, errors). Tags are 0 or greater. */
#define HMC_ANY_SOURCE (-1)
#define HMC_ANY_TAG (-1)
/* A message that was received or probed. The caller sets struct_size. */
typedef struct hmc_message_status {
  size_t struct_size;
  int source; /* the sender's rank in the team */
  int tag;
  size_t bytes;
} hmc_message_status;
/* Returns when data may be reused: up to 15.8 KiB without the receiver, above that when the bytes are copied. */
HMC_C_API hmc_code hmc_send(hmc_team_t team, const void* data, size_t bytes, int destination, int tag);
/* Receives a message of up to `capacity` bytes. HMC_MISMATCH: it is longer; it is dropped. status may be NULL. */
HMC_C_API hmc_code hmc_recv(hmc_team_t team, void* data, size_t capacity, int source, int tag,
                            hmc_message_status* status);
/* data stays in use until the request is complete. */
HMC_C_API hmc_code hmc_isend(hmc_team_t team, const void* data, size_t bytes, int destination, int tag,
                             hmc_request_t* request);
/* data and *status (may be NULL) stay in use until the request is complete. */
HMC_C_API hmc_code hmc_irecv(hmc_team_t team, void* data, size_t capacity, int source, int tag,
                             hmc_message_status* status, hmc_request_t* request);
/* A send and a receive at the same time. status may be NULL. */
HMC_C_API hmc_code hmc_sendrecv(hmc_team_t team, const void* out, size_t bytes, int destination, int send_tag, void* in,
                                size_t capacity, int source, int recv_tag, hmc_message_status* status);
/* Waits for a message that hmc_recv with these arguments would take. It isn't received. status may be NULL. */
HMC_C_API hmc_code hmc_probe(hmc_team_t team, int source, int tag, hmc_message_status* status);
/* Without waiting: sets *found to 1 or 0. status may be NULL. */
HMC_C_API hmc_code hmc_iprobe(hmc_team_t team, int source, int tag, int* found, hmc_message_status* status);

/* Returns when all ranks have entered, and this rank's earlier puts and atomics are complete at their targets. */
HMC_C_API hmc_code hmc_barrier(hmc_team_t team);
/* Copies `bytes` bytes from `data` of the root to `data` of the other ranks. */
HMC_C_API hmc_code hmc_broadcast(hmc_team_t team, void* data, size_t bytes, int root);
/* Each rank sends `bytes` bytes to all ranks. `out` receives team size * bytes. */
HMC_C_API hmc_code hmc_allgather(hmc_team_t team, const void* in, void* out, size_t bytes);
/* Combines `count` elements of all ranks into `out` of every rank. */
HMC_C_API hmc_code hmc_allreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                 const hmc_reduction* how);
/* Queued on a device stream (the vendor's handle); see team.hpp. */
HMC_C_API hmc_code hmc_allreduce_on(hmc_team_t team, void* stream, const void* in, void* out, size_t count,
                                    hmc_dtype type, hmc_op op);
HMC_C_API hmc_code hmc_barrier_on(hmc_team_t team, void* stream, const void* buffer);

/* Each rank sends `bytes` bytes. The root's `out` receives team size * bytes. */
HMC_C_API hmc_code hmc_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root);
/* The v-forms (gatherv, scatterv, allgatherv, alltoallv, reduce_scatterv) take one count per rank. Every rank passes
 * the same counts, except in alltoallv, where each rank passes its own. The unit of counts and displacements is an
 * element of `element` bytes (reduce_scatterv: of the type). If displacements is NULL, the blocks are contiguous. */
HMC_C_API hmc_code hmc_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                               const size_t* displacements, int root, size_t element);
/* Each rank receives `bytes` bytes. The root's `in` holds team size * bytes. */
HMC_C_API hmc_code hmc_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root);
HMC_C_API hmc_code hmc_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                const size_t* displacements, int root, size_t element);
HMC_C_API hmc_code hmc_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                  const size_t* displacements, size_t element);
/* Each rank sends `bytes` bytes to each rank. `in` and `out` hold team size * bytes. */
HMC_C_API hmc_code hmc_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes);
HMC_C_API hmc_code hmc_alltoallv(hmc_team_t team, const void* in, const size_t* counts, const size_t* displacements,
                                 void* out, const size_t* receive_counts, const size_t* receive_displacements,
                                 size_t element);
/* Combines `count` elements of all ranks into the root's `out`. */
HMC_C_API hmc_code hmc_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                              const hmc_reduction* how, int root);
/* Combines `in` of all ranks, team size * count elements. `out` receives this rank's `count` elements of the result. */
HMC_C_API hmc_code hmc_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                      const hmc_reduction* how);
HMC_C_API hmc_code hmc_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts, hmc_dtype type,
                                       const hmc_reduction* how);
/* Inclusive prefix: combines the elements of ranks 0 to this rank. */
HMC_C_API hmc_code hmc_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                            const hmc_reduction* how);
/* Exclusive prefix: combines the elements of the ranks before this one. Doesn't write rank 0's `out`. */
HMC_C_API hmc_code hmc_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                              const hmc_reduction* how);

/* Non-blocking collectives: the request is complete when the collective is complete on this rank.
 * - Buffers stay in use until completion.
 * - The runtime's progress thread executes collectives while the rank computes. HMC_PROGRESS=caller: there is no
 *   progress thread, and collectives progress only while the rank waits or tests.
 * - Only the caller's thread calls a user-defined reduction, in its waits and tests.
 * - hmc_ialltoallv: `largest` is the largest count that any two ranks exchange, the same on every rank. If it is too
 *   small or differs, every rank gets an error that names the right value: HMC_INVALID_ARGUMENT, or HMC_MISMATCH if it
 *   differs. */
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

/* Persistent collectives: hmc_plan_X checks the arguments and builds the schedule. Every run uses the same buffers.
 * Counts and displacements may be reused when the call returns. Every rank creates and starts the plans of a team in
 * the same order; another order is HMC_MISMATCH, also of equal plans. A plan has at most one run in flight. Destroy a
 * plan after its last run and before its team. */
typedef struct hmc_plan* hmc_plan_t;
HMC_C_API hmc_code hmc_plan_barrier(hmc_team_t team, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_broadcast(hmc_team_t team, void* data, size_t bytes, int root, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_gather(hmc_team_t team, const void* in, void* out, size_t bytes, int root,
                                   hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_gatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                    const size_t* displacements, int root, size_t element, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_scatter(hmc_team_t team, const void* in, void* out, size_t bytes, int root,
                                    hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                     const size_t* displacements, int root, size_t element, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_allgather(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_allgatherv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                       const size_t* displacements, size_t element, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_alltoall(hmc_team_t team, const void* in, void* out, size_t bytes, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_alltoallv(hmc_team_t team, const void* in, const size_t* counts,
                                      const size_t* displacements, void* out, const size_t* receive_counts,
                                      const size_t* receive_displacements, size_t largest, size_t element,
                                      hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_reduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                   const hmc_reduction* how, int root, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_allreduce(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                      const hmc_reduction* how, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_reduce_scatter(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                           const hmc_reduction* how, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_reduce_scatterv(hmc_team_t team, const void* in, void* out, const size_t* counts,
                                            hmc_dtype type, const hmc_reduction* how, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_scan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                 const hmc_reduction* how, hmc_plan_t* plan);
HMC_C_API hmc_code hmc_plan_exscan(hmc_team_t team, const void* in, void* out, size_t count, hmc_dtype type,
                                   const hmc_reduction* how, hmc_plan_t* plan);
/* Starts a run. HMC_INVALID_ARGUMENT if the previous run isn't complete. */
HMC_C_API hmc_code hmc_plan_start(hmc_plan_t plan);
/* As hmc_request_test and hmc_request_wait, for the last run. If no run is in flight, it counts as complete. */
HMC_C_API hmc_code hmc_plan_test(hmc_plan_t plan, int* done);
HMC_C_API hmc_code hmc_plan_wait(hmc_plan_t plan, int64_t timeout_ns);
/* Frees the plan. Local, never blocks, accepts NULL. */
HMC_C_API void hmc_plan_destroy(hmc_plan_t plan);

#ifdef __cplusplus
}
#endif

#endif
