// One thread of a kernel on a fake device: what the kernel knows of itself, and how it reaches device memory. Plain
// data, so that a test's own kernels, compiled into the test, can run on the fake.
#pragma once

#include <cstddef>

struct FakeThread {
  unsigned block, blocks, thread, threads;
  void* (*reach)(const void* address);  ///< where a device's address lies for who runs on the device
  void (*meet)(void* block);            ///< waits for the block's other threads
  void* meeting;
};
/// Runs one thread of a kernel with one parameter.
using FakeKernel = void (*)(const void* argument, const FakeThread* thread);
/// As the fake exports it: fake_add_kernel. Threads that meet get a thread of the host each.
using FakeAddKernel = void (*)(const char* name, std::size_t argument_bytes, bool meets, FakeKernel kernel);
