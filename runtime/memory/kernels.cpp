#include "runtime/memory/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/base/env.hpp"
#include "runtime/memory/device_stream.hpp"
#include "runtime/memory/kernels/device_kernels.hpp"

namespace hmc::memory {

namespace {

using Program = void*;

/// The two libraries have the same functions with different prefixes.
struct Compiler {
  Compiler(const LibraryNames& names, const std::string& prefix, const char* size_of_image, const char* image_of)
      : library(names), text{prefix + "Version",        prefix + "CreateProgram",  prefix + "CompileProgram",
                             prefix + "DestroyProgram", prefix + "GetErrorString", prefix + "GetProgramLogSize",
                             prefix + "GetProgramLog",  prefix + size_of_image,    prefix + image_of} {}

  Library library;
  std::string text[9];
  template <typename S> using Call = Symbol<S>;
  Call<int(int*, int*)> version{library, text[0].c_str()};
  Call<int(Program*, const char*, const char*, int, const char* const*, const char* const*)> create{library,
                                                                                                    text[1].c_str()};
  Call<int(Program, int, const char* const*)> compile{library, text[2].c_str()};
  Call<int(Program*)> destroy{library, text[3].c_str()};
  Call<const char*(int)> error_string{library, text[4].c_str()};
  Call<int(Program, std::size_t*)> log_size{library, text[5].c_str()};
  Call<int(Program, char*)> log{library, text[6].c_str()};
  Call<int(Program, std::size_t*)> image_size{library, text[7].c_str()};
  Call<int(Program, char*)> image{library, text[8].c_str()};
};

/// The first line of the log that contains "error".
std::string first_error(const Compiler& compiler, Program program) {
  std::size_t bytes = 0;
  if (!compiler.log_size(program, &bytes).ok() || bytes < 2) return {};
  std::string log(bytes, '\0');
  if (!compiler.log(program, log.data()).ok()) return {};
  const std::size_t at = std::min(log.find("error"), log.size());
  const std::size_t start = at == log.size() ? 0 : log.rfind('\n', at) + 1;
  return ": " + log.substr(start, log.find('\n', start) - start);
}

void compile(const Compiler& compiler, std::vector<const char*>& options, CompiledKernels& made) {
  const auto fail = [&](const DriverResult& result, const std::string& more = {}) {
    made.why_not =
        fmt::format("{} answered {}{}", result.call, compiler.error_string.raw()(static_cast<int>(result.code)), more);
  };
  Program program = nullptr;
  if (const DriverResult made_it =
          compiler.create(&program, kernels_source(), "device_kernels.inl", 0, nullptr, nullptr);
      !made_it.ok())
    return fail(made_it);
  std::size_t bytes = 0;
  if (const DriverResult compiled = compiler.compile(program, static_cast<int>(options.size()), options.data());
      !compiled.ok()) {
    fail(compiled, first_error(compiler, program));
  } else if (const DriverResult sized = compiler.image_size(program, &bytes); !sized.ok()) {
    fail(sized);
  } else {
    made.image.resize(bytes);
    if (const DriverResult got = compiler.image(program, made.image.data()); !got.ok()) fail(got);
  }
  (void)compiler.destroy(&program);
}

}  // namespace

CompiledKernels compile_kernels(MemoryType type, const std::string& architecture) {
  CompiledKernels made;
  const bool nvidia = type == MemoryType::NVIDIA_GPU;
  const Compiler compiler = nvidia ? Compiler(nvrtc_library, "nvrtc", "GetCUBINSize", "GetCUBIN")
                                   : Compiler(hiprtc_library, "hiprtc", "GetCodeSize", "GetCode");
  made.why_not = compiler.library.why_not();
  if (!made.why_not.empty()) return made;
  int major = 0, minor = 0;
  (void)compiler.version(&major, &minor);
  made.by = fmt::format("{} {}.{}", nvidia ? "NVRTC" : "hipRTC", major, minor);
  const std::string target = "--gpu-architecture=" + architecture;
  // No contraction: a fused multiply-add rounds differently than the host's kernels.
  std::vector<const char*> options{nvidia ? "--fmad=false" : "-ffp-contract=off",
                                   nvidia ? "--std=c++17" : "-std=c++17"};
  if (!architecture.empty()) options.push_back(target.c_str());
  compile(compiler, options, made);
  return made;
}

namespace {

constexpr unsigned block_threads = 256;
constexpr std::uint64_t most_blocks = 1024;  // with more work, each thread executes several steps

/// Reductions, in the order of DType.
constexpr const char* names[] = {"hmc_reduce_i8",          "hmc_reduce_u8",          "hmc_reduce_i16",
                                 "hmc_reduce_u16",         "hmc_reduce_i32",         "hmc_reduce_u32",
                                 "hmc_reduce_i64",         "hmc_reduce_u64",         "hmc_reduce_f16",
                                 "hmc_reduce_bf16",        "hmc_reduce_f32",         "hmc_reduce_f64",
                                 "hmc_reduce_e4m3",        "hmc_reduce_e5m2",        "hmc_reduce_located_i32",
                                 "hmc_reduce_located_i64", "hmc_reduce_located_f32", "hmc_reduce_located_f64"};

}  // namespace

Kernels::Kernels(const Vendor& vendor, const Failures& failures)
    : vendor_(vendor), calls_(*vendor.kernels()), failures_(failures) {
  for (int i = 0; i < vendor.device_count(); ++i) devices_.push_back(std::make_unique<Loaded>());
}

Kernels::~Kernels() {
  for (std::size_t device = 0; device < devices_.size(); ++device)
    if (void* const module = devices_[device]->module; module != nullptr)
      (void)on_device(vendor_, static_cast<int>(device), [&] { return calls_.unload(module); });
}

Kernels::Loaded& Kernels::loaded(int device) const {
  Loaded& found = *devices_[static_cast<std::size_t>(device)];
  std::call_once(found.once, [&] { load(found, device); });
  return found;
}

std::string Kernels::why_not(int device) const { return loaded(device).why_not; }
std::string Kernels::origin(int device) const { return loaded(device).origin; }

void Kernels::load(Loaded& into, int device) const {
  static_assert(std::size(names) == function_count);
  const std::string from = base::Env::library("HMC_DEVICE_KERNELS");
  into.why_not = from == "none" ? kernels_off : calls_.why_not();
  if (!into.why_not.empty()) return;
  std::string embedded =
      fmt::format("this build has none for {}: {}", vendor_.name(), why_no_embedded_kernels(vendor_.type()));
  const bool was_refused = embedded_kernels(vendor_.type()) != nullptr && from != "runtime";
  if (const void* const image = embedded_kernels(vendor_.type()); image != nullptr) {
    embedded = from == "runtime" ? "HMC_DEVICE_KERNELS=runtime" : load_image(into, device, image);
    if (embedded.empty()) into.origin = "built in";
    if (embedded.empty()) return;
  }
  const OnDevice here(vendor_, device);  // hipRTC compiles for the current device
  if (!here.result().ok()) {
    into.why_not = failures_.text_of(here.result());
    return;
  }
  const CompiledKernels compiled = compile_kernels(vendor_.type(), calls_.architecture(device));
  into.why_not = compiled.why_not.empty() ? load_image(into, device, compiled.image.data()) : compiled.why_not;
  if (into.why_not.empty())
    into.origin = was_refused ? fmt::format("{}, not built in: {}", compiled.by, embedded) : compiled.by;
  else
    into.why_not = fmt::format("{}; {}", embedded, into.why_not);
}

/// Returns an empty text if the image and all its functions were loaded. Otherwise unloads the image and returns the
/// reason.
std::string Kernels::load_image(Loaded& into, int device, const void* image) const {
  const DriverResult result = on_device(vendor_, device, [&] {
    DriverResult last = calls_.load(into.module, image);
    for (std::size_t i = 0; last.ok() && i < function_count; ++i)
      last = calls_.function(into.functions[i], into.module, names[i]);
    if (!last.ok() && into.module != nullptr) (void)calls_.unload(into.module);
    return last;
  });
  if (result.ok()) return {};
  into.module = nullptr;
  return failures_.text_of(result);
}

base::Status Kernels::reduce(int device, DType type, const ReduceArguments& call, void* stream) const noexcept {
  ReduceArguments given = call;
  std::uintptr_t all = 0;
  for (int k = 0; k < call.in_count; ++k) all |= reinterpret_cast<std::uintptr_t>(call.ins[k]);
  for (int k = 0; k < call.out_count; ++k) all |= reinterpret_cast<std::uintptr_t>(call.outs[k]);
  given.aligned = all % 16 == 0 ? 1 : 0;
  const std::uint64_t per_thread = given.aligned != 0 && !is_located(type) ? 16 / size_of(type) : 1;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>((call.count / per_thread + block_threads - 1) / block_threads, 1, most_blocks));
  void* const function = devices_[static_cast<std::size_t>(device)]->functions[static_cast<std::size_t>(type)];
  void* parameters[] = {&given};
  return failures_.to_status(
      on_device(vendor_, device, [&] { return calls_.launch(function, blocks, block_threads, parameters, stream); }));
}

}  // namespace hmc::memory
