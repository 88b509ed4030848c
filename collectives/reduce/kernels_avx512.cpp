#define HMC_REDUCE_SET avx512
#include "collectives/reduce/kernels.inl"
