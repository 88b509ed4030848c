// Detection of fork(): a child inherits its parent's objects, but not its threads and not its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace hmc::base {

/// Zeroed pages that read as zero again in a child of fork() (MADV_WIPEONFORK). A plain load distinguishes parent and
/// child, without a system call or a fork handler. Kernels before Linux 4.14 lack such pages: there a child isn't
/// detected. Throws std::bad_alloc.
void* allocate_wiped_on_fork(std::size_t bytes);
void free_wiped_on_fork(void* pages, std::size_t bytes) noexcept;

/// For containers whose elements must read as zero in a child.
template <typename T> struct WipedOnForkAllocator {
  using value_type = T;
  WipedOnForkAllocator() = default;
  template <typename U> WipedOnForkAllocator(const WipedOnForkAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_wiped_on_fork(count * sizeof(T))); }
  void deallocate(T* pages, std::size_t count) noexcept { free_wiped_on_fork(pages, count * sizeof(T)); }
  friend bool operator==(const WipedOnForkAllocator&, const WipedOnForkAllocator&) { return true; }
};

/// One value in its own pages. T must be trivially destructible.
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

/// A number that differs from that of every ancestor process; siblings may have the same. Threads: any.
std::uint64_t this_process() noexcept;

/// Keeps an object of the parent until the child exits. It stays reachable for leak checkers. Threads: any.
void keep_until_exit(void* object) noexcept;

/// A deleter that deletes only in the process that created the object. A child keeps the object, because its destructor
/// may join threads that don't exist in the child, write to sockets shared with the parent, or take locks that a thread
/// of the parent held at the fork.
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

/// Throws Error{closed}: a child called a function on an object of its parent.
[[noreturn]] void throw_forked(const char* operation, int rank = -1);

}  // namespace hmc::base
