// Buffer<T>: a vector that lives in a declared place and is read where it is declared to be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/types.hpp>

namespace hmc {

/// Who gives a Buffer its memory.
enum class Allocator : int {
  host_new,
  host_malloc,
  cuda,
  cuda_async,
  cuda_pinned,
  cuda_managed,
  hip,
  hip_async,
  hip_pinned,
  hip_managed,
  musa,
  cnrt,
  acl,
  opencl,
};
inline constexpr int allocator_count = 14;
HMC_API const char* name_of(Allocator allocator) noexcept;

/// Where a Buffer lives. An Allocator alone means its device 0.
struct Place {
  constexpr Place(Allocator on_allocator, int on_device = 0) noexcept : allocator(on_allocator), device(on_device) {}
  Allocator allocator;
  int device;
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

namespace detail {
/// Zeroed bytes that go with their last holder. Throws Error{unsupported} with the reason.
HMC_API std::shared_ptr<std::byte> buffer_allocate(Place place, std::size_t bytes);
/// Between any two places; done when it returns. The ranges don't overlap. Throws Error.
HMC_API void buffer_copy(void* destination, const void* source, std::size_t bytes);
HMC_API bool host_reaches(Allocator allocator) noexcept;
/// Device number `device` of `type` reads what lies at `place`.
HMC_API bool device_reaches(MemoryType type, int device, Place place) noexcept;
/// What gives memory that devices of `type` reach. Throws Error{unsupported}.
HMC_API Allocator allocator_for(MemoryType type);
}  // namespace detail

/// Bytes move only when somebody asks to read them elsewhere, and every move is done when the call
/// returns; there is nothing to wait for. Indices beyond the end are an Error in every build. One thread at a time.
///
/// A handle of get_..._accessible() is the buffer's own memory where that is reached, and stays valid
/// for itself when the buffer goes; else it's a copy, which goes with the handle.
template <typename T> class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "a Buffer's elements are moved as bytes");

 public:
  explicit Buffer(Place place) : place_(place) {}
  Buffer(Place place, std::size_t count) : place_(place) { resize(count); }
  static Buffer filled(Place place, std::size_t count, const T& value) {
    Buffer made(place);
    made.resize(count, value);
    return made;
  }
  /// A copy of `values`, which may lie in any memory.
  Buffer(Place place, const T* values, std::size_t count) : place_(place) { assign(values, count); }
  /// Without a copy: memory that lies at `place`, kept by `owner` as long as it's needed.
  static Buffer adopt(Place place, std::shared_ptr<T> owner, std::size_t count) {
    Buffer made(place);
    T* const first = owner.get();
    made.memory_ = {std::move(owner), reinterpret_cast<std::byte*>(first)};
    made.count_ = made.capacity_ = count;
    return made;
  }
  template <typename Deleter> static Buffer adopt(Place place, T* values, std::size_t count, Deleter deleter) {
    return adopt(place, std::shared_ptr<T>(values, std::move(deleter)), count);
  }
  /// The caller keeps it, and keeps it alive.
  static Buffer borrow(Place place, T* values, std::size_t count) {
    return adopt(place, values, count, [](T*) {});
  }

  Buffer(const Buffer& other) : place_(other.place_) { copy_from(other); }
  Buffer& operator=(const Buffer& other) {
    if (this != &other) Buffer(other).swap(*this);
    return *this;
  }
  /// Steals: the memory stays where it is.
  Buffer(Buffer&& other) noexcept : place_(other.place_) { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  /// A copy in another place, each element cast.
  template <typename U> Buffer(Place place, const Buffer<U>& other) : place_(place) {
    if constexpr (std::is_same_v<T, U>) {
      copy_from(other);
    } else {
      const auto theirs = other.get_host_accessible();
      std::vector<T> cast(other.size());
      std::transform(theirs.get(), theirs.get() + other.size(), cast.begin(),
                     [](const U& value) { return static_cast<T>(value); });
      assign(cast.data(), cast.size());
    }
  }

  Place place() const noexcept { return place_; }
  std::size_t size() const noexcept { return count_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return count_ == 0; }
  /// An address in the buffer's place, which the host may be unable to read; null while nothing was
  /// ever in it.
  T* data() noexcept { return first(); }
  const T* data() const noexcept { return first(); }

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    auto grown = detail::buffer_allocate(place_, bytes_of(count));
    detail::buffer_copy(grown.get(), memory_.get(), count_ * sizeof(T));
    memory_ = std::move(grown);
    capacity_ = count;
  }
  /// New elements are `value`, also those inside the capacity.
  void resize(std::size_t count, const T& value = T{}) {
    if (count > capacity_) reserve(std::max(count, capacity_ + capacity_ / 2));
    if (count > count_) {
      const std::vector<T> fresh(count - count_, value);
      detail::buffer_copy(first() + count_, fresh.data(), fresh.size() * sizeof(T));
    }
    count_ = count;
  }
  void clear() noexcept { count_ = 0; }

