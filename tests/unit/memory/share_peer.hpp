// The other process of the sharing tests: the same program, started with --peer.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

/// A copy for another importer, with its own descriptor. Throws std::runtime_error.
Exported duplicate(const Exported& exported);

/// A message between the two processes: a command, numbers and optionally memory.
struct Message {
  char what = ' ';  ///< 'e' make and share, 'i' import and check, 'c' close, 'v' check your own, 'y' yes, 'n' no
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  SharingKind kind = SharingKind::vmm_fd;
  std::string text;
  Exported memory;
};
/// Throws std::runtime_error.
void send(int socket, const Message& message);
Message receive(int socket);

class Peer {
 public:
  /// Starts the program again, as the peer that uses vendor `which`.
  explicit Peer(const std::string& which);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();
  /// Sends a request and returns the reply; the reply 'n' is a test failure.
  Message ask(Message message) const;
  Message try_ask(Message message) const;
  /// Sends SIGKILL and waits for the end of the process.
  void kill();

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

/// The main function of --peer.
int serve_peer(int socket, const std::string& which);

}  // namespace hmc::memory
