#include "runtime/topology/cpu_set.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace hmc::topology {

namespace {
constexpr int bits = 64;
constexpr std::size_t most_words = 1024;  // 65536 CPUs: more than Linux supports
}  // namespace

CpuSet CpuSet::of(std::initializer_list<int> cpus) {
  CpuSet set;
  for (const int cpu : cpus) set.add(cpu);
  return set;
}

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  // The kernel rejects a mask that is smaller than its own with EINVAL, and doesn't report the required size.
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    set.words_.assign(words, 0);
    auto* const mask = reinterpret_cast<cpu_set_t*>(set.words_.data());
    if (::sched_getaffinity(0, set.bytes(), mask) == 0) return set;
    if (errno != EINVAL) break;
  }
  set.words_.clear();
  return set;
}

void CpuSet::add(int cpu) {
  const auto word = static_cast<std::size_t>(cpu / bits);
  if (word >= words_.size()) words_.resize(word + 1, 0);
  words_[word] |= std::uint64_t{1} << (cpu % bits);
}

bool CpuSet::contains(int cpu) const noexcept {
  const auto word = static_cast<std::size_t>(cpu / bits);
  return cpu >= 0 && word < words_.size() && ((words_[word] >> (cpu % bits)) & 1) != 0;
}

std::size_t CpuSet::count() const noexcept {
  std::size_t sum = 0;
  for (const std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
  return sum;
}

std::string CpuSet::text() const {
  std::string out;
  const int end = static_cast<int>(words_.size()) * bits;
  for (int first = 0; first < end; ++first) {
    if (!contains(first)) continue;
    int last = first;
    while (contains(last + 1)) ++last;
    if (!out.empty()) out += ',';
    out += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return out.empty() ? "none" : out;
}

CpuSet operator&(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  both.words_.resize(std::min(a.words_.size(), b.words_.size()));
  for (std::size_t i = 0; i < both.words_.size(); ++i) both.words_[i] = a.words_[i] & b.words_[i];
  return both;
}

bool operator==(const CpuSet& a, const CpuSet& b) noexcept {
  const std::size_t words = std::max(a.words_.size(), b.words_.size());
  for (std::size_t i = 0; i < words; ++i) {
    if ((i < a.words_.size() ? a.words_[i] : 0) != (i < b.words_.size() ? b.words_[i] : 0)) return false;
  }
  return true;
}

}  // namespace hmc::topology
