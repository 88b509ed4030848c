// FakeThread: one thread of a kernel on a fake device: its indices, and its access to device memory. Plain data, so
// that kernels compiled into a test can run on the fake.
#pragma once

#include <cstddef>

struct FakeThread {
  unsigned block, blocks, thread, threads;
  void* (*reach)(const void* address);  ///< converts a device address to the driver's mapping
  void (*meet)(void* block);            ///< waits for the block's other threads
  void* meeting;
};
/// Runs one thread of a kernel with one parameter.
using FakeKernel = void (*)(const void* argument, const FakeThread* thread);
/// The type of the exported fake_add_kernel. If `meets`, each thread of a block runs on its own host thread.
using FakeAddKernel = void (*)(const char* name, std::size_t argument_bytes, bool meets, FakeKernel kernel);
