// Device memory that a process outside of any job maps, by a handle over a Unix socket. The program starts itself as
// the reader. Then the writer ends first: the reader's reference keeps the memory.
//
//   ./13_shared_handle
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <hmc/vmm.hpp>

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t count = 1'000'000;
constexpr int readers_socket = 3;

int square(std::size_t i) { return static_cast<int>(i * i % 1'000'003); }

/// The other process.
int read_memory() {
  const hmc::PhysicalMemory memory = hmc::PhysicalMemory::receive(readers_socket);
  const hmc::Mapping mapping = memory.map(hmc::Access::read);
  char ended = 0;
  while (::read(readers_socket, &ended, 1) > 0) {  // until the writer has closed everything
  }
  std::vector<int> numbers(count);
  mapping.read(0, numbers.data(), count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) {
    if (numbers[i] == square(i)) continue;
    std::fprintf(stderr, "element %zu is %d instead of %d\n", i, numbers[i], square(i));
    return 1;
  }
  std::printf("reader: %zu numbers are right; device %d, %zu bytes\n", count, memory.device(), memory.size());
  return 0;
}

/// Starts this program again, with the other end of a socket.
pid_t start_reader(const char* program, int& socket) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], readers_socket);
  const char* const arguments[] = {program, "reader", nullptr};
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, const_cast<char**>(arguments), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  socket = ends[0];
  return pid;
}

int write_memory(const char* program) {
  int socket = -1;
  pid_t reader = -1;
  {
    const hmc::PhysicalMemory memory = hmc::PhysicalMemory::create(count * sizeof(int));
    hmc::Mapping mapping = memory.map();
    reader = start_reader(program, socket);
    if (reader < 0) return 1;
    std::vector<int> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = square(i);
    mapping.write(0, numbers.data(), count * sizeof(int));
    memory.send(socket);
  }  // the writer's references end here
  ::close(socket);
  int status = 0;
  ::waitpid(reader, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc > 1 && std::string_view(argv[1]) == "reader" ? read_memory() : write_memory(argv[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());  // also the reason why this machine has no such memory
    return 1;
  }
}
