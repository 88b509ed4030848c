// The device-side API: access to a window from kernels. Header only; for nvcc, hipcc, NVRTC and hipRTC.
//
//     __global__ void step(hmc::DeviceHandle window) {
//       const hmc::DeviceWindow win(window);
//       const int next = (win.rank() + 1) % win.size();
//       win.put_block(next, 0, source, bytes);             // called by all threads of the block
//       if (threadIdx.x == 0) win.signal(next, 4096, 1);   // a rank that sees the value sees the bytes
//       if (threadIdx.x == 0) win.wait(4096, 1);
//       __syncthreads();
//     }
//
// The handle comes from Window::device_handle. A kernel can access:
//  - parts in device memory of this node that this rank's device has mapped
//  - parts in host memory of this node, which are registered with the device
//  - no other part: for these reaches() is false, and put, get, signal and add return false without effect
//
// ORDER
//  - put: at return the calling thread has issued all stores. They may become visible to other threads, other devices
//    and the host later.
//  - signal(): the calling thread's earlier writes become visible to all observers before the word does.
//  - put_block and put_warp end with a barrier of the block or warp, so a later signal by one of its threads covers all
//    bytes.
//  - wait(): at return the writes before the corresponding signal are visible.
//  - signal() is a store. Use add() for a word that several ranks increment.
//
// HOST AND DEVICE
//  - Words in host memory: Window::wait_until sees a kernel's signal(), and a kernel's wait() sees a host's put_signal.
//  - A kernel's add() on such a word is atomic with the host's atomics only if the device supports native host atomics
//    (CUDA's attribute hostNativeAtomicSupported; most devices on PCIe don't). Otherwise only the host, or only one
//    device, may modify the word.
//  - Words in device memory: signals and atomics of Window aren't atomic with a kernel's accesses.
//
// ADDRESSES. This rank's own part may have two addresses on the device: the address in the handle, and the address of
// the ConnBuffer. A kernel must access each byte through only one of them. Kernels that start after that kernel has
// completed see its writes through both addresses. A kernel that is already running may see old bytes through the other
// address.
//
// DEADLOCK. wait() spins on the device. Use it only if the ranks' kernels run concurrently. A device that several
// processes share is time-sliced; then wait on the host (Window::wait_until) or in the stream (Team::barrier_on).
#pragma once

#include <hmc/device_handle.hpp>

#if !defined(HMC_DEVICE_FUNCTION)
#define HMC_DEVICE_FUNCTION __device__ inline
#define HMC_DEVICE_REACH(pointer) (pointer)
#define HMC_DEVICE_THREAD threadIdx
#define HMC_DEVICE_BLOCK blockDim
#define HMC_DEVICE_SYNC_BLOCK() __syncthreads()
#if defined(__HIPCC__) || defined(__HIPCC_RTC__) || defined(__HIP_DEVICE_COMPILE__)
#define HMC_DEVICE_LANES static_cast<unsigned>(warpSize)
#define HMC_DEVICE_SYNC_WARP() __builtin_amdgcn_wave_barrier()
#else
#define HMC_DEVICE_LANES 32U
#define HMC_DEVICE_SYNC_WARP() __syncwarp()
#endif
#define HMC_DEVICE_FENCE() __threadfence_system()
#define HMC_DEVICE_ADD(pointer, value) atomicAdd_system(pointer, value)
#endif

namespace hmc {

/// A window in a kernel. Constructed from the DeviceHandle that the host passed to the kernel.
class DeviceWindow {
 public:
  using Word = unsigned long long;
  using Size = unsigned long long;

  HMC_DEVICE_FUNCTION explicit DeviceWindow(const DeviceHandle& handle) : handle_(handle) {}

  HMC_DEVICE_FUNCTION int rank() const { return handle_.rank; }
  HMC_DEVICE_FUNCTION int size() const { return handle_.size; }
  HMC_DEVICE_FUNCTION bool reaches(int rank) const { return start(rank) != nullptr; }
  HMC_DEVICE_FUNCTION Size bytes(int rank) const { return handle_.base != nullptr ? handle_.bytes : part(rank).bytes; }

