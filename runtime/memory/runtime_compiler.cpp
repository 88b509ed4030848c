#include "runtime/memory/runtime_compiler.hpp"

#include <fmt/format.h>

#include <vector>

#include "runtime/memory/kernels/embedded.hpp"

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
  const auto fail = [&](const Answer& answer, const std::string& more = {}) {
    made.why_not =
        fmt::format("{} answered {}{}", answer.call, compiler.error_string.raw()(static_cast<int>(answer.code)), more);
  };
  Program program = nullptr;
  if (const Answer made_it = compiler.create(&program, kernels_source(), "device_kernels.inl", 0, nullptr, nullptr);
      !made_it.ok())
    return fail(made_it);
  std::size_t bytes = 0;
  if (const Answer compiled = compiler.compile(program, static_cast<int>(options.size()), options.data());
      !compiled.ok()) {
    fail(compiled, first_error(compiler, program));
  } else if (const Answer sized = compiler.image_size(program, &bytes); !sized.ok()) {
    fail(sized);
  } else {
    made.image.resize(bytes);
    if (const Answer got = compiler.image(program, made.image.data()); !got.ok()) fail(got);
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

}  // namespace hmc::memory
