#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <hmc/vmm_c.h>

#include "tests/capi/check.h"

void test_buffer(void) {
  hmc_buffer_t buffer = NULL;
  hmc_window_t window = NULL;
  unsigned char bytes[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
  void* data;
  hmc_path path = {sizeof path, 0, 0, "", "", -1, -1};

  CHECK(hmc_buffer_create(0, 4096, (hmc_memory_type)(HMC_MEMORY_AMD_MANAGED + 1), &buffer) == HMC_INVALID_ARGUMENT &&
        buffer == NULL);
  OK(hmc_buffer_create(0, 4096, HMC_MEMORY_CPU, &buffer));
  CHECK(hmc_buffer_ptr(buffer) != NULL && hmc_buffer_size(buffer) == 4096);
  CHECK(hmc_buffer_memory_type(buffer) == HMC_MEMORY_CPU && hmc_buffer_device_id(buffer) == 0);

  OK(hmc_buffer_write_from_cpu(buffer, bytes, 6, 4090));
  OK(hmc_buffer_copy_within(buffer, 1, 4090, 6));
  OK(hmc_buffer_read_to_cpu(buffer, back, 6, 1));
  CHECK(memcmp(bytes, back, 6) == 0);
  CHECK(hmc_buffer_write_from_cpu(buffer, bytes, 6, 4091) == HMC_ERROR);
  CHECK(strstr(hmc_last_error(), "writeFromCpu") != NULL);
  CHECK(hmc_buffer_read_to_cpu(NULL, back, 6, 0) == HMC_INVALID_ARGUMENT);

  /* The window holds its own reference to the memory. */
  OK(hmc_window_create_over_buffer(world, buffer, &window));
  OK(hmc_window_data(window, &data));
  CHECK(data == hmc_buffer_ptr(buffer));
  OK(hmc_window_path(window, rank, &path));
  CHECK(path.wire[0] != '\0' && path.direct == 1 && path.gigabytes_per_s == 0);
  hmc_buffer_destroy(buffer);
  CHECK(memcmp((char*)data + 4090, bytes, 6) == 0);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}

/* A window over the program's memory. */
static void check_borrowed_buffer(void) {
  uint64_t words[8] = {0};
  const uint64_t word = 40 + (uint64_t)rank;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  hmc_buffer_t buffer = NULL;
  hmc_window_t window = NULL;
  CHECK(hmc_buffer_borrow((char*)words + 1, 8, &buffer) == HMC_INVALID_ARGUMENT && buffer == NULL);
  CHECK(hmc_buffer_borrow(words, sizeof words, NULL) == HMC_INVALID_ARGUMENT);
  OK(hmc_buffer_borrow(words, sizeof words, &buffer));
  CHECK(hmc_buffer_ptr(buffer) == words && hmc_buffer_size(buffer) == sizeof words);
  CHECK(hmc_buffer_memory_type(buffer) == HMC_MEMORY_CPU);
  OK(hmc_window_create_over_buffer(world, buffer, &window));
  hmc_buffer_destroy(buffer);
  OK(hmc_put(window, next, 24, &word, sizeof word));
  OK(hmc_barrier(world));
  CHECK(words[3] == 40 + (uint64_t)previous);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}

/* Only with a driver named by HMC_CUDA_LIBRARY (ctest uses the fake one): ranks of a node map each other's parts,
 * and the paths are measured. */
static void check_path_to_a_device(void) {
  const size_t bytes = 1 << 20;
  hmc_buffer_t buffer = NULL;
  hmc_window_t window = NULL;
  hmc_path path = {sizeof path, 0, 0, "", "", -1, -1};
  int peer;
  if (getenv("HMC_CUDA_LIBRARY") == NULL) return;
  OK(hmc_buffer_create(0, bytes, HMC_MEMORY_DEFAULT, &buffer)); /* device memory */
  CHECK(hmc_buffer_memory_type(buffer) == HMC_MEMORY_NVIDIA_GPU);
  OK(hmc_window_create_over_buffer(world, buffer, &window));
  for (peer = 0; peer < size; ++peer) {
    OK(hmc_window_path(window, peer, &path));
    CHECK(path.struct_size == sizeof path && path.direct == 0);
    CHECK(strcmp(path.wire, peer == rank ? "self" : "vmm fd") == 0);
    CHECK((path.gigabytes_per_s > 0) == (peer != rank) && (path.latency_us > 0) == (peer != rank));
  }
  CHECK(hmc_window_path(window, size, &path) != HMC_SUCCESS);
  CHECK(hmc_window_path(NULL, 0, &path) == HMC_INVALID_ARGUMENT);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
  hmc_buffer_destroy(buffer);
}

static void check_window_over_memfd(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int memfd = memfd_create("capi", MFD_CLOEXEC);
  hmc_window_t window = NULL;
  char text[] = "written through the window", back[sizeof text];
  CHECK(memfd >= 0 && ftruncate(memfd, (off_t)(3 * page)) == 0);
  OK(hmc_window_create_over_memfd(world, memfd, 2 * page, page, &window));
  OK(hmc_put((window), rank, 100, text, sizeof text));
  OK(hmc_flush(window, rank, HMC_JOB_TIMEOUT));
  CHECK(pread(memfd, back, sizeof back, (off_t)page + 100) == (ssize_t)sizeof back);
  CHECK(memcmp(text, back, sizeof text) == 0);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
  CHECK(close(memfd) == 0);
}

/* Needs no job; a window over a mapping does. */
static void check_physical_memory(void) {
  const hmc_memory_type type = HMC_MEMORY_NVIDIA_GPU;
  hmc_physical_memory_t memory = NULL, imported = NULL, received = NULL;
  hmc_mapping_t mapping = NULL, reader = NULL;
  hmc_buffer_t buffer = NULL;
  hmc_window_t window = NULL;
  hmc_fabric_handle handle;
  unsigned char sent[100], got[100] = {0};
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int fd = -1, sockets[2];
  CHECK(hmc_physical_memory_create(100, 0, HMC_MEMORY_CPU, &memory) == HMC_UNSUPPORTED && memory == NULL);
  CHECK(strstr(hmc_last_error(), "host memory") != NULL);
  CHECK(hmc_physical_memory_create(100, 0, (hmc_memory_type)99, &memory) == HMC_INVALID_ARGUMENT);
  if (getenv("HMC_CUDA_LIBRARY") == NULL) return;
  OK(hmc_physical_memory_create(100, 0, type, &memory));
  CHECK(hmc_physical_memory_size(memory) == 2 << 20 && hmc_physical_memory_size(NULL) == 0);
  CHECK(hmc_physical_memory_device_id(memory) == 0 && hmc_physical_memory_device_id(NULL) == -1);
  CHECK(hmc_physical_memory_type(memory) == type && hmc_physical_memory_type(NULL) == HMC_MEMORY_DEFAULT);
  OK(hmc_physical_memory_map(memory, HMC_ACCESS_READ_WRITE, &mapping));
  CHECK(hmc_mapping_data(mapping) != NULL && hmc_mapping_size(mapping) == 2 << 20);
  CHECK(hmc_mapping_data(NULL) == NULL && hmc_mapping_size(NULL) == 0);
  memset(sent, 40 + rank, sizeof sent);
  OK(hmc_mapping_write(mapping, 1000, sent, sizeof sent));

  OK(hmc_physical_memory_export_fd(memory, &fd));
  CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK(hmc_physical_memory_import_fd(fd, 4 << 20, 0, type, &imported) == HMC_ERROR && imported == NULL);
  OK(hmc_physical_memory_import_fd(fd, 100, 0, type, &imported));
  CHECK(close(fd) == 0);
  CHECK(hmc_physical_memory_import_fd(fd, 100, 0, type, &received) == HMC_INVALID_ARGUMENT && received == NULL);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  CHECK(hmc_physical_memory_receive(sockets[1], 0, 0, &received) == HMC_TIMEOUT && received == NULL);
  OK(hmc_physical_memory_send(imported, sockets[0], HMC_JOB_TIMEOUT));
  OK(hmc_physical_memory_receive(sockets[1], 0, HMC_JOB_TIMEOUT, &received));
  CHECK(close(sockets[0]) == 0 && close(sockets[1]) == 0);
  hmc_physical_memory_destroy(imported);
  CHECK(hmc_physical_memory_map(received, (hmc_access)7, &reader) == HMC_INVALID_ARGUMENT && reader == NULL);
  OK(hmc_physical_memory_map(received, HMC_ACCESS_READ, &reader));
  hmc_physical_memory_destroy(received);
  OK(hmc_mapping_read(reader, 1000, got, sizeof got));
  CHECK(memcmp(sent, got, sizeof got) == 0);
  CHECK(hmc_mapping_write(reader, 0, sent, 1) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_mapping_read(reader, 2 << 20, got, 1) == HMC_OUT_OF_RANGE);
  CHECK(hmc_mapping_buffer(reader, &buffer) == HMC_INVALID_ARGUMENT && buffer == NULL);
  CHECK(hmc_physical_memory_export_fabric(memory, &handle) == HMC_UNSUPPORTED); /* without FAKE_FABRIC */
  CHECK(hmc_physical_memory_import_fabric(&handle, 100, 0, type, &imported) == HMC_UNSUPPORTED);
  CHECK(hmc_physical_memory_export_fd(NULL, &fd) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_physical_memory_send(NULL, 0, 0) == HMC_INVALID_ARGUMENT);

  OK(hmc_mapping_buffer(mapping, &buffer));
  hmc_mapping_destroy(mapping);
  hmc_physical_memory_destroy(memory);
  OK(hmc_window_create_over_buffer(world, buffer, &window));
  hmc_buffer_destroy(buffer);
  OK(hmc_put(window, next, 2000, sent, sizeof sent));
  OK(hmc_barrier(world));
  OK(hmc_mapping_read(reader, 2000, got, sizeof got));
  CHECK(got[0] == 40 + previous && got[99] == 40 + previous);
  OK(hmc_barrier(world));
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
  hmc_mapping_destroy(reader);
  hmc_mapping_destroy(NULL);
  hmc_physical_memory_destroy(NULL);
}

void test_window(void) {
  hmc_window_t window = NULL;
  size_t bytes = 0;
  uint64_t first, second;
  void *data, *pointer;
  int peer;

  /* Parts may differ by rank. */
  OK(hmc_window_create(world, 4096 * (size_t)(rank + 1), &window));
  CHECK(hmc_window_is_open(window));
  OK(hmc_window_data(window, &data));
  OK(hmc_window_bytes(window, -1, &bytes));
  CHECK(data != NULL && bytes == 4096 * (size_t)(rank + 1));
  for (peer = 0; peer < size; ++peer) {
    OK(hmc_window_bytes(window, peer, &bytes));
    CHECK(bytes == 4096 * (size_t)(peer + 1));
    OK(hmc_window_ptr(window, peer, 8, &pointer));
    CHECK(peer != rank || pointer == (char*)data + 8);
  }

  OK(hmc_window_alloc(window, 100, 256, &first));
  OK(hmc_window_alloc(window, 100, 64, &second));
  CHECK(first % 256 == 0 && second % 64 == 0 && (second >= first + 100 || first >= second + 100));
  CHECK(hmc_window_alloc(window, 1 << 30, 64, &second) == HMC_OUT_OF_MEMORY);
  OK(hmc_window_free(window, first));
  OK(hmc_window_close(window));
  hmc_window_destroy(window);

  /* An allocation with sizes that differ by rank is reported by close. */
  OK(hmc_window_create(world, 4096, &window));
  OK(hmc_window_alloc(window, rank == 0 ? 64 : 128, 64, &first));
  CHECK(hmc_window_close(window) == (size == 1 ? HMC_SUCCESS : HMC_MISMATCH));
  CHECK(!hmc_window_is_open(window));
  CHECK(size == 1 || strstr(hmc_last_error(), "rank 0 got 64 bytes at offset 0") != NULL);
  hmc_window_destroy(window);

  check_window_over_memfd();
  check_borrowed_buffer();
  check_path_to_a_device();
  check_physical_memory();
}