  void assign(const T* values, std::size_t count) {
    if (count > capacity_) {
      Buffer fresh(place_);
      fresh.reserve(count);
      fresh.swap(*this);
    }
    detail::buffer_copy(memory_.get(), values, count * sizeof(T));
    count_ = count;
  }
  /// `values` may lie in any memory, but not in this buffer.
  void append(const T* values, std::size_t count) {
    if (count > capacity_ - count_) reserve(std::max(count_ + count, capacity_ + capacity_ / 2));
    detail::buffer_copy(first() + count_, values, count * sizeof(T));
    count_ += count;
  }
  void append(const Buffer& other) {
    const Buffer kept = this == &other ? other : Buffer::borrow(other.place_, other.first(), other.count_);
    append(kept.first(), kept.size());
  }
  void set(std::size_t index, const T& value) {
    check(index, 1);
    detail::buffer_copy(first() + index, &value, sizeof(T));
  }
  void set(std::size_t index, const T* values, std::size_t count) {
    check(index, count);
    detail::buffer_copy(first() + index, values, count * sizeof(T));
  }
  T get(std::size_t index) const {
    T value;
    get(index, &value, 1);
    return value;
  }
  void get(std::size_t index, T* values, std::size_t count) const {
    check(index, count);
    detail::buffer_copy(values, first() + index, count * sizeof(T));
  }

  /// To another place; nothing happens where it is there already.
  void move(Place place) {
    if (place == place_) return;
    Buffer moved(place);
    moved.copy_from(*this);
    swap(moved);
  }
  void swap(Buffer& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(memory_, other.memory_);
    std::swap(count_, other.count_);
    std::swap(capacity_, other.capacity_);
  }

  /// Where the host reads (and, where it is the buffer itself, writes).
  std::shared_ptr<T> get_host_accessible() const {
    if (detail::host_reaches(place_.allocator)) return own();
    return copy_at(Allocator::host_malloc);
  }
  std::shared_ptr<T> get_accessible(MemoryType type, int device = 0) const {
    if (type == MemoryType::CPU || type == MemoryType::DEFAULT) return get_host_accessible();
    if (detail::device_reaches(type, device, place_)) return own();
    return copy_at({detail::allocator_for(type), device});
  }
  std::shared_ptr<T> get_cuda_accessible(int device = 0) const {
    return get_accessible(MemoryType::NVIDIA_GPU, device);
  }
  std::shared_ptr<T> get_hip_accessible(int device = 0) const { return get_accessible(MemoryType::AMD_GPU, device); }
  std::shared_ptr<T> get_opencl_accessible(int device = 0) const { return get_accessible(MemoryType::OPENCL, device); }

 private:
  T* first() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
  std::shared_ptr<T> own() const { return {memory_, first()}; }
  std::shared_ptr<T> copy_at(Place place) const {
    auto there = detail::buffer_allocate(place, count_ * sizeof(T));
    detail::buffer_copy(there.get(), memory_.get(), count_ * sizeof(T));
    T* const address = reinterpret_cast<T*>(there.get());
    return {std::move(there), address};
  }
  void copy_from(const Buffer& other) {
    reserve(other.count_);
    detail::buffer_copy(memory_.get(), other.memory_.get(), other.count_ * sizeof(T));
    count_ = other.count_;
  }
  static std::size_t bytes_of(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T))
      throw Error(Code::out_of_memory, "Buffer", "more elements than memory can hold");
    return count * sizeof(T);
  }
  void check(std::size_t index, std::size_t count) const {
    if (index <= count_ && count <= count_ - index) return;
    ErrorDetail detail;
    detail.code = Code::out_of_range;
    detail.operation = "Buffer";
    detail.offset = index;
    detail.size = count;
    detail.has_extent = true;
    detail.message = "these elements aren't all in the buffer";
    throw Error(std::move(detail));
  }

  Place place_;
  std::shared_ptr<std::byte> memory_;
  std::size_t count_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace hmc
