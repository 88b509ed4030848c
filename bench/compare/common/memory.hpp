// The private buffers of every contestant: page-aligned, touched before anything is timed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace compare {

inline constexpr std::size_t page_bytes = 4096;

inline std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes)
      : start_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, whole_pages(bytes)))) {
    if (!start_) throw std::bad_alloc();
    std::memset(start_.get(), 0, whole_pages(bytes));
  }
  std::byte* data() const { return start_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> start_;
};

}  // namespace compare
