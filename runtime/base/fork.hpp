// A child of fork() inherits the objects of its parent, but neither its threads nor its place in the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace hmc::base {

/// Zeroed pages that a child of fork() sees zeroed again (MADV_WIPEONFORK): a plain load tells parent from child,
/// without a system call and without a fork handler. Kernels before Linux 4.14 have no such pages; there a child isn't
/// noticed. Throws std::bad_alloc.
void* allocate_wiped_on_fork(std::size_t bytes);
void free_wiped_on_fork(void* pages, std::size_t bytes) noexcept;

/// For containers whose elements are to read as zero in a child.
template <typename T> struct WipedOnForkAllocator {
  using value_type = T;
  WipedOnForkAllocator() = default;
  template <typename U> WipedOnForkAllocator(const WipedOnForkAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_wiped_on_fork(count * sizeof(T))); }
  void deallocate(T* pages, std::size_t count) noexcept { free_wiped_on_fork(pages, count * sizeof(T)); }
  friend bool operator==(const WipedOnForkAllocator&, const WipedOnForkAllocator&) { return true; }
};

/// One value in pages of its own. T is trivially destructible.
template <typename T> class WipedOnFork {
 public:
  explicit WipedOnFork(const T& value) : value_(new (allocate_wiped_on_fork(sizeof(T))) T(value)) {}
  ~WipedOnFork() { free_wiped_on_fork(value_, sizeof(T)); }
  WipedOnFork(const WipedOnFork&) = delete;
  WipedOnFork& operator=(const WipedOnFork&) = delete;
  T* operator->() const noexcept { return value_; }

 private:
  T* value_;
};

/// Differs from the number of every ancestor process; siblings may share one. Threads: any.
std::uint64_t this_process() noexcept;

/// Keeps an object of the parent's until the child exits; leak checkers still find it. Threads: any.
void keep_until_exit(void* object) noexcept;

/// A deleter that deletes only in the process that made the object. A child keeps the object: its destructor would join
/// threads that don't exist in the child, write to the sockets that the child shares with its parent, or take locks
/// that one of the parent's threads held at the time of the fork.
struct DeleteInOwner {
  std::uint64_t owner = this_process();
  template <typename T> void operator()(T* object) const {
    if (this_process() == owner)
      delete object;
    else
      keep_until_exit(object);
  }
};
template <typename T, typename... Arguments> std::shared_ptr<T> make_owned(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), DeleteInOwner{});
}

/// Error{closed} of a call in a child, on an object of its parent's.
[[noreturn]] void throw_forked(const char* operation, int rank = -1);

}  // namespace hmc::base
