#include "runtime/control/user_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::control {

namespace {

constexpr const char* file_name = "hmc-secret";
constexpr std::size_t file_bytes = 2 * Secret::bytes;  // hex digits

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Code::invalid_config, "HMC_SECRET",
              fmt::format("it isn't set, and {} can't hold this user's secret: {}", path, why),
              "remove the path, or set the same one for all processes: export HMC_SECRET=$(openssl rand -hex 32)");
}

/// Empty if only this user has access to the open file or folder; else the reason.
std::string fault_of(int opened, mode_t type) {
  struct stat info {};
  if (::fstat(opened, &info) != 0) return std::strerror(errno);
  if ((info.st_mode & S_IFMT) != type) return type == S_IFDIR ? "it isn't a folder" : "it isn't a regular file";
  if (info.st_uid != ::geteuid()) return fmt::format("it belongs to user {}", info.st_uid);
  if ((info.st_mode & 077U) != 0)
    return fmt::format("its mode {:04o} gives other users access", static_cast<unsigned>(info.st_mode & 07777U));
  return {};
}

struct Folder {
  std::string path;
  base::UniqueFd fd;
  std::string fault;  ///< empty: it is this user's alone
};

Folder open_folder(const std::string& path) {
  Folder folder{path, base::UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)), {}};
  folder.fault = folder.fd ? fault_of(folder.fd.get(), S_IFDIR) : std::strerror(errno);
  return folder;
}

Folder runtime_folder() {
  if (const std::string given = base::Env::runtime_folder(); !given.empty())
    if (Folder folder = open_folder(given); folder.fault.empty()) return folder;
  if (Folder folder = open_folder(fmt::format("/run/user/{}", ::geteuid())); folder.fault.empty()) return folder;
  const std::string made = fmt::format("/tmp/hmc-{}", ::geteuid());
  (void)::mkdir(made.c_str(), 0700);  // another process, of any user, may have made it: then its owner and mode decide
  Folder folder = open_folder(made);
  if (!folder.fault.empty()) refuse(made, folder.fault);
  return folder;
}

/// Makes the file with its whole contents, unless another process is faster.
void make_file(const Folder& folder) {
  const std::string hex = Secret::random().hex();
  const std::string draft = fmt::format("{}.{}", file_name, Secret::random().hex().substr(0, 16));
  const base::UniqueFd file(
      ::openat(folder.fd.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) refuse(folder.path, std::strerror(errno));
  const bool is_written = ::write(file.get(), hex.data(), hex.size()) == static_cast<ssize_t>(hex.size());
  const bool is_there =
      is_written && (::linkat(folder.fd.get(), draft.c_str(), folder.fd.get(), file_name, 0) == 0 || errno == EEXIST);
  const int error = errno;
  (void)::unlinkat(folder.fd.get(), draft.c_str(), 0);
  if (!is_there) refuse(folder.path, std::strerror(error));
}

}  // namespace

Secret user_secret() {
  const Folder folder = runtime_folder();
  const std::string path = fmt::format("{}/{}", folder.path, file_name);
  const auto open_file = [&] {  // O_NONBLOCK: a FIFO must not block this process
    return base::UniqueFd(::openat(folder.fd.get(), file_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  };
  base::UniqueFd file = open_file();
  if (!file && errno == ENOENT) {
    make_file(folder);
    file = open_file();
  }
  if (!file) refuse(path, std::strerror(errno));
  if (const std::string fault = fault_of(file.get(), S_IFREG); !fault.empty()) refuse(path, fault);
  std::array<char, file_bytes + 1> hex{};
  if (::read(file.get(), hex.data(), hex.size()) != static_cast<ssize_t>(file_bytes))
    refuse(path, fmt::format("it doesn't have {} bytes", file_bytes));
  try {
    return Secret::from_hex({hex.data(), file_bytes});
  } catch (const Error& error) {
    refuse(path, error.detail().message);
  }
}

}  // namespace hmc::control
