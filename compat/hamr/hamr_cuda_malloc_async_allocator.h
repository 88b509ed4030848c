#ifndef hamr_cuda_malloc_async_allocator_h
#define hamr_cuda_malloc_async_allocator_h

#include <hamr_allocators.h>

#endif
