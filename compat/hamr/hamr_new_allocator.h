#ifndef hamr_new_allocator_h
#define hamr_new_allocator_h

#include <hamr_allocators.h>

#endif
