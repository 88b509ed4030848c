#include <string.h>

#include "tests/capi/check.h"

enum { part = 1 << 16, items = 150 }; /* more items than a batch of the C ABI holds without allocation */

static unsigned char pattern(int of, size_t at) { return (unsigned char)(7 * at + at / 251 + 31 * (size_t)of + 1); }

static void fill(unsigned char* bytes, size_t count, int of) {
  size_t i;
  for (i = 0; i < count; ++i) bytes[i] = pattern(of, i);
}

static int to_right(void) { return (rank + 1) % size; }
static int from_left(void) { return (rank + size - 1) % size; }

/* Every rank puts to its right neighbour, reads the bytes back, and verifies what its left neighbour put. */
static void check_put_get(hmc_window_t window, unsigned char* mine) {
  static unsigned char source[1001], back[1001];
  hmc_registration_t registration = NULL;
  size_t i;
  fill(source, sizeof source, rank);
  OK(hmc_registration_create(world, source, sizeof source, &registration));
  OK(hmc_put(window, to_right(), 13, source, sizeof source));
  OK(hmc_fence(window));
  OK(hmc_flush_all(window, HMC_JOB_TIMEOUT));
  OK(hmc_get(window, to_right(), 13, back, sizeof back));
  CHECK(memcmp(source, back, sizeof back) == 0);
  CHECK(hmc_registration_is_used(NULL) == 0);
  hmc_registration_destroy(registration);
  OK(hmc_barrier(world));
  for (i = 0; i < sizeof source; ++i) CHECK(mine[13 + i] == pattern(from_left(), i));
  OK(hmc_barrier(world));
}

static void check_strided(hmc_window_t window, unsigned char* mine) {
  const hmc_strides strides = {sizeof strides, 5, 3, 10, 100};
  static unsigned char source[50], back[50];
  size_t row, column;
  fill(source, sizeof source, rank);
  OK(hmc_put_strided(window, to_right(), 2000, source, &strides));
  OK(hmc_flush(window, to_right(), HMC_JOB_TIMEOUT));
  OK(hmc_get_strided(window, to_right(), 2000, back, &strides));
  OK(hmc_barrier(world));
  for (row = 0; row < 5; ++row) {
    for (column = 0; column < 3; ++column) {
      CHECK(mine[2000 + 100 * row + column] == pattern(from_left(), 10 * row + column));
      CHECK(back[10 * row + column] == source[10 * row + column]);
    }
    CHECK(mine[2000 + 100 * row + 3] == 0);
  }
  OK(hmc_barrier(world));
}

static void check_batches(hmc_window_t window, unsigned char* mine) {
  static unsigned char source[items], back[items];
  static hmc_put_item puts[items];
  static hmc_get_item gets[items];
  size_t i;
  fill(source, items, rank);
  for (i = 0; i < items; ++i) {
    puts[i].struct_size = sizeof puts[i];
    puts[i].offset = 4096 + 3 * i;
    puts[i].source = &source[i];
    puts[i].bytes = 1;
    gets[i].struct_size = sizeof gets[i];
    gets[i].offset = 4096 + 3 * i;
    gets[i].destination = &back[i];
    gets[i].bytes = 1;
  }
  OK(hmc_put_batch(window, to_right(), puts, items));
  OK(hmc_flush_all(window, HMC_JOB_TIMEOUT));
  OK(hmc_get_batch(window, to_right(), gets, items));
  CHECK(memcmp(source, back, items) == 0);
  OK(hmc_barrier(world));
  for (i = 0; i < items; ++i) CHECK(mine[4096 + 3 * i] == pattern(from_left(), i) && mine[4096 + 3 * i + 1] == 0);
  /* An invalid batch is rejected as a whole, whatever its length. */
  fill(source, items, rank + 100);
  puts[items - 1].offset = (size_t)-1;
  CHECK(hmc_put_batch(window, to_right(), puts, items) == HMC_OUT_OF_RANGE);
  OK(hmc_barrier(world));
  for (i = 0; i < items; ++i) CHECK(mine[4096 + 3 * i] == pattern(from_left(), i));
  OK(hmc_put_batch(window, to_right(), NULL, 0));
  CHECK(hmc_put_batch(window, to_right(), NULL, 1) == HMC_INVALID_ARGUMENT);
  puts[0].struct_size = 0;
  CHECK(hmc_put_batch(window, to_right(), puts, 1) == HMC_INVALID_ARGUMENT);
  OK(hmc_barrier(world));
}

