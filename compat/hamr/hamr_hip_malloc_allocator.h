#ifndef hamr_hip_malloc_allocator_h
#define hamr_hip_malloc_allocator_h

#include <hamr_allocators.h>

#endif
