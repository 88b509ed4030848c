#include "runtime/base/machine.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "runtime/base/fd.hpp"

namespace hmc::base {

std::uint64_t machine_id() noexcept {
  static const std::uint64_t id = []() noexcept {
    std::array<unsigned char, 64> text{};
    const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
    if (length <= 0) return std::uint64_t{0};
    std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
    for (ssize_t i = 0; i < length; ++i) hash = (hash ^ text[static_cast<std::size_t>(i)]) * 0x100000001b3ULL;
    return hash;
  }();
  return id;
}

std::uint64_t network_namespace() noexcept {
  struct stat space {};
  return ::stat("/proc/self/ns/net", &space) == 0 ? static_cast<std::uint64_t>(space.st_ino) : 0;
}

}  // namespace hmc::base
