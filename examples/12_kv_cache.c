/* <smem_trans.h>: a prefill process writes its float16 cache, layer by layer, into the memory of a decode process,
 * which it knows by a unique id. The decode process verifies it and sends a part back.
 *
 *   hmcrun -np 2 12_kv_cache                               rank 0: prefill, rank 1: decode
 *   12_kv_cache tcp://127.0.0.1:8572 prefill               and in another terminal:
 *   12_kv_cache tcp://127.0.0.1:8572 decode */
#include <smem_shm.h>
#include <smem_trans.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 8u
#define VALUES (64u * 1024u) /* of a layer */
#define LAYER_BYTES (VALUES * sizeof(uint16_t))

static void need(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, smem_get_last_err_msg());
  exit(1);
}

/* The float16 of 1 + i/1024 for i below 1024: the exponent of 1, and i as the fraction. */
static uint16_t value(uint32_t layer, uint32_t i) { return (uint16_t)(0x3c00u | ((layer * 131u + i) % 1024u)); }

int main(int argc, char** argv) {
  const char* ids[] = {"127.0.0.1:7001", "127.0.0.1:7002"};
  const char* url = argc > 1 ? argv[1] : "hmc://";
  const char* rank_text = getenv("HMC_RANK");
  const uint32_t rank =
      argc > 2 ? (strcmp(argv[2], "decode") == 0) : (rank_text != NULL && strcmp(rank_text, "1") == 0);
  uint16_t* cache = calloc(LAYERS, LAYER_BYTES);
  const void* local[LAYERS];
  void *remote[LAYERS], *mine = cache, *all[2], *gva;
  size_t bytes[LAYERS];
  uint32_t layer, i;
  smem_shm_config_t shm_config;
  smem_trans_config_t config;
  smem_shm_t control;
  smem_trans_t engine;

  /* SHM's control operations exchange the addresses, as a serving system's own messages do. */
  need(cache != NULL && smem_shm_config_init(&shm_config) == SMEM_OK, "smem_shm_config_init");
  need(smem_shm_init(url, 2, rank, 0, &shm_config) == SMEM_OK, "smem_shm_init");
  control = smem_shm_create(0, 2, rank, 2u << 20, SMEMS_DATA_OP_MTE, 0, &gva);
  need(control != NULL, "smem_shm_create");

  need(smem_trans_config_init(&config) == SMEM_OK, "smem_trans_config_init");
  config.role = rank == 0 ? SMEM_TRANS_SENDER : SMEM_TRANS_RECEIVER;
  need(smem_trans_init(&config) == SMEM_OK, "smem_trans_init");
  engine = smem_trans_create(url, ids[rank], &config);
  need(engine != NULL, "smem_trans_create");
  need(smem_trans_register_mem(engine, cache, LAYERS * LAYER_BYTES, 0) == SMEM_OK, "smem_trans_register_mem");
  need(smem_shm_control_allgather(control, (const char*)&mine, sizeof mine, (char*)all, sizeof all) == SMEM_OK,
       "smem_shm_control_allgather");

  if (rank == 0) {
    for (layer = 0; layer < LAYERS; ++layer) {
      for (i = 0; i < VALUES; ++i) cache[layer * VALUES + i] = value(layer, i);
      local[layer] = &cache[layer * VALUES];
      remote[layer] = (char*)all[1] + layer * LAYER_BYTES;
      bytes[layer] = LAYER_BYTES;
    }
    need(smem_trans_batch_write(engine, local, ids[1], remote, bytes, LAYERS, 0) == SMEM_OK, "smem_trans_batch_write");
  }
  need(smem_shm_control_barrier(control) == SMEM_OK, "smem_shm_control_barrier");
  if (rank == 1) {
    for (layer = 0; layer < LAYERS; ++layer)
      for (i = 0; i < VALUES; ++i) need(cache[layer * VALUES + i] == value(layer, i), "a value of the cache is wrong");
    /* The last layer, read from the prefill process: into the first layer. */
    need(smem_trans_read(engine, cache, ids[0], (char*)all[0] + (LAYERS - 1) * LAYER_BYTES, LAYER_BYTES, 0) == SMEM_OK,
         "smem_trans_read");
    for (i = 0; i < VALUES; ++i) need(cache[i] == value(LAYERS - 1, i), "a value that was read is wrong");
    printf("decode: %u layers of %u float16 values\n", (unsigned)LAYERS, (unsigned)VALUES);
  } else {
    printf("prefill: wrote %u layers to %s\n", (unsigned)LAYERS, ids[1]);
  }
  need(smem_shm_control_barrier(control) == SMEM_OK, "smem_shm_control_barrier");
  smem_uninit();
  free(cache);
  return 0;
}
