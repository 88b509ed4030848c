// The reduction kernels compared with memcpy: at every size they should reach the speed of memory.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace {

using hmc::DType;
using hmc::Op;
using hmc::collectives::InstructionSet;
using hmc::collectives::ReduceKernel;

struct Case {
  DType type;
  Op op;
  InstructionSet set;
  int in_count;
  int out_count;
  std::size_t bytes;  ///< of one buffer

  std::string name() const {
    return std::string(name_of(type)) + "/" + name_of(op) + "/" + name_of(set) + "/" + std::to_string(in_count) + "x" +
           std::to_string(out_count) + "/" + std::to_string(bytes);
  }
};

/// Buffers like windows: page-aligned, and not all on the same cache sets.
class Buffers {
 public:
  Buffers(int count, std::size_t bytes) {
    for (int i = 0; i < count; ++i) {
      memory_.emplace_back(bytes + 8192, static_cast<char>(i + 1));
      const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().data());
      starts_.push_back(memory_.back().data() + (4096 - address % 4096) + static_cast<std::size_t>(i) * 320 % 4096);
    }
  }
  char* at(int i) const { return starts_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::vector<char>> memory_;
  std::vector<char*> starts_;
};

/// As many outputs as inputs: in place, as in an allreduce over windows. One output: another buffer.
void reduce(benchmark::State& state, const Case& c) {
  const ReduceKernel kernel = hmc::collectives::reduce_kernel(c.type, c.op, c.set);
  const Buffers buffers(c.in_count + 1, c.bytes);
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (int k = 0; k < c.in_count; ++k) ins.push_back(buffers.at(k));
  for (int j = 0; j < c.out_count; ++j) outs.push_back(buffers.at(c.out_count == c.in_count ? j : c.in_count));
  for (auto _ : state) {
    kernel(outs.data(), c.out_count, ins.data(), c.in_count, c.bytes / size_of(c.type));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(c.bytes) * (c.in_count + c.out_count));
}

void copy(benchmark::State& state, std::size_t bytes) {
  const Buffers buffers(2, bytes);
  for (auto _ : state) {
    std::memcpy(buffers.at(1), buffers.at(0), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes) * 2);
}

constexpr std::size_t sizes[] = {8, 4096, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20};

InstructionSet best_set() {
  InstructionSet best = InstructionSet::baseline;
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512})
    if (available(set)) best = set;
  return best;
}

void add(const Case& c) {
  if (hmc::collectives::reduce_kernel(c.type, c.op, c.set) == nullptr) return;
  benchmark::RegisterBenchmark(c.name().c_str(), reduce, c);
}

/// The sum of every type in every shape; every operation and instruction set at one size that fits the cache.
const bool registered = [] {
  const InstructionSet best = best_set();
  for (const std::size_t bytes : sizes)
    benchmark::RegisterBenchmark(("memcpy/" + std::to_string(bytes)).c_str(), copy, bytes);
  for (int t = 0; t < hmc::dtype_count; ++t) {
    const auto type = static_cast<DType>(t);
    for (const std::size_t bytes : sizes) {
      for (const auto& [in_count, out_count] : {std::pair{2, 1}, {2, 2}, {4, 1}, {4, 4}, {8, 1}, {8, 8}})
        add({type, hmc::sum, best, in_count, out_count, bytes});
    }
    for (int o = 0; o < hmc::op_count; ++o) {
      for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
        if (o == 0 && set == best) continue;  // above
        add({type, static_cast<Op>(o), set, 2, 1, std::size_t{64} << 10});
      }
    }
    add({type, hmc::avg, best, 3, 1, std::size_t{64} << 10});
  }
  return true;
}();

}  // namespace
