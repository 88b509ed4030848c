#include "launcher/program.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/exit_status.hpp"

namespace hmc::launcher {

namespace {

/// 0 if execve would accept the file, otherwise an errno.
int refusal(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return ::access(file.c_str(), X_OK) == 0 ? 0 : errno;
}

bool is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

[[noreturn]] void fail(const std::string& file, int error) {
  const int status = is_missing(error) ? exit_not_found : exit_not_executable;
  throw LaunchError(status, fmt::format("{}: {}", file, std::strerror(error)));
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path) {
  if (name.empty()) throw LaunchError(exit_not_found, "the program's name is empty");
  if (name.find('/') != std::string::npos) {
    if (const int error = refusal(name); error != 0) fail(name, error);
    return name;
  }
  std::string refused;
  int why = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    const int error = refusal(file);
    if (error == 0) return file;
    if (!is_missing(error) && error != EISDIR && refused.empty()) {
      refused = file;
      why = error;
    }
    begin = end + 1;
  }
  if (!refused.empty()) fail(refused, why);
  throw LaunchError(exit_not_found,
                    fmt::format("{0}: not found in PATH ({1}); for a program in this folder give ./{0}", name, path));
}

}  // namespace hmc::launcher
