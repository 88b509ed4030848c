#include "runtime/base/fork.hpp"

#include <sys/mman.h>

#include <atomic>
#include <new>

#include <hmc/error.hpp>

#include "runtime/base/segment.hpp"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14
#endif

namespace hmc::base {

void* allocate_wiped_on_fork(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes == 0 ? 1 : bytes, page_size());
  void* const pages = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  (void)::madvise(pages, rounded, MADV_WIPEONFORK);  // fails on older kernels
  return pages;
}

void free_wiped_on_fork(void* pages, std::size_t bytes) noexcept {
  ::munmap(pages, round_up(bytes == 0 ? 1 : bytes, page_size()));
}

std::uint64_t this_process() noexcept {
  static std::atomic<std::uint64_t> last_number{0};  // a child inherits it and takes the next number
  static auto* const mine = []() -> std::atomic<std::uint64_t>* {
    try {
      return new (allocate_wiped_on_fork(sizeof(std::atomic<std::uint64_t>))) std::atomic<std::uint64_t>(0);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }();
  if (mine == nullptr) return 1;
  // Relaxed, here and in the compare-exchange below: the number is the only data.
  std::uint64_t number = mine->load(std::memory_order_relaxed);
  if (number != 0) return number;
  const std::uint64_t next = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine->compare_exchange_strong(number, next, std::memory_order_relaxed) ? next : number;
}

void keep_until_exit(void* object) noexcept {
  struct Kept {
    void* object;
    Kept* next;
  };
  static std::atomic<Kept*> first{nullptr};
  auto* const kept = new (std::nothrow) Kept{object, nullptr};
  if (kept == nullptr) return;
  // Relaxed: no code reads the list.
  kept->next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
  }
}

void throw_forked(const char* operation, int rank) {
  ErrorDetail detail;
  detail.code = Code::closed;
  detail.operation = operation;
  detail.rank = rank;
  detail.message = "this process was forked from a rank and isn't a rank of the job";
  detail.hint = "call HMC in the rank only; a child may exec, or work on data of its own";
  throw Error(std::move(detail));
}

}  // namespace hmc::base
