#define HMC_REDUCE_SET baseline
#include "collectives/reduce/kernels.inl"
