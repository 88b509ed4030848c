// The other process of the sharing tests: this very program, started with --peer.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/memory/sharing.hpp"

namespace hmc::memory {

/// What goes between the two: a word, a number, and maybe memory.
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
  /// Asks and gets the answer; a 'n' is a failure of the test.
  Message ask(Message message) const;
  Message try_ask(Message message) const;
  /// SIGKILL, and until it is gone.
  void kill();

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

/// What --peer does.
int serve_peer(int socket, const std::string& which);

}  // namespace hmc::memory
