/* The C ABI as an installed library: nothing of C++ may be needed to compile or link this. */
#include <stdio.h>

#include <hmc/hmc_c.h>

int main(void) {
  hmc_runtime_t runtime;
  int64_t mine = 1, sum = 0;
  hmc_code code = hmc_runtime_create(&runtime);
  if (code == HMC_SUCCESS) code = hmc_allreduce(hmc_runtime_world(runtime), &mine, &sum, 1, HMC_I64, NULL);
  if (code != HMC_SUCCESS) {
    fprintf(stderr, "%s\n", hmc_last_error());
    return 1;
  }
  if (hmc_runtime_rank(runtime) == 0) printf("C consumer of HMC %s: %d ranks\n", hmc_version(), (int)sum);
  code = sum == hmc_runtime_size(runtime) ? hmc_runtime_close(runtime) : HMC_ERROR;
  hmc_runtime_destroy(runtime);
  return (int)code;
}
