#include "tests/fake_drivers/kernels.hpp"

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fake_drivers/kernel_shim.hpp"
#include "tests/fake_drivers/streams.hpp"

#include "runtime/memory/kernels/device_kernels.inl"

namespace fake {

namespace {

template <typename Argument, void (*kernel)(Argument)> void run_one(const void* argument, const FakeThread* thread) {
  present_thread = thread;
  kernel(*static_cast<const Argument*>(argument));
}

void* reach_memory(const void* address) { return memory().reach(address); }

using Meeting = std::barrier<>;
void synchronize_grid(void* meeting) {
  if (meeting != nullptr) static_cast<Meeting*>(meeting)->arrive_and_wait();
}

void run_block(FakeKernel run, bool meets, const void* argument, unsigned block, unsigned blocks, unsigned threads) {
  Meeting meeting(meets ? threads : 1);
  const auto one = [&](unsigned thread) {
    const FakeThread self{block, blocks, thread, threads, &reach_memory, &synchronize_grid, meets ? &meeting : nullptr};
    run(argument, &self);
  };
  if (!meets) {
    for (unsigned thread = 0; thread < threads; ++thread) one(thread);
    return;
  }
  std::vector<std::thread> all;
  for (unsigned thread = 0; thread < threads; ++thread) all.emplace_back(one, thread);
  for (std::thread& each : all) each.join();
}

/// Whether the image is a fat binary of nvcc or an ELF file of a real compiler library.
bool is_binary(const void* image) {
  constexpr unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba}, elf[] = {0x7f, 'E', 'L', 'F'};
  return std::memcmp(image, fatbin, 4) == 0 || std::memcmp(image, elf, 4) == 0;
}

/// A bundle of AMD's code objects: the mark, the number of entries, and per entry its offset, its size and its target.
constexpr char bundle_mark[] = "__CLANG_OFFLOAD_BUNDLE__";
std::uint64_t number_at(const char* at) {
  std::uint64_t number = 0;
  std::memcpy(&number, at, sizeof number);
  return number;
}
/// The names of `all` that the device objects contain; empty if there is no device object or one is malformed.
template <typename Names> std::string kernels_in_bundle(const char* image, const Names& all) {
  std::string names = "\n";
  const char* entry = image + sizeof bundle_mark - 1 + 8;
  std::size_t objects = 0;
  for (std::uint64_t left = number_at(entry - 8); left > 0; --left) {
    const char* const object = image + number_at(entry);
    const std::uint64_t bytes = number_at(entry + 8), letters = number_at(entry + 16);
    const std::string_view target(entry + 24, letters);
    entry += 24 + letters;
    if (target.find("amdgcn") == std::string_view::npos) continue;
    if (bytes < 64 || std::memcmp(object,
                                  "\x7f"
                                  "ELF",
                                  4) != 0)
      return {};
    if (++objects > 1) continue;  // all objects have the same source
    for (const auto& [name, kernel] : all)
      if (std::string_view(object, bytes).find(name) != std::string_view::npos) names += name + "\n";
  }
  return objects > 0 ? names : "";
}

}  // namespace

Kernels::Kernels() {
  using namespace hmc_kernels;
#define HMC_ADD(name, Argument) add(#name, sizeof(Argument), false, &run_one<Argument, &::name>)
  HMC_ADD(hmc_reduce_i8, ReduceArguments);
  HMC_ADD(hmc_reduce_u8, ReduceArguments);
  HMC_ADD(hmc_reduce_i16, ReduceArguments);
  HMC_ADD(hmc_reduce_u16, ReduceArguments);
  HMC_ADD(hmc_reduce_i32, ReduceArguments);
  HMC_ADD(hmc_reduce_u32, ReduceArguments);
  HMC_ADD(hmc_reduce_i64, ReduceArguments);
  HMC_ADD(hmc_reduce_u64, ReduceArguments);
  HMC_ADD(hmc_reduce_f16, ReduceArguments);
  HMC_ADD(hmc_reduce_bf16, ReduceArguments);
  HMC_ADD(hmc_reduce_f32, ReduceArguments);
  HMC_ADD(hmc_reduce_f64, ReduceArguments);
  HMC_ADD(hmc_reduce_e4m3, ReduceArguments);
  HMC_ADD(hmc_reduce_e5m2, ReduceArguments);
  HMC_ADD(hmc_reduce_located_i32, ReduceArguments);
  HMC_ADD(hmc_reduce_located_i64, ReduceArguments);
  HMC_ADD(hmc_reduce_located_f32, ReduceArguments);
  HMC_ADD(hmc_reduce_located_f64, ReduceArguments);
#undef HMC_ADD
}

void Kernels::add(const char* name, std::size_t argument_bytes, bool meets, FakeKernel kernel) {
  const std::scoped_lock lock(mutex_);
  kernels_[name] = {argument_bytes, meets, kernel};
}

Result Kernels::load(void*& module, const void* image) {
  std::string names;
  const std::scoped_lock lock(mutex_);
  if (std::memcmp(image, image_mark, sizeof image_mark - 1) == 0) {
    names = static_cast<const char*>(image);
  } else if (std::memcmp(image, bundle_mark, sizeof bundle_mark - 1) == 0) {
    names = kernels_in_bundle(static_cast<const char*>(image), kernels_);
    if (names.empty()) return Result::invalid_value;
  } else if (!is_binary(image)) {
    return Result::invalid_value;
  }
  module = new char;  // a unique address
  modules_[module] = names;
  control().gained(Live::module);
  return Result::ok;
}

Result Kernels::unload(void* module) {
  const std::scoped_lock lock(mutex_);
  if (modules_.erase(module) != 1) return Result::invalid_handle;
  delete static_cast<char*>(module);
  control().lost(Live::module);
  return Result::ok;
}

Result Kernels::function(void*& function, void* module, const char* name) {
  const std::scoped_lock lock(mutex_);
  const auto in = modules_.find(module);
  const auto found = kernels_.find(name);
  if (in == modules_.end() || found == kernels_.end()) return Result::invalid_handle;
  if (!in->second.empty() && in->second.find(std::string("\n").append(name).append("\n")) == std::string::npos)
    return Result::invalid_handle;
  function = &found->second;
  return Result::ok;
}

Result Kernels::launch(void* function, unsigned blocks, unsigned threads, void** arguments, const StreamName& stream) {
  if (function == nullptr || blocks == 0 || threads == 0 || threads > 1024) return Result::invalid_value;
  if (const Result result = streams().check_here(stream); result != Result::ok) return result;
  const Kernel kernel = *static_cast<const Kernel*>(function);
  // operator new aligns for any parameter type.
  const std::shared_ptr<void> argument(::operator new(kernel.argument_bytes), [](void* p) { ::operator delete(p); });
  std::memcpy(argument.get(), arguments[0], kernel.argument_bytes);
  return streams().run(
      [=] {
        for (unsigned block = 0; block < blocks; ++block)
          run_block(kernel.run, kernel.meets, argument.get(), block, blocks, threads);
      },
      stream);
}

Kernels& kernels() {
  static Kernels* const one = new Kernels;
  return *one;
}

}  // namespace fake

extern "C" __attribute__((visibility("default"))) void fake_add_kernel(const char* name, std::size_t argument_bytes,
                                                                       bool meets, FakeKernel kernel) {
  fake::kernels().add(name, argument_bytes, meets, kernel);
}
