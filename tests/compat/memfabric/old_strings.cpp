// A program with the old form of std::string, as MemFabric's own are compiled. Its std::regex must not replace
// functions of the library.
#include <smem_bm.h>

#include <cstring>
#include <iostream>
#include <regex>
#include <string>

int main(int argc, char* argv[]) {
  const std::string url = argc > 1 ? argv[1] : "hmc://";
  if (!std::regex_match(url, std::regex("([a-z]+)://[0-9.:]*"))) return 2;
  smem_bm_config_t config;
  smem_bm_config_init(&config);
  smem_bm_create_option_t option{};
  option.maxDramSize = option.localDRAMSize = 2 << 20;
  option.dataOpType = SMEMB_DATA_OP_HOST_TCP;
  std::strcpy(option.tag, "a");
  std::strcpy(option.tagOpInfo, "a:HOST_TCP:b,b:HOST_RDMA:c");
  const bool joined = smem_bm_init(url.c_str(), 1, 0, &config) == SMEM_OK;
  const smem_bm_t pool = joined ? smem_bm_create2(0, &option) : nullptr;
  if (pool == nullptr || smem_bm_join(pool, 0) != SMEM_OK) {
    std::cerr << smem_get_last_err_msg() << "\n";
    return 1;
  }
  smem_bm_destroy(pool);
  smem_uninit();
  return 0;
}
