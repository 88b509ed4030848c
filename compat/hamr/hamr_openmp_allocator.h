#ifndef hamr_openmp_allocator_h
#define hamr_openmp_allocator_h

#include <hamr_allocators.h>

#endif
