// libnvrtc and libhiprtc: the image of a source is the list of its kernels. The build defines FAKE_PREFIX. With
// FAKE_COMPILER_FAILS every compilation fails.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fake_drivers/kernels.hpp"

#define FAKE_API extern "C" __attribute__((visibility("default")))
#define FAKE_JOIN2(a, b) a##b
#define FAKE_JOIN(a, b) FAKE_JOIN2(a, b)
#define FN(name) FAKE_JOIN(FAKE_PREFIX, name)

namespace {

struct Program {
  std::string source, log, image;
};
Program& of(void* program) { return *static_cast<Program*>(program); }

std::string kernels_of(const std::string& source) {
  const std::string mark = "\nHMC_KERNEL ";
  std::string names = fake::image_mark;
  for (std::size_t at = source.find(mark); at != std::string::npos; at = source.find(mark, at)) {
    at += mark.size();
    names += source.substr(at, source.find('(', at) - at) + "\n";
  }
  return names;
}

int take(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

FAKE_API int FN(Version)(int* major, int* minor) {
  *major = 13, *minor = 0;
  return 0;
}
FAKE_API const char* FN(GetErrorString)(int code) { return code == 6 ? "ERROR_COMPILATION" : "ERROR_INTERNAL"; }
FAKE_API int FN(CreateProgram)(void** program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  *program = new Program{source, {}, {}};
  return 0;
}
FAKE_API int FN(DestroyProgram)(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
FAKE_API int FN(CompileProgram)(void* program, int, const char* const*) {
  if (std::getenv("FAKE_COMPILER_FAILS") != nullptr) {
    of(program).log = "a note\ndevice_kernels.inl(7): error: no such thing\nand more\n";
    return 6;
  }
  of(program).image = kernels_of(of(program).source);
  return 0;
}
FAKE_API int FN(GetProgramLogSize)(void* program, std::size_t* bytes) {
  *bytes = of(program).log.size() + 1;
  return 0;
}
FAKE_API int FN(GetProgramLog)(void* program, char* log) { return take(of(program).log, log); }
FAKE_API int FN(GetCUBINSize)(void* program, std::size_t* bytes) {
  *bytes = of(program).image.size() + 1;
  return 0;
}
FAKE_API int FN(GetCUBIN)(void* program, char* image) { return take(of(program).image, image); }
FAKE_API int FN(GetCodeSize)(void* program, std::size_t* bytes) { return FN(GetCUBINSize)(program, bytes); }
FAKE_API int FN(GetCode)(void* program, char* image) { return FN(GetCUBIN)(program, image); }
