// put, then ctrlSend: the peer finds the bytes when the tag arrives. Two processes, by each wire.
#include <hmc.h>

#include <unistd.h>

#include <cstdlib>

#include "tests/compat/pair.hpp"
#include "tests/compat/processes.hpp"

namespace hmc::test {
namespace {

using enum status_t;

constexpr std::size_t words = 64;

/// HMC_COMPAT_ROUNDS: the number of rounds, for the long form (1000000).
std::uint64_t rounds() {
  const char* const set = std::getenv("HMC_COMPAT_ROUNDS");
  return set != nullptr ? std::strtoull(set, nullptr, 10) : 10'000;
}

std::string socket_folder() {
  std::string folder = "/tmp/put-ctrl-test-XXXXXX";
  return ::mkdtemp(folder.data()) != nullptr ? folder : "";
}

/// Serves as number 0. False if a tag arrives before its bytes.
bool serve(std::uint16_t port, const std::string& folder, const compat::Pipe& ready) {
  Side side(4096);
  const bool listens =
      side.communicator->initServer(loopback, port, 0, Communicator::udsPathFor(folder, 0), conn_type()) == SUCCESS;
  ready.put(listens ? 1 : 0);
  for (std::uint64_t round = 1; listens && round <= rounds(); ++round) {
    std::uint64_t tag = 0;
    if (side.communicator->ctrlRecv(1, &tag) != SUCCESS || tag != round) return false;
    for (std::size_t i = 0; i < words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, side.at(i * 8), 8);
      if (word != round * 1000 + i) return false;
    }
    if (side.communicator->ctrlSend(1, tag) != SUCCESS) return false;
  }
  return listens;
}

TEST_P(ByWire, put_is_visible_when_a_control_message_arrives) {
  const std::string folder = socket_folder();
  ASSERT_FALSE(folder.empty());
  const std::uint16_t port = Side::next_port();
  const compat::Pipe ready;
  compat::Child server([&] { return serve(port, folder, ready); });
  ASSERT_EQ(ready.get(), 1);
  {
    Side client(4096);
    Communicator::CtrlLink link;
    link.transport = Communicator::CtrlTransport::UDS;
    link.uds_path = Communicator::udsPathFor(folder, 0);
    ASSERT_EQ(client.communicator->connectTo(0, 1, loopback, port, link, conn_type()), SUCCESS);
    for (std::uint64_t round = 1; round <= rounds(); ++round) {
      for (std::size_t i = 0; i < words; ++i) {
        const std::uint64_t word = round * 1000 + i;
        std::memcpy(client.at(i * 8), &word, 8);
      }
      ASSERT_EQ(client.communicator->put(loopback, port, 0, 0, words * 8), SUCCESS);
      ASSERT_EQ(client.communicator->ctrlSend(0, round), SUCCESS);
      std::uint64_t answer = 0;
      ASSERT_EQ(client.communicator->ctrlRecv(0, &answer), SUCCESS) << "round " << round;
      ASSERT_EQ(answer, round);
    }
    EXPECT_EQ(client.communicator->closeCtrl(), SUCCESS);
  }
  EXPECT_TRUE(server.join());
  ::unlink(Communicator::udsPathFor(folder, 0).c_str());
  ::rmdir(folder.c_str());
}

}  // namespace
}  // namespace hmc::test
