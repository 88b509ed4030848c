// What one of the three APIs knows of the others: the end of each, for smem_uninit, and the stores that they use.
#pragma once

#include <string>

namespace hmc::memfabric {

void end_bm() noexcept;
void end_shm() noexcept;
void end_trans() noexcept;

/// A JSON object about the store that the API uses; empty: none.
std::string bm_status();
std::string shm_status();

}  // namespace hmc::memfabric
