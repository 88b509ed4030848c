#include "bootstrap/tcp/uncaught.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

namespace {

constexpr std::size_t longest_report = 64 << 10;
constexpr std::size_t most_frames = 24;

std::string name_for_errors(const control::Secret& secret, std::string_view host) {
  const control::Secret name = secret.derive({base::as_bytes("hmc uncaught errors"), base::as_bytes(host)});
  return "hmc-" + name.hex().substr(0, 32);
}

/// Set before the handler is installed, and then read only by it.
std::terminate_handler default_handler = nullptr;

std::string file_of(const Dl_info& info) {
  if (info.dli_fname != nullptr && std::strchr(info.dli_fname, '/') != nullptr) return info.dli_fname;
  std::array<char, 4096> path{};  // the main program may have a name without a folder
  return ::readlink("/proc/self/exe", path.data(), path.size() - 1) > 0 ? path.data() : "";
}

/// The stack of the throw, which isn't unwound if nothing catches the exception.
std::vector<UncaughtError::Frame> frames_of_the_throw() {
  std::array<void*, 64> addresses{};
  const int count = ::backtrace(addresses.data(), static_cast<int>(addresses.size()));
  Dl_info own{};
  ::dladdr(reinterpret_cast<void*>(&report_uncaught_errors), &own);
  std::vector<UncaughtError::Frame> frames;
  for (int i = 0; i < count && frames.size() < most_frames; ++i) {
    Dl_info info{};
    link_map* map = nullptr;
    if (::dladdr1(addresses[static_cast<std::size_t>(i)], &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ==
            0 ||
        map == nullptr)
      continue;
    UncaughtError::Frame frame{file_of(info), reinterpret_cast<std::uintptr_t>(addresses[static_cast<std::size_t>(i)]) -
                                                  static_cast<std::uintptr_t>(map->l_addr) - 1};  // -1: within the call
    const bool is_hmc = info.dli_fbase == own.dli_fbase && frame.file.find("libhmc.so") != std::string::npos;
    if (is_hmc || frame.file.find("/libstdc++.so") != std::string::npos ||
        frame.file.find("/libgcc_s.so") != std::string::npos || frame.file.find("/libc.so") != std::string::npos)
      continue;
    frames.push_back(std::move(frame));
  }
  return frames;
}

bool send_to_hmcrun(const Error& error) {
  const char* const secret = std::getenv("HMC_SECRET");
  const char* const node = std::getenv("HMC_NODE");
  const char* const rank = std::getenv("HMC_RANK");
  if (secret == nullptr || node == nullptr || rank == nullptr) return false;
  ErrorDetail detail = error.detail();
  detail.rank = -1;  // so that the texts of ranks with the same error are equal
  const UncaughtError report{std::atoi(rank), Error(std::move(detail)).what(), frames_of_the_throw()};
  const base::Bytes bytes = base::encode(report);
  const control::Secret key = control::Secret::from_hex(secret);
  return bytes.size() <= longest_report && (control::send_datagram_unix(name_for_errors(key, node), bytes) ||
                                            control::send_datagram_unix(name_for_errors(key, ""), bytes));
}

[[noreturn]] void handle_terminate() {
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
  } catch (const Error& error) {
    bool is_sent = false;
    try {
      is_sent = send_to_hmcrun(error);
    } catch (...) {  // no memory, or the environment was changed: the default handler prints the error
    }
    if (is_sent) std::abort();
  } catch (...) {  // not HMC's
  }
  default_handler();
  std::abort();
}

}  // namespace

UncaughtErrors::UncaughtErrors(const control::Secret& secret, std::string_view host)
    : socket_(control::receive_datagrams_unix(name_for_errors(secret, host))) {}

std::vector<UncaughtError> UncaughtErrors::take() {
  std::vector<UncaughtError> errors;
  if (!socket_) return errors;
  base::Bytes bytes(longest_report);
  for (ssize_t size = 0; (size = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) >= 0;)
    if (auto error = base::decode<UncaughtError>(base::ByteView(bytes).first(static_cast<std::size_t>(size))))
      errors.push_back(*std::move(error));
  return errors;
}

void report_uncaught_errors() noexcept {
  static std::atomic<bool> called{false};
  const char* const launcher = std::getenv("HMC_LAUNCHER");
  if (launcher == nullptr || std::strcmp(launcher, "hmcrun") != 0 || called.exchange(true)) return;
#ifdef __GLIBCXX__
  if (std::get_terminate() != &__gnu_cxx::__verbose_terminate_handler) return;
  default_handler = std::get_terminate();
  std::set_terminate(&handle_terminate);
#endif
}

}  // namespace hmc::bootstrap
