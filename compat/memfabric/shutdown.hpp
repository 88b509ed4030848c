// The end of each API, for smem_uninit.
#pragma once

namespace hmc::memfabric {

void end_bm() noexcept;
void end_shm() noexcept;
void end_trans() noexcept;

}  // namespace hmc::memfabric