/* Every rank reads what its neighbour set. The context is separate from the window's bytes. */
static void check_context(hmc_window_t window) {
  static unsigned char source[1000], back[1000];
  fill(source, sizeof source, rank);
  CHECK(hmc_window_set_context(window, 0, source, 1) == HMC_INVALID_ARGUMENT); /* no context is open */
  OK(hmc_window_open_context(window, world));
  OK(hmc_window_set_context(window, HMC_CONTEXT_BYTES - sizeof source, source, sizeof source));
  CHECK(hmc_window_set_context(window, HMC_CONTEXT_BYTES, source, 1) == HMC_OUT_OF_RANGE);
  OK(hmc_barrier(world));
  OK(hmc_window_get_context(window, from_left(), HMC_CONTEXT_BYTES - sizeof back, back, sizeof back));
  fill(source, sizeof source, from_left());
  CHECK(memcmp(source, back, sizeof back) == 0);
  OK(hmc_barrier(world));
}

void test_transfers(void) {
  hmc_window_t window = NULL;
  void* mine;
  OK(hmc_window_create(world, part, &window));
  OK(hmc_window_data(window, &mine));
  check_put_get(window, mine);
  check_strided(window, mine);
  check_batches(window, mine);
  check_context(window);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}

void test_requests(void) {
  enum { count = 5, bytes = 3000 };
  static unsigned char source[count][bytes], back[count][bytes];
  hmc_window_t window = NULL;
  hmc_request_t requests[count], idle;
  size_t i, index;
  int done = 0;
  OK(hmc_window_create(world, part, &window));

  memset(&idle, 0, sizeof idle);
  OK(hmc_request_test(&idle, &done));
  CHECK(done == 1);
  OK(hmc_request_wait(&idle, 0));
  CHECK(hmc_request_test(NULL, &done) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_put_nb(window, rank, 0, source[0], 1, NULL) == HMC_INVALID_ARGUMENT);

  for (i = 0; i < count; ++i) {
    fill(source[i], bytes, rank + (int)i);
    OK(hmc_put_nb(window, to_right(), 4096 * i, source[i], bytes, &requests[i]));
  }
  OK(hmc_request_wait_all(requests, count, HMC_JOB_TIMEOUT));
  OK(hmc_flush_all(window, HMC_JOB_TIMEOUT));

  for (i = 0; i < count; ++i) OK(hmc_get_nb(window, to_right(), 4096 * i, back[i], bytes, &requests[i]));
  OK(hmc_request_wait_any(requests, count, HMC_JOB_TIMEOUT, &index));
  CHECK(index < count && memcmp(source[index], back[index], bytes) == 0);
  for (i = 0; i < count; ++i) {
    OK(hmc_request_wait(&requests[i], HMC_JOB_TIMEOUT));
    OK(hmc_request_test(&requests[i], &done));
    CHECK(done && memcmp(source[i], back[i], bytes) == 0);
  }
  OK(hmc_request_wait_any(requests, count, HMC_JOB_TIMEOUT, &index));
  CHECK(index == HMC_NO_REQUEST);
  OK(hmc_get_nb(window, to_right(), 0, back[0], bytes, &requests[0]));
  OK(hmc_request_abandon(&requests[0]));
  OK(hmc_request_wait_any(requests, 1, HMC_JOB_TIMEOUT, &index));
  CHECK(index == HMC_NO_REQUEST);
  index = 0;
  OK(hmc_request_wait_any(NULL, 0, HMC_JOB_TIMEOUT, &index));
  CHECK(index == HMC_NO_REQUEST);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}
