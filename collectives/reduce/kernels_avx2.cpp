#define HMC_REDUCE_SET avx2
#include "collectives/reduce/kernels.inl"
