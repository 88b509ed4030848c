/* The configuration of HAMR's API on HMC. HMC opens the vendors' libraries at run time, so every allocator exists in
 * every build. The macros tell whether this file is compiled for a technology. */
#ifndef hamr_config_h
#define hamr_config_h

#define HAMR_EXPORT
#define HAMR_PRIVATE

#if defined(__CUDACC__) && !defined(HAMR_ENABLE_CUDA)
#define HAMR_ENABLE_CUDA
#endif
#if (defined(__HIPCC__) || defined(__HIP__)) && !defined(HAMR_ENABLE_HIP)
#define HAMR_ENABLE_HIP
#endif
#if defined(_OPENMP) && !defined(HAMR_ENABLE_OPENMP)
#define HAMR_ENABLE_OPENMP
#endif
#define HAMR_OPENMP_LOOP loop

#endif