  /// The address of byte `offset` of a rank's part; null if this device can't access it.
  template <typename T> HMC_DEVICE_FUNCTION T* ptr(int rank, Size offset = 0) const {
    unsigned char* const first = start(rank);
    return first == nullptr ? nullptr : HMC_DEVICE_REACH(reinterpret_cast<T*>(first + offset));
  }
  /// The address of byte `offset` of this rank's part.
  template <typename T> HMC_DEVICE_FUNCTION T* local(Size offset = 0) const { return ptr<T>(rank(), offset); }
  /// The address of byte `offset` of a rank's user context (64 KiB). Null if the context isn't open, or if this device
  /// can't access it.
  template <typename T> HMC_DEVICE_FUNCTION const T* context(int rank, Size offset = 0) const {
    const unsigned char* const start = part(rank).context;
    return start == nullptr ? nullptr : HMC_DEVICE_REACH(reinterpret_cast<const T*>(start + offset));
  }

  // ---- transfers: called by one thread (put, get), by all threads of a warp, or by all threads of a block. `source`
  // and `destination` are memory that this device can access. On all calling threads they return false if the range
  // exceeds the part or the device can't access it.
  HMC_DEVICE_FUNCTION bool put(int rank, Size offset, const void* source, Size bytes) const {
    return move(at(rank, offset, bytes), source, bytes, 0, 1);
  }
  HMC_DEVICE_FUNCTION bool get(int rank, Size offset, void* destination, Size bytes) const {
    return move(destination, at(rank, offset, bytes), bytes, 0, 1);
  }
  HMC_DEVICE_FUNCTION bool put_warp(int rank, Size offset, const void* source, Size bytes) const {
    return warp(at(rank, offset, bytes), source, bytes);
  }
  HMC_DEVICE_FUNCTION bool get_warp(int rank, Size offset, void* destination, Size bytes) const {
    return warp(destination, at(rank, offset, bytes), bytes);
  }
  HMC_DEVICE_FUNCTION bool put_block(int rank, Size offset, const void* source, Size bytes) const {
    return block(at(rank, offset, bytes), source, bytes);
  }
  HMC_DEVICE_FUNCTION bool get_block(int rank, Size offset, void* destination, Size bytes) const {
    return block(destination, at(rank, offset, bytes), bytes);
  }

  // ---- words of 64 bits, 8-byte aligned
  /// Stores `value`. This thread's earlier writes, and writes that it has observed, become visible before the word.
  HMC_DEVICE_FUNCTION bool signal(int rank, Size offset, Word value) const {
    auto* const word = static_cast<Word*>(at(rank, offset, sizeof(Word)));
    if (word == nullptr) return false;
    HMC_DEVICE_FENCE();
    *static_cast<volatile Word*>(HMC_DEVICE_REACH(word)) = value;
    return true;
  }
  /// Adds `value` atomically, with the same ordering as signal().
  HMC_DEVICE_FUNCTION bool add(int rank, Size offset, Word value) const {
    auto* const word = static_cast<Word*>(at(rank, offset, sizeof(Word)));
    if (word == nullptr) return false;
    HMC_DEVICE_FENCE();
    HMC_DEVICE_ADD(HMC_DEVICE_REACH(word), value);
    return true;
  }
  /// Returns this rank's own word. At return the writes before the signal() or add() that wrote this value are visible.
  HMC_DEVICE_FUNCTION Word test(Size offset) const {
    auto* const word = static_cast<Word*>(at(rank(), offset, sizeof(Word)));
    if (word == nullptr) return 0;
    const Word seen = *static_cast<volatile Word*>(HMC_DEVICE_REACH(word));
    HMC_DEVICE_FENCE();
    return seen;
  }
  /// Waits until this rank's own word is at least `value`; returns the word.
  HMC_DEVICE_FUNCTION Word wait(Size offset, Word value) const {
    for (;;) {
      const Word seen = test(offset);
      if (seen >= value || at(rank(), offset, sizeof(Word)) == nullptr) return seen;
    }
  }

