// What a kernel does with a window: the device-side API. Header only; for nvcc, hipcc, NVRTC and hipRTC.
//
//     __global__ void step(hmc::DeviceHandle window) {
//       const hmc::DeviceWindow win(window);
//       const int next = (win.rank() + 1) % win.size();
//       win.put_block(next, 0, source, bytes);             // all threads of the block take part
//       if (threadIdx.x == 0) win.signal(next, 4096, 1);   // whoever sees the word sees the bytes
//       if (threadIdx.x == 0) win.wait(4096, 1);
//       __syncthreads();
//     }
//
// The handle comes from Window::device_handle. What a kernel reaches: parts in device memory that this rank's device
// has mapped (peers on the node), and parts in host memory of this node, registered with the device. Elsewhere
// reaches() is false, and the verbs do nothing but say so: they return false.
//
// Order: a put's bytes are written when it returns, and may be seen by others later; signal() makes the calling
// thread's earlier writes visible to everybody before its word, and put_block and put_warp end with the group's threads
// together, so that a signal by one of them after it covers all. wait() makes visible what came before the word.
// signal() is a store: words that several ranks raise take add(). What HMC's host verbs do to a word on a device
// meanwhile isn't atomic with it; words in host parts are the host's and the devices' alike: Window::wait_until sees a
// kernel's signal there, and a kernel's wait() a host's put_signal. An add() there is atomic with the host's atomics
// only where the device has native atomics with the host (CUDA's attribute hostNativeAtomicSupported; over PCIe most
// don't): elsewhere let either the host or one device change such a word, not both.
//
// This rank's own part may lie at another address here than the one that its buffer has on the host (the same memory,
// mapped twice, so that all parts lie at equal distances). Within one kernel a byte is written and read by the one
// address or by the other, not by both: what a kernel wrote by the one is seen by the other in kernels that begin when
// it is over. A kernel that runs by then, on whatever stream, may still see what was there before.
//
// wait() spins on the device: only for ranks whose kernels run at the same time. Two processes that share one device
// take turns; there let the host wait (Window::wait_until), or the stream (Team::barrier_on).
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

class DeviceWindow {
 public:
  using Word = unsigned long long;
  using Size = unsigned long long;

  HMC_DEVICE_FUNCTION explicit DeviceWindow(const DeviceHandle& handle) : handle_(handle) {}

  HMC_DEVICE_FUNCTION int rank() const { return handle_.rank; }
  HMC_DEVICE_FUNCTION int size() const { return handle_.size; }
  HMC_DEVICE_FUNCTION bool reaches(int rank) const { return start(rank) != nullptr; }
  HMC_DEVICE_FUNCTION Size bytes(int rank) const { return handle_.base != nullptr ? handle_.bytes : part(rank).bytes; }

  /// A rank's byte at `offset`; null where this device doesn't reach it.
  template <typename T> HMC_DEVICE_FUNCTION T* ptr(int rank, Size offset = 0) const {
    unsigned char* const first = start(rank);
    return first == nullptr ? nullptr : HMC_DEVICE_REACH(reinterpret_cast<T*>(first + offset));
  }
  /// This rank's own.
  template <typename T> HMC_DEVICE_FUNCTION T* local(Size offset = 0) const { return ptr<T>(rank(), offset); }
  /// A rank's user context, 64 KiB; null where it isn't open or this device doesn't reach it.
  template <typename T> HMC_DEVICE_FUNCTION const T* context(int rank, Size offset = 0) const {
    const unsigned char* const start = part(rank).context;
    return start == nullptr ? nullptr : HMC_DEVICE_REACH(reinterpret_cast<const T*>(start + offset));
  }

  // ---- transfers: by one thread, by all threads of a warp, by all threads of a block. `source` and `destination` are
  // this device's. False: out of the part, or not reached; the same for all who take part.
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

  // ---- words of 64 bits, at multiples of 8
  /// After what this thread has written or seen written.
  HMC_DEVICE_FUNCTION bool signal(int rank, Size offset, Word value) const {
    auto* const word = static_cast<Word*>(at(rank, offset, sizeof(Word)));
    if (word == nullptr) return false;
    HMC_DEVICE_FENCE();
    *static_cast<volatile Word*>(HMC_DEVICE_REACH(word)) = value;
    return true;
  }
  HMC_DEVICE_FUNCTION bool add(int rank, Size offset, Word value) const {
    auto* const word = static_cast<Word*>(at(rank, offset, sizeof(Word)));
    if (word == nullptr) return false;
    HMC_DEVICE_FENCE();
    HMC_DEVICE_ADD(HMC_DEVICE_REACH(word), value);
    return true;
  }
  /// Of this rank's own word; what came before it is visible then if it is what was waited for.
  HMC_DEVICE_FUNCTION Word test(Size offset) const {
    auto* const word = static_cast<Word*>(at(rank(), offset, sizeof(Word)));
    if (word == nullptr) return 0;
    const Word seen = *static_cast<volatile Word*>(HMC_DEVICE_REACH(word));
    HMC_DEVICE_FENCE();
    return seen;
  }
  /// Until this rank's own word is `value` or more; returns it.
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
  /// Parts that lie at equal distances are found without a look into the table.
  HMC_DEVICE_FUNCTION unsigned char* start(int rank) const {
    return handle_.base != nullptr ? handle_.base + static_cast<Size>(rank) * handle_.stride : part(rank).address;
  }
  HMC_DEVICE_FUNCTION void* at(int rank, Size offset, Size size) const {
    unsigned char* const first = start(rank);
    const Size there = bytes(rank);
    return first != nullptr && size <= there && offset <= there - size ? first + offset : nullptr;
  }
  /// Every `many`th piece from `first` on: of 16 bytes where both sides are aligned to that, else of one.
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
  // Blocks may have up to three dimensions; warps are cut from the threads in this order.
  HMC_DEVICE_FUNCTION static unsigned thread() {
    return (HMC_DEVICE_THREAD.z * HMC_DEVICE_BLOCK.y + HMC_DEVICE_THREAD.y) * HMC_DEVICE_BLOCK.x + HMC_DEVICE_THREAD.x;
  }
  HMC_DEVICE_FUNCTION static unsigned threads() { return HMC_DEVICE_BLOCK.x * HMC_DEVICE_BLOCK.y * HMC_DEVICE_BLOCK.z; }
  // Each thread's own writes come before the meeting, so that a signal after it by any of the group covers all.
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
