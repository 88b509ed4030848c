// Runs a fuzz target by libFuzzer.
//
//   TARGET SEEDS FOUND   first writes the seeds into the folder SEEDS; options and folders are libFuzzer's
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.hpp"

using namespace hmc;

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  // The first folder. libFuzzer also starts processes for its jobs, with the same arguments.
  for (int i = 1; i < *count; ++i) {
    const std::string folder = (*arguments)[i];
    if (folder.starts_with('-')) continue;
    if (!std::filesystem::is_directory(folder)) break;  // a single input, to repeat a crash
    int number = 0;
    fuzz::add_seeds([&](base::ByteView seed) {
      std::ofstream out(folder + "/seed" + std::to_string(number++), std::ios::binary);
      out.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
    });
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
