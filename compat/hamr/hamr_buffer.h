// hamr::buffer<T>: HAMR's buffer on hmc::Buffer<T>. README.md lists the differences.
#ifndef hamr_buffer_h
#define hamr_buffer_h

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/buffer.hpp>

#include <hamr_buffer_allocator.h>
#include <hamr_buffer_transfer.h>
#include <hamr_config.h>
#include <hamr_stream.h>

namespace hamr {

/// A vector in the memory of an allocator, on the device that is current at construction (cudaSetDevice). Functions
/// that return int return 0. All failures throw hmc::Error.
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
    data_.resize(n_elem);
  }
  buffer(allocator alloc, std::size_t n_elem, const T& value)
      : buffer(alloc, stream(), transfer::async, n_elem, value) {}
  buffer(allocator alloc, const stream& strm, std::size_t n_elem, const T& value)
      : buffer(alloc, strm, transfer::async, n_elem, value) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t n_elem, const T& value)
      : buffer(alloc, strm, sync) {
    data_.resize(n_elem, value);
  }
  buffer(allocator alloc, std::size_t n_elem, const T* values)
      : buffer(alloc, stream(), transfer::async, n_elem, values) {}
  buffer(allocator alloc, const stream& strm, std::size_t n_elem, const T* values)
      : buffer(alloc, strm, transfer::async, n_elem, values) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t n_elem, const T* values)
      : buffer(alloc, strm, sync) {
    data_.assign(values, n_elem);
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
  /// take: the buffer frees the memory, by the allocator's function.
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t size, int owner, T* ptr, int take = 1)
      : buffer(alloc, strm, sync, size, owner, owned(alloc, owner, ptr, take != 0)) {}
  buffer(allocator alloc, const stream& strm, std::size_t size, int owner, T* ptr)
      : buffer(alloc, strm, transfer::async, size, owner, ptr) {}
  buffer(allocator alloc, std::size_t size, int owner, T* ptr)
      : buffer(alloc, stream(), transfer::async, size, owner, ptr) {}
  buffer(allocator alloc, const stream& strm, transfer sync, std::size_t size, int owner,
         const std::shared_ptr<T>& data)
      : buffer(place_of(alloc, owner, data.get()), alloc, strm, sync) {
    data_ = hmc::Buffer<T>::adopt(data_.place(), data, size, order(data_.place()));
  }
  buffer(allocator alloc, const stream& strm, std::size_t size, int owner, const std::shared_ptr<T>& data)
      : buffer(alloc, strm, transfer::async, size, owner, data) {}
  buffer(allocator alloc, std::size_t size, int owner, const std::shared_ptr<T>& data)
      : buffer(alloc, stream(), transfer::async, size, owner, data) {}

  // ---- copies. Elements of another type are cast by the host.
  buffer(const buffer& other) = default;
  template <typename U>
  buffer(const buffer<U>& other) : buffer(other.data_.place(), other.alloc_, other.stream_, other.sync_) {
    assign(other);
  }
  template <typename U>
  buffer(allocator alloc, const stream& strm, transfer sync, const buffer<U>& other) : buffer(alloc, strm, sync) {
    assign(other);
  }
  template <typename U>
  buffer(allocator alloc, const stream& strm, const buffer<U>& other) : buffer(alloc, strm, transfer::async, other) {}
  template <typename U>
  buffer(allocator alloc, const buffer<U>& other) : buffer(alloc, other.stream_, other.sync_, other) {}
  buffer(buffer&& other) = default;
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
    if (data_.place() != other.data_.place()) {
      assign(other);
      return;
    }
    data_.swap(other.data_);
    set_order();
    other.set_order();
  }
  void operator=(const buffer& other) {
    if (this != &other) assign(other);
  }
  template <typename U> void operator=(const buffer<U>& other) { assign(other); }
  void swap(buffer& other) {
    data_.swap(other.data_);
    std::swap(alloc_, other.alloc_);
    std::swap(stream_, other.stream_);
    std::swap(sync_, other.sync_);
  }

  /// To the allocator's memory on the current device. Nothing moves if the elements are already there.
  int move(allocator alloc) {
    data_.move(hmc::Place::current(detail::allocator_of(alloc)));
    alloc_ = alloc;
    set_order();
    return 0;
  }

  // ---- size. New elements are zero, or `value`.
  int reserve(std::size_t n_elem) { return data_.reserve(n_elem), 0; }
  int reserve(std::size_t n_elem, const T&) { return reserve(n_elem); }
  int resize(std::size_t n_elem) { return data_.resize(n_elem), 0; }
  int resize(std::size_t n_elem, const T& value) { return data_.resize(n_elem, value), 0; }
  int free() {
    hmc::Buffer<T>(data_.place(), order(data_.place())).swap(data_);
    return 0;
  }
  std::size_t size() const { return data_.size(); }

  // ---- elements. Pointers are to host memory.
  template <typename U> int assign(const U* src, std::size_t src_start, std::size_t n_vals) {
    return with_values(src, src_start, n_vals, [&](const T* values) { data_.assign(values, n_vals); });
  }
  template <typename U> int assign(const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    resize(n_vals);
    return set(0, src, src_start, n_vals);
  }
  template <typename U> int assign(const buffer<U>& src) {
    hmc::Buffer<T>(data_.place(), src.data_, order(data_.place())).swap(data_);
    return 0;
  }
  template <typename U> int append(const U* src, std::size_t src_start, std::size_t n_vals) {
    return with_values(src, src_start, n_vals, [&](const T* values) { data_.append(values, n_vals); });
  }
  template <typename U> int append(const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    const std::size_t back = size();
    resize(back + n_vals);
    return set(back, src, src_start, n_vals);
  }
  template <typename U> int append(const buffer<U>& src) { return append(src, 0, src.size()); }
  template <typename U> int set(std::size_t dest_start, const U* src, std::size_t src_start, std::size_t n_vals) {
    return with_values(src, src_start, n_vals, [&](const T* values) { data_.set(dest_start, values, n_vals); });
  }
  template <typename U> int set(const buffer<U>& src) { return set(0, src, 0, src.size()); }
  template <typename U>
  int set(std::size_t dest_start, const buffer<U>& src, std::size_t src_start, std::size_t n_vals) {
    if constexpr (std::is_same_v<T, U>) {
      copy(data_, dest_start, src.data_, src_start, n_vals);
    } else {
      std::vector<U> values(n_vals);
      src.get(src_start, values.data(), 0, n_vals);
      set(dest_start, values.data(), 0, n_vals);
    }
    return 0;
  }
  template <typename U> int get(std::size_t src_start, U* dest, std::size_t dest_start, std::size_t n_vals) const {
    if constexpr (std::is_same_v<T, U>) {
      data_.get(src_start, dest + dest_start, n_vals);
    } else {
      std::vector<T> values(n_vals);
      data_.get(src_start, values.data(), n_vals);
      for (std::size_t i = 0; i < n_vals; ++i) dest[dest_start + i] = static_cast<U>(values[i]);
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
  std::shared_ptr<const T> get_host_accessible() const { return complete(data_.get_host_accessible()); }
  std::shared_ptr<const T> get_cuda_accessible() const { return accessible(hmc::MemoryType::NVIDIA_GPU); }
  std::shared_ptr<const T> get_hip_accessible() const { return accessible(hmc::MemoryType::AMD_GPU); }
  std::shared_ptr<const T> get_openmp_accessible() const {
    return complete(data_.get_openmp_accessible(hmc::Place::current(hmc::Allocator::openmp).device));
  }
  /// For the machine's accelerator; for the host if it has none.
  std::shared_ptr<const T> get_device_accessible() const {
    const hmc::MemoryType type = hmc::detail::resolved(hmc::MemoryType::DEFAULT);
    return type == hmc::MemoryType::CPU ? get_host_accessible() : accessible(type);
  }
  int host_accessible() const { return hmc::detail::is_host_accessible(data_.place()) ? 1 : 0; }
  int cuda_accessible() const { return detail::is_cuda(alloc_) ? 1 : 0; }
  int hip_accessible() const { return detail::is_hip(alloc_) ? 1 : 0; }
  int openmp_accessible() const {
    const int device = hmc::Place::current(hmc::Allocator::openmp).device;
    return hmc::detail::is_openmp_accessible(device, data_.place()) ? 1 : 0;
  }
  int device_accessible() const {
    switch (hmc::detail::resolved(hmc::MemoryType::DEFAULT)) {
      case hmc::MemoryType::NVIDIA_GPU: return cuda_accessible();
      case hmc::MemoryType::AMD_GPU: return hip_accessible();
      default: return host_accessible();
    }
  }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  std::shared_ptr<T> pointer() { return data_.share(); }
  std::shared_ptr<const T> pointer() const { return data_.share(); }

  allocator get_allocator() const { return alloc_; }
  /// The device; -1 for host memory.
  int get_owner() const { return has_device(alloc_) ? data_.place().device : -1; }

  // ---- order
  const stream& get_stream() const { return stream_; }
  void set_stream(const stream& strm, transfer sync = transfer::async) {
    stream_ = strm;
    sync_ = sync;
    set_order();
  }
  transfer get_transfer_mode() const { return sync_; }
  void set_transfer_asynchronous() { set_stream(stream_, transfer::async); }
  void set_transfer_sycnhronous_host() { set_stream(stream_, transfer::sync_host); }
  void set_transfer_sycnhronous() { set_stream(stream_, transfer::sync); }
  /// Waits for the transfers in flight and for the stream's work.
  int synchronize() const { return data_.synchronize(), 0; }

  /// To stderr.
  int print() const {
    const auto values = get_host_accessible();
    for (std::size_t i = 0; i < size(); ++i) std::cerr << (i == 0 ? "" : ", ") << values.get()[i];
    return 0;
  }

 private:
  template <typename U> friend class buffer;

  buffer(hmc::Place place, allocator alloc, const stream& strm, transfer sync)
      : alloc_(alloc), stream_(strm), sync_(sync), data_(place, order(place)) {}

  static bool has_device(allocator alloc) {
    return alloc != allocator::cpp && alloc != allocator::malloc && alloc != allocator::cuda_host;
  }
  static hmc::Place place_of(allocator alloc, int owner, const T* ptr) {
    const hmc::Allocator allocator = detail::allocator_of(alloc);
    if (!has_device(alloc)) return allocator;
    if (owner >= 0) return {allocator, owner};
    return {allocator, hmc::Place::of(ptr).device};
  }
  static std::shared_ptr<T> owned(allocator alloc, int owner, T* ptr, bool take) {
    if (!take) return {ptr, [](T*) {}};
    const auto memory = hmc::detail::own_at(place_of(alloc, owner, ptr), reinterpret_cast<std::byte*>(ptr));
    return {memory, ptr};
  }

  /// Transfers to the host are complete at return in every mode, because HAMR's programs read the memory next.
  hmc::TransferOrder order(const hmc::Place& place) const {
    const auto mode = sync_ == transfer::sync ? hmc::TransferMode::sync : hmc::TransferMode::sync_host;
    const bool has_streams = detail::is_cuda(alloc_) || detail::is_hip(alloc_);
    if (!has_streams || place.allocator != detail::allocator_of(alloc_)) return mode;
    return {mode, static_cast<void*>(stream_.get_cuda_stream())};
  }
  void set_order() { data_.set_order(order(data_.place())); }

  std::shared_ptr<const T> accessible(hmc::MemoryType type) const {
    const hmc::Place there = hmc::Place::current(hmc::detail::allocator_for(type));
    return complete(data_.get_accessible(type, there.device));
  }
  /// The user's kernels aren't ordered with the stream that fills a copy, so it is complete.
  std::shared_ptr<const T> complete(std::shared_ptr<const T> handle) const {
    if (size() == 0) return nullptr;
    if (handle.get() != data_.data()) data_.synchronize();
    return handle;
  }

  /// Calls `use` with the values as T.
  template <typename U, typename Use>
  static int with_values(const U* src, std::size_t src_start, std::size_t n_vals, const Use& use) {
    if constexpr (std::is_same_v<T, U>) {
      use(src + src_start);
    } else {
      std::vector<T> values(n_vals);
      for (std::size_t i = 0; i < n_vals; ++i) values[i] = static_cast<T>(src[src_start + i]);
      use(values.data());
    }
    return 0;
  }
  static void check(const hmc::Buffer<T>& data, std::size_t start, std::size_t count) {
    if (start <= data.size() && count <= data.size() - start) return;
    throw hmc::Error(hmc::Code::out_of_range, "hamr::buffer", "the range of elements exceeds the buffer");
  }
  /// The device's side executes the copy, in the order of its stream. Complete at return.
  static void copy(hmc::Buffer<T>& to, std::size_t to_start, const hmc::Buffer<T>& from, std::size_t from_start,
                   std::size_t count) {
    check(to, to_start, count);
    check(from, from_start, count);
    if (hmc::detail::is_host_accessible(to.place())) {
      to.synchronize();
      from.get(from_start, to.data() + to_start, count);
    } else if (hmc::detail::is_host_accessible(from.place())) {
      from.synchronize();
      to.set(to_start, from.data() + from_start, count);
    } else {
      std::vector<T> values(count);
      from.get(from_start, values.data(), count);
      to.set(to_start, values.data(), count);
    }
  }

  allocator alloc_;
  stream stream_;
  transfer sync_;
  hmc::Buffer<T> data_;
};

}  // namespace hamr

#include <hamr_buffer_util.h>  // HAMR's examples use it without including it

#endif
