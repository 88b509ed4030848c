// hamr::buffer<T>: HAMR's buffer on HMC's memory. README.md lists the differences.
#ifndef hamr_buffer_h
#define hamr_buffer_h

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <hmc/error.hpp>
#include <hmc/place.hpp>

#include <hamr_buffer_allocator.h>
#include <hamr_buffer_transfer.h>
#include <hamr_config.h>
#include <hamr_stream.h>

namespace hamr {

namespace detail {

/// Destroys the first `count` elements before their memory is freed.
template <typename T> struct elements {
  elements(std::shared_ptr<T> in, std::size_t constructed) : memory(std::move(in)), count(constructed) {}
  elements(const elements&) = delete;
  elements& operator=(const elements&) = delete;
  ~elements() { std::destroy_n(memory.get(), count); }

  std::shared_ptr<T> memory;
  std::size_t count;
};

}  // namespace detail

/// A vector in the memory of an allocator, on the device that is current at construction (cudaSetDevice). Functions
/// that return int return 0. All failures throw hmc::Error.
///
/// ELEMENTS. Trivially copyable elements are moved as bytes, in any memory. Elements of other classes are constructed,
/// copied and destroyed by the host, in memory that it can access; other memory throws Error{unsupported} when it is
/// allocated. All elements of reserved memory are constructed. T may be incomplete where buffer<T> is a member, and T
/// needs only the operations that the called functions use.
///
/// THREADS. One thread at a time. Several threads may call get_..._accessible() where it returns the buffer's memory.
template <typename T> class buffer {
 public:
  using allocator = buffer_allocator;
  using transfer = buffer_transfer;

  // ---- new memory: empty, of n_elem elements, filled with a value, or a copy of host memory
  buffer(allocator alloc) : buffer(alloc, stream(), transfer::async) {}
  buffer(allocator alloc, const stream& strm, transfer sync = transfer::async)
      : buffer(hmc::Place::current(detail::allocator_of(alloc)), alloc, strm, sync) {}
  buffer(allocator alloc, std::size_t n_elem) : buffer(alloc, stream(), transfer::async, n_elem) {}
  buffer(allocator alloc, const stream& strm, std::size_t n_elem) : buffer(alloc, strm, transfer::async, n_elem) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t n_elem) : buffer(alloc, strm, sync) {
    if (n_elem == 0) return;
    if constexpr (is_bytes()) {
      use(storage(place_, n_elem), n_elem);
      fill(0, n_elem, T());
    } else {
      use(made(n_elem, [](void* at, std::size_t) { ::new (at) T(); }), n_elem);
    }
    size_ = n_elem;
  }
  buffer(allocator alloc, std::size_t n_elem, const T& value)
      : buffer(alloc, stream(), transfer::async, n_elem, value) {}
  buffer(allocator alloc, const stream& strm, std::size_t n_elem, const T& value)
      : buffer(alloc, strm, transfer::async, n_elem, value) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t n_elem, const T& value)
      : buffer(alloc, strm, sync) {
    if (n_elem == 0) return;
    if constexpr (is_bytes()) {
      use(storage(place_, n_elem), n_elem);
      fill(0, n_elem, value);
    } else {
      use(made(n_elem, [&](void* at, std::size_t) { ::new (at) T(value); }), n_elem);
    }
    size_ = n_elem;
  }
  buffer(allocator alloc, std::size_t n_elem, const T* values)
      : buffer(alloc, stream(), transfer::async, n_elem, values) {}
  buffer(allocator alloc, const stream& strm, std::size_t n_elem, const T* values)
      : buffer(alloc, strm, transfer::async, n_elem, values) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t n_elem, const T* values)
      : buffer(alloc, strm, sync) {
    assign(values, 0, n_elem);
  }

  // ---- existing memory, without a copy. `owner`: the device; -1: it is detected.
  template <typename Deleter>
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t size, int owner, T* ptr,
         Deleter deleter) requires(!std::is_convertible_v<Deleter, int>)
      : buffer(alloc, strm, sync, size, owner, std::shared_ptr<T>(ptr, std::move(deleter))) {}
  template <typename Deleter>
  buffer(allocator alloc, const stream& strm, std::size_t size, int owner, T* ptr,
         Deleter deleter) requires(!std::is_convertible_v<Deleter, int>)
      : buffer(alloc, strm, transfer::async, size, owner, ptr, std::move(deleter)) {}
  template <typename Deleter>
  buffer(allocator alloc, std::size_t size, int owner, T* ptr,
         Deleter deleter) requires(!std::is_convertible_v<Deleter, int>)
      : buffer(alloc, stream(), transfer::async, size, owner, ptr, std::move(deleter)) {}
  /// take: the buffer destroys the elements and frees the memory, by the allocator's function.
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t size, int owner, T* ptr, int take = 1)
      : buffer(alloc, strm, sync, size, owner, owned(alloc, owner, ptr, size, take != 0)) {}
  buffer(allocator alloc, const stream& strm, std::size_t size, int owner, T* ptr)
      : buffer(alloc, strm, transfer::async, size, owner, ptr) {}
  buffer(allocator alloc, std::size_t size, int owner, T* ptr)
      : buffer(alloc, stream(), transfer::async, size, owner, ptr) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t size, int owner,
         const std::shared_ptr<T>& data)
      : buffer(place_of(alloc, owner, data.get()), alloc, strm, sync) {
    if (data == nullptr && size > 0) refuse(hmc::Code::invalid_argument, "the memory to use is null");
    use(data, size);
    size_ = size;
  }
  buffer(allocator alloc, const stream& strm, std::size_t size, int owner, const std::shared_ptr<T>& data)
      : buffer(alloc, strm, transfer::async, size, owner, data) {}
  buffer(allocator alloc, std::size_t size, int owner, const std::shared_ptr<T>& data)
      : buffer(alloc, stream(), transfer::async, size, owner, data) {}

  // ---- copies. The host casts elements of another type.
  buffer(const buffer& other) : buffer(other.alloc_, other.stream_, other.sync_, other) {}
  template <typename U> buffer(const buffer<U>& other) : buffer(other.alloc_, other.stream_, other.sync_, other) {}
  template <typename U>
  buffer(allocator alloc, const stream& strm, transfer sync, const buffer<U>& other) : buffer(alloc, strm, sync) {
    assign(other);
  }
  template <typename U>
  buffer(allocator alloc, const stream& strm, const buffer<U>& other) : buffer(alloc, strm, transfer::async, other) {}
  template <typename U>
  buffer(allocator alloc, const buffer<U>& other) : buffer(alloc, other.stream_, other.sync_, other) {}
  /// The moved-from buffer is empty, with the default stream.
  buffer(buffer&& other) noexcept : buffer(other.place_, other.alloc_, stream(), transfer::async) { swap(other); }
  /// Takes the memory of `other` if it is at the new place; otherwise copies.
  buffer(allocator alloc, const stream& strm, transfer sync, buffer&& other) : buffer(alloc, strm, sync) {
    *this = std::move(other);
  }
  buffer(allocator alloc, const stream& strm, buffer&& other)
      : buffer(alloc, strm, transfer::async, std::move(other)) {}
  buffer(allocator alloc, buffer&& other) : buffer(alloc, other.stream_, other.sync_, std::move(other)) {}

  /// Assignments keep the allocator, the device, the stream and the mode.
  void operator=(buffer&& other) {
    if (this == &other) return;
    if (place_ != other.place_) {
      assign(other);
      return;
    }
    swap_memory(other);
    order();
    other.order();
  }
  void operator=(const buffer& other) { assign(other); }
  template <typename U> void operator=(const buffer<U>& other) { assign(other); }
  void swap(buffer& other) {
    swap_memory(other);
    std::swap(alloc_, other.alloc_);
    std::swap(place_, other.place_);
    std::swap(stream_, other.stream_);
    std::swap(sync_, other.sync_);
  }

  /// To the allocator's memory on the current device. Nothing moves if the elements are already there.
  int move(allocator alloc) {
    const hmc::Place there = hmc::Place::current(detail::allocator_of(alloc));
    if (hmc::detail::has_same_access(there, place_)) {
      place_ = there;
      alloc_ = alloc;
      return 0;
    }
    buffer moved(there, alloc, stream_, sync_);
    moved.assign(*this);
    swap(moved);
    return 0;
  }

  // ---- size. resize() sets the new elements to `value`; without a value they are T() in new memory, and unchanged in
  // memory that was reserved before.
  int reserve(std::size_t n_elem) {
    if (n_elem <= capacity_) return 0;
    if constexpr (is_bytes())
      enlarge(n_elem);
    else
      enlarge(n_elem, [](void* at) { ::new (at) T(); });
    return 0;
  }
  /// Sets the elements of new memory to `value`.
  int reserve(std::size_t n_elem, const T& value) {
    if (n_elem <= capacity_) return 0;
    if constexpr (is_bytes()) {
      const T copy = value;  // it may be an element
      enlarge(n_elem);
      fill(size_, n_elem - size_, copy);
    } else {
      enlarge(n_elem, [&](void* at) { ::new (at) T(value); });
    }
    return 0;
  }
  int resize(std::size_t n_elem) {
    const bool is_new = n_elem > capacity_;
    reserve(n_elem);
    if constexpr (is_bytes())
      if (is_new) fill(size_, n_elem - size_, T());
    size_ = n_elem;
    return 0;
  }
  int resize(std::size_t n_elem, const T& value) {
    if (n_elem > capacity_)
      reserve(n_elem, value);
    else if (n_elem > size_)
      fill(size_, n_elem - size_, value);
    size_ = n_elem;
    return 0;
  }
  int free() {
    use(nullptr, 0);
    size_ = 0;
    return 0;
  }
  std::size_t size() const { return size_; }

  // ---- elements. Pointers are to host memory.
  template <typename U> int assign(const U* src, std::size_t src_start, std::size_t n_vals) {
    const std::shared_ptr<T> before = data_;  // `src` may be in it
    if (n_vals > capacity_) {
      if constexpr (!is_bytes()) {
        use(made(n_vals, [&](void* at, std::size_t i) { ::new (at) T(static_cast<T>(src[src_start + i])); }), n_vals);
        size_ = n_vals;
        return 0;
      } else {
        use(storage(place_, n_vals), n_vals);
      }
    }
    size_ = n_vals;
    return set(0, src, src_start, n_vals);
  }
  template <typename U> int assign(const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    if (is_same(src)) {
      const buffer copy(src);
      return assign(copy, src_start, n_vals);
    }
    src.check(src_start, n_vals);
    if constexpr (!is_same_bytes<U>()) {
      const auto values = src.on_host(src_start, n_vals);
      return assign(values.get(), 0, n_vals);
    } else {
      if (n_vals > capacity_) use(storage(place_, n_vals), n_vals);
      size_ = n_vals;
      return set(0, src, src_start, n_vals);
    }
  }
  template <typename U> int assign(const buffer<U>& src) { return is_same(src) ? 0 : assign(src, 0, src.size()); }
  template <typename U> int append(const U* src, std::size_t src_start, std::size_t n_vals) {
    const std::shared_ptr<T> before = data_;  // `src` may be in it
    const std::size_t back = size_;
    append_room(n_vals);
    return set(back, src, src_start, n_vals);
  }
  template <typename U> int append(const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    src.check(src_start, n_vals);
    const std::size_t back = size_;
    append_room(n_vals);
    return set(back, src, src_start, n_vals);
  }
  template <typename U> int append(const buffer<U>& src) { return append(src, 0, src.size()); }
  template <typename U> int set(std::size_t dest_start, const U* src, std::size_t src_start, std::size_t n_vals) {
    check(dest_start, n_vals);
    if (n_vals == 0) return 0;
    const U* const values = src + src_start;
    if constexpr (is_same_bytes<U>()) {
      put(dest_start, {bytes(values), nullptr, nullptr, nullptr}, n_vals, nullptr);
    } else if (is_on_host()) {
      synchronize();
      convert(values, n_vals, data_.get() + dest_start);
    } else if constexpr (is_bytes()) {
      const hmc::Place host(hmc::Allocator::host_malloc);
      const auto cast = storage(host, n_vals);
      convert(values, n_vals, cast.get());
      put(dest_start, {bytes(cast.get()), cast, nullptr, &host}, n_vals, nullptr);
    } else {
      refuse_device();
    }
    return 0;
  }
  template <typename U> int set(const buffer<U>& src) { return set(0, src, 0, src.size()); }
  template <typename U>
  int set(std::size_t dest_start, const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    src.check(src_start, n_vals);
    check(dest_start, n_vals);
    if (n_vals == 0) return 0;
    if constexpr (is_same_bytes<U>()) {
      if (!is_same(src)) {
        put(dest_start, src.end(src_start), n_vals, src.order());
        return 0;
      }
    }
    if (is_same(src)) {  // the ranges may overlap
      const buffer<U> copy(src);
      return set(dest_start, copy, src_start, n_vals);
    }
    const auto values = src.on_host(src_start, n_vals);
    return set(dest_start, values.get(), 0, n_vals);
  }
  template <typename U> int get(std::size_t src_start, U* dest, std::size_t dest_start, std::size_t n_vals) const {
    check(src_start, n_vals);
    if (n_vals == 0) return 0;
    if constexpr (is_same_bytes<U>()) {
      fetch({bytes(dest + dest_start), nullptr, nullptr, nullptr}, src_start, n_vals);
    } else {
      const auto values = on_host(src_start, n_vals);
      buffer<U>::convert(values.get(), n_vals, dest + dest_start);
    }
    return 0;
  }
  template <typename U>
  int get(std::size_t src_start, buffer<U>& dest, std::size_t dest_start, std::size_t n_vals) const {
    return dest.set(dest_start, *this, src_start, n_vals);
  }
  template <typename U> int get(buffer<U>& dest) const { return get(0, dest, 0, size()); }

  // ---- access. The buffer's memory if code of the technology can access it on the current device, else a copy, which
  // is complete. Null if the buffer is empty.
  std::shared_ptr<const T> get_host_accessible() const {
    if (size_ == 0) return nullptr;
    return is_on_host() ? data_ : copy_at(hmc::Allocator::host_malloc);
  }
  std::shared_ptr<const T> get_cuda_accessible() const { return accessible(hmc::MemoryType::NVIDIA_GPU); }
  std::shared_ptr<const T> get_hip_accessible() const { return accessible(hmc::MemoryType::AMD_GPU); }
  std::shared_ptr<const T> get_openmp_accessible() const {
    if (size_ == 0) return nullptr;
    const hmc::Place there = hmc::Place::current(hmc::Allocator::openmp);
    return hmc::detail::is_openmp_accessible(there.device, place_) || is_memory_of(there) ? data_ : copy_at(there);
  }
  /// For the machine's accelerator; for the host if it has none.
  std::shared_ptr<const T> get_device_accessible() const {
    const hmc::MemoryType type = hmc::detail::resolved(hmc::MemoryType::DEFAULT);
    return type == hmc::MemoryType::CPU ? get_host_accessible() : accessible(type);
  }
  // Of the allocator: see hamr_buffer_allocator.h.
  int host_accessible() const { return hamr::host_accessible(alloc_); }
  int cuda_accessible() const { return hamr::cuda_accessible(alloc_); }
  int hip_accessible() const { return hamr::hip_accessible(alloc_); }
  int openmp_accessible() const { return hamr::openmp_accessible(alloc_); }
  int device_accessible() const {
    switch (hmc::detail::resolved(hmc::MemoryType::DEFAULT)) {
      case hmc::MemoryType::NVIDIA_GPU: return cuda_accessible();
      case hmc::MemoryType::AMD_GPU: return hip_accessible();
      case hmc::MemoryType::CPU: return host_accessible();
      default: return 0;  // HAMR has no allocator of this accelerator's memory
    }
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::shared_ptr<T>& pointer() { return data_; }
  const std::shared_ptr<T>& pointer() const { return data_; }

  allocator get_allocator() const { return alloc_; }
  /// The device; -1 for host memory.
  int get_owner() const { return detail::has_device(alloc_) ? place_.device : -1; }

  // ---- order
  /// After an assignment to the stream, the next call waits for the old one and uses the new one.
  stream& get_stream() { return stream_; }
  const stream& get_stream() const { return stream_; }
  void set_stream(const stream& strm, transfer sync = transfer::async) {
    stream_ = strm;
    sync_ = sync;
    order();
  }
  transfer get_transfer_mode() const { return sync_; }
  void set_transfer_asynchronous() { sync_ = transfer::async; }
  void set_transfer_sycnhronous_host() { sync_ = transfer::sync_host; }
  void set_transfer_sycnhronous() { sync_ = transfer::sync; }
  /// Waits for the transfers in flight and for the stream's work.
  int synchronize() const {
    order();
    wait();
    return 0;
  }

  /// To stderr: the allocator, the device, the sizes and the elements.
  int print() const {
    std::cerr << "m_alloc = " << get_allocator_name(alloc_) << ", m_owner = " << get_owner() << ", m_size = " << size_
              << ", m_capacity = " << capacity_ << ", m_data = ";
    const auto values = get_host_accessible();
    for (std::size_t i = 0; i < size_; ++i) std::cerr << (i == 0 ? "" : ", ") << values.get()[i];
    std::cerr << "\n";
    return 0;
  }

 private:
  template <typename U> friend class buffer;

  buffer(const hmc::Place& place, allocator alloc, const stream& strm, transfer sync)
      : alloc_(alloc), stream_(strm), sync_(sync), place_(place) {}

  static constexpr bool is_bytes() { return std::is_trivially_copyable_v<T>; }
  template <typename U> static constexpr bool is_same_bytes() { return std::is_same_v<T, U> && is_bytes(); }
  static std::byte* bytes(const T* address) { return reinterpret_cast<std::byte*>(const_cast<T*>(address)); }
  template <typename U> bool is_same(const buffer<U>& other) const {
    return static_cast<const void*>(this) == static_cast<const void*>(&other);
  }

  [[noreturn]] static void refuse(hmc::Code code, const char* why) { throw hmc::Error(code, "hamr::buffer", why); }
  [[noreturn]] static void refuse_device() {
    refuse(hmc::Code::unsupported, "elements that aren't trivially copyable need memory that the host can access");
  }
  void check(std::size_t start, std::size_t count) const {
    if (start > size_ || count > size_ - start)
      refuse(hmc::Code::out_of_range, "the range of elements exceeds the buffer");
  }

  // ---- memory
  static hmc::Place place_of(allocator alloc, int owner, const T* ptr) {
    const hmc::Allocator allocator = detail::allocator_of(alloc);
    if (!detail::has_device(alloc)) return allocator;
    if (owner >= 0) return {allocator, owner};
    return {allocator, hmc::Place::of(ptr).device};
  }
  static std::shared_ptr<T> owned(allocator alloc, int owner, T* ptr, std::size_t size, bool take) {
    if (!take) return {ptr, [](T*) {}};
    if (alloc == allocator::cpp) return {ptr, std::default_delete<T[]>()};
    const std::shared_ptr<T> memory(hmc::detail::own_at(place_of(alloc, owner, ptr), bytes(ptr)), ptr);
    return is_bytes() ? memory : with_destructor(memory, size);
  }
  static std::shared_ptr<T> with_destructor(const std::shared_ptr<T>& memory, std::size_t constructed) {
    return {std::make_shared<detail::elements<T>>(memory, constructed), memory.get()};
  }
  /// Memory for n_elem elements, which the caller constructs.
  static std::shared_ptr<T> storage(const hmc::Place& place, std::size_t n_elem) {
    constexpr std::size_t padding = alignof(T) > alignof(std::max_align_t) ? alignof(T) : 0;
    if (n_elem > (std::numeric_limits<std::size_t>::max() / 2 - padding) / sizeof(T))
      refuse(hmc::Code::out_of_memory, "more elements than memory can hold");
    std::size_t space = n_elem * sizeof(T) + padding;
    auto memory = hmc::detail::allocate_at(place, space);
    void* first = memory.get();
    if (padding > 0) first = std::align(alignof(T), n_elem * sizeof(T), first, space);
    return {std::move(memory), static_cast<T*>(first)};
  }
  /// n_elem elements; construct(address, i) constructs one.
  template <typename Construct> std::shared_ptr<T> made(std::size_t n_elem, const Construct& construct) const {
    if (!is_on_host()) refuse_device();
    const auto all = std::make_shared<detail::elements<T>>(storage(place_, n_elem), 0);
    for (T* const first = all->memory.get(); all->count < n_elem; ++all->count)
      construct(static_cast<void*>(first + all->count), all->count);
    return {all, all->memory.get()};
  }
  void use(std::shared_ptr<T> memory, std::size_t capacity) {
    data_ = std::move(memory);
    capacity_ = capacity;
  }
  void enlarge(std::size_t n_elem) {
    const hmc::detail::End before = end(0);
    use(storage(place_, n_elem), n_elem);
    if (size_ > 0) put(0, before, size_, nullptr);
  }
  /// construct(address) constructs a further element.
  template <typename Construct> void enlarge(std::size_t n_elem, const Construct& construct) {
    use(made(n_elem,
             [&](void* at, std::size_t i) {
               if (i < size_)
                 ::new (at) T(std::as_const(data_.get()[i]));
               else
                 construct(at);
             }),
        n_elem);
  }
  void append_room(std::size_t n_elem) {
    if (n_elem > std::numeric_limits<std::size_t>::max() / 2 - size_)
      refuse(hmc::Code::out_of_memory, "more elements than memory can hold");
    constexpr std::size_t least = 8;
    if (size_ + n_elem > capacity_) reserve(std::max({least, size_ + n_elem, 2 * capacity_}));
    size_ += n_elem;
  }
  void swap_memory(buffer& other) {
    data_.swap(other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    transfers_.swap(other.transfers_);
    std::swap(ordered_by_, other.ordered_by_);
  }

  // ---- transfers
  bool is_on_host() const { return hmc::detail::is_host_accessible(place_); }
  /// True if the OpenMP device is the GPU with this memory.
  bool is_memory_of(const hmc::Place& openmp) const {
    if (!hamr::openmp_accessible(alloc_)) return false;
    const auto probe = hmc::detail::allocate_at(openmp, 1);
    const hmc::Place device = hmc::Place::of(probe.get());
    return hmc::detail::is_device_accessible(hmc::detail::memory_type_of(device), device.device, place_);
  }

  /// Transfers to the host are complete at return in every mode, because HAMR's programs read the memory next.
  hmc::TransferMode mode() const {
    return sync_ == transfer::sync ? hmc::TransferMode::sync : hmc::TransferMode::sync_host;
  }
  /// The transfers of this memory on stream_. Null if the allocator has no streams; then copies are complete at return.
  hmc::detail::Transfers* order() const {
    if (!detail::has_streams(alloc_)) return nullptr;
    void* const wanted =
        stream_.handle_for(detail::is_hip(alloc_) ? hmc::MemoryType::AMD_GPU : hmc::MemoryType::NVIDIA_GPU);
    if (transfers_ == nullptr || ordered_by_ != wanted) {
      auto fresh = hmc::detail::make_transfers(place_, {hmc::TransferMode::sync_host, wanted});
      wait();
      transfers_ = std::move(fresh);
      ordered_by_ = wanted;
    }
    return transfers_.get();
  }
  void wait() const {
    if (transfers_ != nullptr) hmc::detail::synchronize(*transfers_);
  }
  hmc::detail::End end(std::size_t index) const {
    order();
    return {bytes(data_.get() + index), data_, &transfers_, &place_};
  }
  /// The device's side executes the copy, in the order of its stream. `theirs`: the transfers of `from`.
  void put(std::size_t start, const hmc::detail::End& from, std::size_t count, hmc::detail::Transfers* theirs) {
    hmc::detail::Transfers* const mine = order();
    hmc::detail::transfer(end(start), from, count * sizeof(T), mode(),
                          mine == nullptr || (theirs != nullptr && is_on_host()) ? theirs : mine);
  }
  /// Copies elements to other memory. Complete at return.
  void fetch(const hmc::detail::End& to, std::size_t start, std::size_t count) const {
    hmc::detail::Transfers* const by = order();
    hmc::detail::transfer(to, end(start), count * sizeof(T), hmc::TransferMode::sync, by);
  }
  void fill(std::size_t start, std::size_t count, const T& value) {
    if (is_on_host()) {
      synchronize();
      if constexpr (is_bytes())
        std::uninitialized_fill_n(data_.get() + start, count, value);
      else
        std::fill_n(data_.get() + start, count, value);
    } else if constexpr (is_bytes()) {
      const hmc::Place host(hmc::Allocator::host_malloc);
      constexpr std::size_t most = std::max<std::size_t>(1, (std::size_t{1} << 20) / sizeof(T));
      const auto piece = storage(host, std::min(count, most));
      std::uninitialized_fill_n(piece.get(), std::min(count, most), value);
      for (std::size_t done = 0; done < count; done += most)
        put(start + done, {bytes(piece.get()), piece, nullptr, &host}, std::min(count - done, most), nullptr);
    } else {
      refuse_device();
    }
  }
  template <typename U> static void convert(const U* values, std::size_t count, T* to) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, U>)
        to[i] = values[i];
      else
        to[i] = static_cast<T>(values[i]);
    }
  }
  /// Elements where the host can read them: the buffer's own, or a copy.
  std::shared_ptr<const T> on_host(std::size_t start, std::size_t count) const {
    if (count == 0) return nullptr;
    if (!is_on_host()) return copy_at(hmc::Allocator::host_malloc, start, count);
    synchronize();
    return {data_, data_.get() + start};
  }
  std::shared_ptr<const T> copy_at(const hmc::Place& there) const { return copy_at(there, 0, size_); }
  std::shared_ptr<const T> copy_at(const hmc::Place& there, std::size_t start, std::size_t count) const {
    if constexpr (is_bytes()) {
      const auto copy = storage(there, count);
      fetch({bytes(copy.get()), copy, nullptr, &there}, start, count);
      return copy;
    } else {
      refuse_device();
    }
  }
  std::shared_ptr<const T> accessible(hmc::MemoryType type) const {
    if (size_ == 0) return nullptr;
    const hmc::Place there = hmc::Place::current(hmc::detail::allocator_for(type));
    if (alloc_ == allocator::cuda_host) return copy_at(there);  // as HAMR: kernels read pinned memory slowly
    const hmc::Place here = alloc_ == allocator::openmp ? hmc::Place::of(data_.get()) : place_;
    return hmc::detail::is_device_accessible(type, there.device, here) ? data_ : copy_at(there);
  }

  allocator alloc_;
  stream stream_;
  transfer sync_;
  hmc::Place place_;
  std::shared_ptr<T> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  // Declared after the memory that its transfers use, so it is destroyed first. A transfer of another buffer may create
  // it.
  mutable std::shared_ptr<hmc::detail::Transfers> transfers_;
  mutable void* ordered_by_ = nullptr;  ///< the stream of transfers_, if the allocator has streams
};

}  // namespace hamr

#include <hamr_buffer_util.h>  // HAMR's examples use it without including it

#endif
