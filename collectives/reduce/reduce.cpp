#include "collectives/reduce/reduce.hpp"

#include "collectives/reduce/instruction_sets.hpp"
#include "collectives/reduce/located.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hmc::collectives {
namespace {

#if defined(__x86_64__)
bool has_avx2() noexcept {
  __builtin_cpu_init();
  // __builtin_cpu_supports("avx2") includes the operating system's support for the registers. Not every compiler has a
  // name for f16c, so cpuid is queried.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() noexcept { return false; }
bool has_avx512() noexcept { return false; }
#endif

InstructionSet best() noexcept {
  static const InstructionSet set = has_avx512() ? InstructionSet::avx512
                                    : has_avx2() ? InstructionSet::avx2
                                                 : InstructionSet::baseline;
  return set;
}

ReduceKernel find(DType type, Op op, InstructionSet set) noexcept {
  if (is_located(type)) return located_kernel(type, op);
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return avx512::find_kernel(type, op);
  if (set == InstructionSet::avx2) return avx2::find_kernel(type, op);
#else
  static_cast<void>(set);
#endif
  return baseline::find_kernel(type, op);
}

}  // namespace

const char* name_of(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::baseline: return "baseline";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::avx512: return "avx512";
  }
  return "?";
}

bool available(InstructionSet set) noexcept { return set <= best(); }

ReduceKernel reduce_kernel(DType type, Op op) noexcept { return find(type, op, best()); }

ReduceKernel reduce_kernel(DType type, Op op, InstructionSet set) noexcept {
  return available(set) ? find(type, op, set) : nullptr;
}

}  // namespace hmc::collectives
