// Modules and kernels of a fake device. The kernels are device_kernels.inl, compiled for the host, and kernels that
// tests add. A module's image only lists their names.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "tests/fake_drivers/kernel_thread.hpp"
#include "tests/fake_drivers/streams.hpp"

namespace fake {

/// The start of an image from the fake compilers. The names of the kernels follow, one per line.
inline constexpr char image_mark[] = "fake kernels\n";

class Kernels {
 public:
  Kernels();
  void add(const char* name, std::size_t argument_bytes, bool meets, FakeKernel kernel);
  Result load(void*& module, const void* image);
  Result unload(void* module);
  Result function(void*& function, void* module, const char* name);
  /// Copies the argument at once. The kernel runs on the stream, which must be of the current device.
  Result launch(void* function, unsigned blocks, unsigned threads, void** arguments, const StreamName& stream);

 private:
  struct Kernel {
    std::size_t argument_bytes;
    bool meets;
    FakeKernel run;
  };
  std::mutex mutex_;
  std::map<std::string, Kernel> kernels_;
  std::map<void*, std::string> modules_;  ///< value: the image's names; empty for a real binary: any kernel is found
};

Kernels& kernels();

}  // namespace fake