 private:
  HMC_DEVICE_FUNCTION const DeviceHandle::Part& part(int rank) const {
    return HMC_DEVICE_REACH(const_cast<DeviceHandle::Part*>(handle_.parts))[rank];
  }
  /// With a base, the address is computed and the table in device memory isn't read.
  HMC_DEVICE_FUNCTION unsigned char* start(int rank) const {
    return handle_.base != nullptr ? handle_.base + static_cast<Size>(rank) * handle_.stride : part(rank).address;
  }
  HMC_DEVICE_FUNCTION void* at(int rank, Size offset, Size size) const {
    unsigned char* const first = start(rank);
    const Size there = bytes(rank);
    return first != nullptr && size <= there && offset <= there - size ? first + offset : nullptr;
  }
  /// Copies the pieces first, first + many, first + 2 * many, ... A piece has 16 bytes if both sides are 16-byte
  /// aligned, else one byte.
  HMC_DEVICE_FUNCTION static bool move(void* to, const void* from, Size bytes, Size first, Size many) {
    if (to == nullptr || from == nullptr) return false;
    struct alignas(16) Piece {
      Word words[2];
    };
    const bool aligned = (reinterpret_cast<Size>(to) | reinterpret_cast<Size>(from)) % sizeof(Piece) == 0;
    const Size pieces = aligned ? bytes / sizeof(Piece) : 0;
    auto* const to_pieces = HMC_DEVICE_REACH(static_cast<Piece*>(to));
    const auto* const from_pieces = HMC_DEVICE_REACH(static_cast<const Piece*>(from));
    for (Size i = first; i < pieces; i += many) to_pieces[i] = from_pieces[i];
    auto* const to_bytes = HMC_DEVICE_REACH(static_cast<unsigned char*>(to));
    const auto* const from_bytes = HMC_DEVICE_REACH(static_cast<const unsigned char*>(from));
    for (Size i = pieces * sizeof(Piece) + first; i < bytes; i += many) to_bytes[i] = from_bytes[i];
    return true;
  }
  // The linear index in a block of up to three dimensions. Warps consist of threads with consecutive indices.
  HMC_DEVICE_FUNCTION static unsigned thread() {
    return (HMC_DEVICE_THREAD.z * HMC_DEVICE_BLOCK.y + HMC_DEVICE_THREAD.y) * HMC_DEVICE_BLOCK.x + HMC_DEVICE_THREAD.x;
  }
  HMC_DEVICE_FUNCTION static unsigned threads() { return HMC_DEVICE_BLOCK.x * HMC_DEVICE_BLOCK.y * HMC_DEVICE_BLOCK.z; }
  // Each thread's fence precedes the barrier, so a later signal by any thread of the group covers all writes.
  HMC_DEVICE_FUNCTION static bool warp(void* to, const void* from, Size bytes) {
    const unsigned lane = thread() % HMC_DEVICE_LANES;
    const unsigned left = threads() - (thread() - lane);  // the last warp of a block may have fewer lanes
    const bool moved = move(to, from, bytes, lane, left < HMC_DEVICE_LANES ? left : HMC_DEVICE_LANES);
    HMC_DEVICE_FENCE();
    HMC_DEVICE_SYNC_WARP();
    return moved;
  }
  HMC_DEVICE_FUNCTION static bool block(void* to, const void* from, Size bytes) {
    const bool moved = move(to, from, bytes, thread(), threads());
    HMC_DEVICE_FENCE();
    HMC_DEVICE_SYNC_BLOCK();
    return moved;
  }

  DeviceHandle handle_;
};

}  // namespace hmc
