// A program that shares memory by CUDA's own calls, and knows nothing of HMC. libcuda's path is the first argument.
//   import BYTES SEED   receives a descriptor from socket 3, checks the memory, adds 1 to each byte, answers 'y'
//   export BYTES SEED   creates memory with the bytes, sends its descriptor, and ends when the socket closes
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

// As in cuda.h.
struct Location {
  int type, id;
};
struct Prop {
  int type, handle_types;
  Location location;
  void* win32;
  unsigned char flags[8];
};
struct Desc {
  Location location;
  int flags;
};
using Address = unsigned long long;
using Handle = unsigned long long;

void* library = nullptr;

/// Ends the program if the call fails.
template <typename... Parameters, typename... Arguments> void call(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Parameters...)>(::dlsym(library, name));
  if (function == nullptr || function(static_cast<Parameters>(arguments)...) != 0) ::_exit(3);
}

Address mapped(Handle handle, std::size_t bytes) {
  Address at = 0;
  const Desc access{{1, 0}, 3};
  call<Address*, std::size_t, std::size_t, Address, unsigned long long>("cuMemAddressReserve", &at, bytes, 0, 0, 0);
  call<Address, std::size_t, std::size_t, Handle, unsigned long long>("cuMemMap", at, bytes, 0, handle, 0);
  call<Address, std::size_t, const Desc*, std::size_t>("cuMemSetAccess", at, bytes, &access, 1);
  return at;
}

msghdr message(iovec& part, char* room, std::size_t size) {
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = size;
  return header;
}

void send_fd(int fd) {
  char byte = 'f';
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = message(part, room, sizeof room);
  cmsghdr* const control = CMSG_FIRSTHDR(&header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  if (::sendmsg(3, &header, 0) != 1) ::_exit(4);
}

int receive_fd() {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = message(part, room, sizeof room);
  int fd = -1;
  if (::recvmsg(3, &header, 0) != 1 || CMSG_FIRSTHDR(&header) == nullptr) ::_exit(4);
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  library = ::dlopen(argv[1], RTLD_NOW);
  const bool imports = std::string_view(argv[2]) == "import";
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  const auto seed = static_cast<unsigned char>(std::atoi(argv[4]));
  void* context = nullptr;
  call<unsigned>("cuInit", 0);
  call<void**, int>("cuDevicePrimaryCtxRetain", &context, 0);
  call<void*>("cuCtxPushCurrent_v2", context);

  Handle handle = 0;
  if (imports) {
    const int fd = receive_fd();
    call<Handle*, void*, int>("cuMemImportFromShareableHandle", &handle,
                              reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), 1);
    ::close(fd);
  } else {
    const Prop prop{1, 1, {1, 0}, nullptr, {}};
    call<Handle*, std::size_t, const Prop*, unsigned long long>("cuMemCreate", &handle, bytes, &prop, 0);
  }
  const Address at = mapped(handle, bytes);
  std::vector<unsigned char> host(bytes, seed);
  if (imports) {
    call<void*, Address, std::size_t, void*>("cuMemcpyDtoHAsync_v2", host.data(), at, bytes, nullptr);
    call<void*>("cuStreamSynchronize", nullptr);
    for (unsigned char& each : host)
      if (each++ != seed) return 5;
  }
  call<Address, const void*, std::size_t, void*>("cuMemcpyHtoDAsync_v2", at, host.data(), bytes, nullptr);
  call<void*>("cuStreamSynchronize", nullptr);
  if (imports) return ::write(3, "y", 1) == 1 ? 0 : 4;

  int fd = -1;
  call<void*, Handle, int, unsigned long long>("cuMemExportToShareableHandle", &fd, handle, 1, 0);
  send_fd(fd);
  char ended = 0;
  return ::read(3, &ended, 1) == 0 ? 0 : 4;
}
