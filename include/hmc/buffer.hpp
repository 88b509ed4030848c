// Buffer<T>: a vector in any kind of memory, accessible from the host and from devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <hmc/error.hpp>
#include <hmc/place.hpp>
#include <hmc/types.hpp>

namespace hmc {

/// A vector of trivially copyable elements in the memory of a Place. Data moves to other memory only on request.
///
/// ERRORS. Indices and null pointers are checked in every build. A violation throws Error{out_of_range} or
/// Error{invalid_argument}.
///
/// THREADS. One thread at a time.
///
/// KERNELS. The Buffer doesn't track the program's kernels. A kernel that accesses the elements must be complete before
/// the Buffer moves, grows or is destroyed.
///
/// ORDER. The TransferOrder states which transfers are complete when a call returns (default: all). The other transfers
/// are queued on a stream: the user's stream, or the Buffer's own stream for the device.
///  - Operations on a Buffer run in the order of the calls. This includes copies between two Buffers.
///  - A source in host memory may be reused when the call returns, in every mode. If a transfer isn't complete at
///    return, its source on a device, and the host memory that get() writes to, stay in use until synchronize().
///  - A source Buffer or a handle may be destroyed when the call returns. HMC frees the memory after its last transfer.
///  - get(index), casts, and copies by the host wait for all transfers in flight. The host executes copies between host
///    memory (pinned and managed included), and copies between devices of different vendors.
///  - Allocating and freeing memory may wait for a device. The destructor waits for the Buffer's own transfers.
///
/// HANDLES. get_..._accessible() returns a handle:
///  - to the Buffer's memory, if the host or device can access it. It stays valid after the Buffer is destroyed, except
///    in a window.
///  - otherwise to a copy, which is freed with the handle. If the copy isn't complete at return (see ORDER), its
///    elements are valid in stream() order, or after synchronize().
///
/// WINDOWS. Buffer<T>(window, count) is in the window's symmetric heap, at offset() of every rank's part. Peers access
/// it by put and get, and collectives use data() in place. The rules of Place apply.
///  - When the Buffer is destroyed, grows or moves to another place, it frees its range, and handles become invalid.
///  - It must not be used after the window is closed.
template <typename T> class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "a Buffer's elements are moved as bytes");

 public:
  explicit Buffer(Place place, TransferOrder order = {})
      : place_(std::move(place)), order_(order), transfers_(detail::make_transfers(place_, order)) {}
  Buffer(Place place, std::size_t count, TransferOrder order = {}) : Buffer(std::move(place), order) { resize(count); }
  static Buffer filled(Place place, std::size_t count, const T& value, TransferOrder order = {}) {
    Buffer made(std::move(place), order);
    made.resize(count, value);
    return made;
  }
  /// Copies `values`, which may be in any memory.
  Buffer(Place place, const T* values, std::size_t count, TransferOrder order = {}) : Buffer(std::move(place), order) {
    assign(values, count);
  }
  /// Uses existing memory at `place` without a copy. The Buffer keeps `owner` while it uses the memory.
  static Buffer adopt(Place place, std::shared_ptr<T> owner, std::size_t count, TransferOrder order = {}) {
    if (owner == nullptr && count > 0) refuse(Code::invalid_argument, "the memory to adopt is null", 0, count);
    Buffer made(std::move(place), order);
    T* const first = owner.get();
    made.memory_ = {std::move(owner), reinterpret_cast<std::byte*>(first)};
    made.count_ = made.capacity_ = count;
    return made;
  }
  template <typename Deleter>
  static Buffer adopt(Place place, T* values, std::size_t count, Deleter deleter, TransferOrder order = {}) {
    return adopt(std::move(place), std::shared_ptr<T>(values, std::move(deleter)), count, order);
  }
  /// Uses the caller's memory without a copy. The memory must outlive the Buffer.
  static Buffer borrow(Place place, T* values, std::size_t count, TransferOrder order = {}) {
    return adopt(
        std::move(place), values, count, [](T*) {}, order);
  }

  /// A copy at the same place, with the same order. It has its own streams, or uses the same user stream.
  Buffer(const Buffer& other)
      : place_(other.place_), order_(other.order_), transfers_(detail::alike(other.transfers_)) {
    copy_from(other);
  }
  Buffer& operator=(const Buffer& other) {
    if (this != &other) Buffer(other).swap(*this);
    return *this;
  }
  /// Takes ownership of the memory. The moved-from Buffer is empty, at the same place, with TransferMode::sync.
  Buffer(Buffer&& other) noexcept
      : place_(other.place_),
        order_(std::exchange(other.order_, {})),
        memory_(std::move(other.memory_)),
        transfers_(std::move(other.transfers_)),
        count_(std::exchange(other.count_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) Buffer(std::move(other)).swap(*this);
    return *this;
  }
  /// Takes ownership of the memory of `other`, and moves the elements to `place` if they are at another place.
  Buffer(Place place, Buffer&& other) : Buffer(std::move(other)) { move(std::move(place)); }
  /// A copy at another place. If the types differ, the host casts each element.
  template <typename U>
  Buffer(Place place, const Buffer<U>& other, TransferOrder order = {}) : Buffer(std::move(place), order) {
    if constexpr (std::is_same_v<T, U>) {
      copy_from(other);
    } else {
      const auto theirs = other.get_host_accessible();
      other.synchronize();
      const auto cast = several(other.size());
      std::transform(theirs.get(), theirs.get() + other.size(), cast.get(),
                     [](const U& value) { return static_cast<T>(value); });
      reserve(other.size());
      put(0, {reinterpret_cast<std::byte*>(cast.get()), cast}, other.size());
      count_ = other.size();
    }
  }
  ~Buffer() { settle_in_window(); }

  const Place& place() const noexcept { return place_; }
  std::size_t size() const noexcept { return count_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return count_ == 0; }
  /// The address of the first element; it may be a device address. Null if no memory is allocated. For a Buffer in a
  /// window it is the same kind of address as Window::data().
  T* data() noexcept { return first(); }
  const T* data() const noexcept { return first(); }
  /// The offset of data() in the window, for put and get. Error{invalid_argument} if the Buffer isn't in a window.
  std::uint64_t offset() const { return detail::offset_in_window(place_, memory_.get()); }

  TransferMode mode() const noexcept { return order_.mode; }
  const TransferOrder& order() const noexcept { return order_; }
  /// Waits for the transfers in flight; later transfers use the new order.
  void set_order(TransferOrder order) {
    auto made = detail::make_transfers(place_, order);
    synchronize();
    order_ = order;
    transfers_ = std::move(made);
  }
  /// The vendor's handle of the stream that executes this Buffer's transfers. Null for a Buffer in host memory, and if
  /// every transfer blocks. Kernels on another stream see the elements only after synchronize().
  void* stream() const {
    const bool always_waits = order_.mode == TransferMode::sync && !order_.has_stream;
    return always_waits ? nullptr : detail::stream_at(transfers_, place_);
  }
  /// Waits for the transfers in flight, and for all work on a user's stream.
  void synchronize() const {
    if (transfers_ != nullptr) detail::synchronize(*transfers_);
  }

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    auto grown = allocate(place_, count);
    transfer({grown.get(), keeper(grown), &transfers_, &place_}, end(0), count_, order_.mode);
    replace(std::move(grown), count);
  }
  /// Sets every new element to `value`.
  void resize(std::size_t count, const T& value = T{}) {
    if (count > count_) {
      grow_to(count);
      const auto fresh = several(count - count_);
      std::fill_n(fresh.get(), count - count_, value);
      put(count_, {reinterpret_cast<std::byte*>(fresh.get()), fresh}, count - count_);
    }
    count_ = count;
  }
  void clear() noexcept { count_ = 0; }

  /// Replaces the elements. In assign(), append() and set(), `values` may be in any memory except this Buffer.
  void assign(const T* values, std::size_t count) {
    check_pointer(values, count);
    if (count > capacity_) replace(allocate(place_, count), count);
    count_ = 0;
    put(0, users(values), count);
    count_ = count;
  }
  void append(const T* values, std::size_t count) {
    check_pointer(values, count);
    grow_to(sum(count_, count));
    put(count_, users(values), count);
    count_ += count;
  }
  void append(const Buffer& other) {
    const std::size_t count = other.count_;
    grow_to(sum(count_, count));
    put(count_, other.end(0), count);
    count_ += count;
  }
  void set(std::size_t index, const T& value) { set(index, &value, 1); }
  void set(std::size_t index, const T* values, std::size_t count) {
    check(index, count);
    check_pointer(values, count);
    put(index, users(values), count);
  }
  T get(std::size_t index) const {
    check(index, 1);
    T value{};
    transfer(users(&value), end(index), 1, TransferMode::sync);
    return value;
  }
  void get(std::size_t index, T* values, std::size_t count) const {
    check(index, count);
    check_pointer(values, count);
    transfer(users(values), end(index), count, order_.mode);
  }

  /// Moves the elements to another place, with the same TransferOrder. If the host and the devices access both places
  /// in the same way (host_new and host_malloc; cuda and cuda_async of one device), no data moves, and only later
  /// allocations use the new place. On another device the Buffer uses its own stream instead of a user stream.
  void move(Place place) {
    if (detail::has_same_access(place, place_)) {
      place_ = std::move(place);
      return;
    }
    Buffer moved(std::move(place));
    moved.order_ = order_;
    moved.transfers_ = transfers_;
    moved.copy_from(*this);
    swap(moved);
  }
  void swap(Buffer& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(order_, other.order_);
    std::swap(memory_, other.memory_);
    std::swap(transfers_, other.transfers_);
    std::swap(count_, other.count_);
    std::swap(capacity_, other.capacity_);
  }

  /// data(), and a share of the memory's ownership, as a handle has it.
  std::shared_ptr<T> share() const { return own(); }
  /// Handles: see the class comment. The host may write through a handle only if the handle refers to the Buffer's
  /// memory, not to a copy.
  std::shared_ptr<T> get_host_accessible() const {
    return detail::is_host_accessible(place_) ? own() : copy_at(Allocator::host_malloc);
  }
  std::shared_ptr<T> get_accessible(MemoryType type, int device = 0) const {
    type = detail::resolved(type);
    if (type == MemoryType::CPU) return get_host_accessible();
    if (detail::is_device_accessible(type, device, place_)) return own();
    return copy_at({detail::allocator_for(type), device});
  }
  std::shared_ptr<T> get_cuda_accessible(int device = 0) const {
    return get_accessible(MemoryType::NVIDIA_GPU, device);
  }
  std::shared_ptr<T> get_hip_accessible(int device = 0) const { return get_accessible(MemoryType::AMD_GPU, device); }
  std::shared_ptr<T> get_musa_accessible(int device = 0) const { return get_accessible(MemoryType::MOORE_GPU, device); }
  std::shared_ptr<T> get_cnrt_accessible(int device = 0) const {
    return get_accessible(MemoryType::CAMBRICON_MLU, device);
  }
  std::shared_ptr<T> get_acl_accessible(int device = 0) const { return get_accessible(MemoryType::ASCEND_NPU, device); }
  std::shared_ptr<T> get_opencl_accessible(int device = 0) const { return get_accessible(MemoryType::OPENCL, device); }
  std::shared_ptr<T> get_openmp_accessible(int device = 0) const {
    return detail::is_openmp_accessible(device, place_) ? own() : copy_at({Allocator::openmp, device});
  }

 private:
  T* first() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
  static std::shared_ptr<T[]> several(std::size_t count) {
    (void)bytes_of(count);
    return std::shared_ptr<T[]>(new T[count]);
  }
  static std::shared_ptr<std::byte> allocate(const Place& place, std::size_t count) {
    return place.heap != nullptr ? detail::allocate_in_window(place, bytes_of(count))
                                 : detail::allocate_at(place, bytes_of(count));
  }
  /// The owner that keeps a transfer's memory valid. In a window this is the window, not the range: all ranks must free
  /// the range at the same point of their calls, so a transfer can't delay it.
  std::shared_ptr<const void> keeper(const std::shared_ptr<std::byte>& memory) const {
    if (place_.heap != nullptr) return place_.heap;
    return memory;
  }
  void replace(std::shared_ptr<std::byte> memory, std::size_t capacity) {
    settle_in_window();
    memory_ = std::move(memory);
    capacity_ = capacity;
  }
  void settle_in_window() noexcept {
    if (place_.heap != nullptr && transfers_ != nullptr) detail::settle(*transfers_);
  }
  std::shared_ptr<T> own() const {
    if (place_.heap != nullptr) return {place_.heap, first()};
    return {memory_, first()};
  }
  std::shared_ptr<T> copy_at(const Place& place) const {
    auto there = allocate(place, count_);
    transfer({there.get(), there, nullptr, &place}, end(0), count_, order_.mode);
    T* const address = reinterpret_cast<T*>(there.get());
    return {std::move(there), address};
  }
  void copy_from(const Buffer& other) {
    reserve(other.count_);
    put(0, other.end(0), other.count_);
    count_ = other.count_;
  }
  void grow_to(std::size_t count) {
    if (count > capacity_) reserve(std::max(count, capacity_ + capacity_ / 2));
  }

  detail::End end(std::size_t index) const {
    std::byte* const address = memory_ == nullptr ? nullptr : memory_.get() + index * sizeof(T);
    return {address, keeper(memory_), &transfers_, &place_};
  }
  static detail::End users(const T* values) {
    return {reinterpret_cast<std::byte*>(const_cast<T*>(values)), nullptr, nullptr, nullptr};
  }
  void transfer(const detail::End& to, const detail::End& from, std::size_t count, TransferMode mode) const {
    detail::transfer(to, from, count * sizeof(T), mode, transfers_.get());
  }
  void put(std::size_t index, const detail::End& from, std::size_t count) {
    transfer(end(index), from, count, order_.mode);
  }

  static std::size_t bytes_of(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T))
      refuse(Code::out_of_memory, "more elements than memory can hold", 0, count);
    return count * sizeof(T);
  }
  static std::size_t sum(std::size_t some, std::size_t more) {
    (void)bytes_of(more);  // `some` elements are allocated, so the sum can't overflow
    return some + more;
  }
  static void check_pointer(const T* values, std::size_t count) {
    if (values == nullptr && count > 0) refuse(Code::invalid_argument, "the elements are at a null pointer", 0, count);
  }
  void check(std::size_t index, std::size_t count) const {
    if (index > count_ || count > count_ - index)
      refuse(Code::out_of_range, "the range of elements exceeds the buffer", index, count);
  }
  [[noreturn]] static void refuse(Code code, const char* why, std::size_t index, std::size_t count) {
    ErrorDetail detail;
    detail.code = code;
    detail.operation = "Buffer";
    detail.offset = index;
    detail.size = count;
    detail.has_extent = true;
    detail.message = why;
    throw Error(std::move(detail));
  }

  Place place_;
  TransferOrder order_;
  std::shared_ptr<std::byte> memory_;
  // Declared after the memory that its transfers use, so it is destroyed first. Null if no call ever returned with a
  // transfer in flight.
  mutable std::shared_ptr<detail::Transfers> transfers_;
  std::size_t count_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace hmc
