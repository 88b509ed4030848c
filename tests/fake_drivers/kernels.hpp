// Modules and kernels of a fake device. Its kernels are device_kernels.inl, compiled for the host, and what tests add;
// a module's image only says which of them it has.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "tests/fake_drivers/kernel_thread.hpp"
#include "tests/fake_drivers/streams.hpp"

namespace fake {

/// What the fake compilers make: this, then the kernels' names, each with a line of its own.
inline constexpr char image_mark[] = "fake kernels\n";

class Kernels {
 public:
  Kernels();
  void add(const char* name, std::size_t argument_bytes, bool meets, FakeKernel kernel);
  Result load(void*& module, const void* image);
  Result unload(void* module);
  Result function(void*& function, void* module, const char* name);
  /// The argument is copied now, the kernel runs on the stream, which must be of the current device.
  Result launch(void* function, unsigned blocks, unsigned threads, void** arguments, const StreamName& stream);

 private:
  struct Kernel {
    std::size_t argument_bytes;
    bool meets;
    FakeKernel run;
  };
  std::mutex mutex_;
  std::map<std::string, Kernel> kernels_;
  std::map<void*, std::string> modules_;  ///< with the image's names; empty: a real binary, whose names aren't read
};

Kernels& kernels();

}  // namespace fake
