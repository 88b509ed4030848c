// The ids that both sides agree on, crossing connects with ids, and ports in use.
#include <gmock/gmock.h>

#include <future>

#include <hmc/error.hpp>

#include "compat/hmc/peers.hpp"
#include "tests/compat/pair.hpp"

namespace hmc::compat {
namespace {

using test::loopback;

struct Node {
  explicit Node(const base::Env& env)
      : buffer(std::make_shared<ConnBuffer>(0, 1 << 16, MemoryType::CPU)),
        peers(buffer, {"tcp"}, 1, env, base::Log{}) {}
  void serve() {
    for (int tries = 0; tries < 200; ++tries) {
      name = {loopback, test::Side::next_port()};
      try {
        return peers.listen(name.ip, name.port);
      } catch (const Error&) {  // the port is in use
      }
    }
    ADD_FAILURE() << "no port is free";
  }
  std::shared_ptr<ConnBuffer> buffer;
  Peers peers;
  PeerName name;
};

base::Deadline soon() { return base::Deadline::after(std::chrono::seconds(60)); }

/// The code of the failure; success if there is none.
Code connect(Node& from, const Node& to, std::uint32_t self, std::uint32_t peer) {
  try {
    (void)from.peers.connect(to.name, Peers::Ids{self, peer}, soon());
    return Code::success;
  } catch (const Error& error) {
    return error.detail().code;
  }
}

class PeerIds : public ::testing::Test {
 protected:
  base::Env env = base::Env::from([](std::string_view) -> std::optional<std::string> { return {}; });
};

TEST_F(PeerIds, second_claim_to_an_id_is_refused_until_its_owner_disconnects) {
  Node server(env), owner(env), thief(env);
  server.serve();
  ASSERT_EQ(connect(owner, server, 7, 0), Code::success);
  EXPECT_EQ(connect(thief, server, 7, 0), Code::refused);
  EXPECT_EQ(server.peers.find(std::string(loopback))->id, 7U);
  ASSERT_EQ(connect(owner, server, 7, 0), Code::success);  // still the owner
  owner.peers.disconnect(owner.peers.find(server.name));
  const auto limit = soon();
  Code code = Code::refused;
  Node next(env);
  while (code == Code::refused && !limit.expired()) code = connect(next, server, 7, 0);
  EXPECT_EQ(code, Code::success);
}

TEST_F(PeerIds, servers_own_id_and_another_name_for_the_server_are_refused) {
  Node server(env), other(env), client(env);
  server.serve();
  other.serve();
  ASSERT_EQ(connect(server, other, 3, 4), Code::success);  // the server is 3
  EXPECT_EQ(connect(client, server, 5, 2), Code::refused);
  Node same(env);
  EXPECT_EQ(connect(same, server, 3, 3), Code::refused);
  Node good(env);
  EXPECT_EQ(connect(good, server, 5, 3), Code::success);
}

TEST_F(PeerIds, one_process_cant_have_two_ids) {
  Node a(env), b(env), client(env);
  a.serve();
  b.serve();
  ASSERT_EQ(connect(client, a, 1, 10), Code::success);
  EXPECT_EQ(connect(client, b, 2, 11), Code::invalid_config);
}

TEST_F(PeerIds, crossing_connects_with_ids_result_in_one_connection) {
  for (int round = 0; round < 10; ++round) {
    Node a(env), b(env);
    a.serve();
    b.serve();
    auto other = std::async(std::launch::async, [&] { return connect(b, a, 1, 0); });
    EXPECT_EQ(connect(a, b, 0, 1), Code::success);
    EXPECT_EQ(other.get(), Code::success);
    const auto at_a = a.peers.find(std::string(loopback)), at_b = b.peers.find(std::string(loopback));
    ASSERT_NE(at_a, nullptr);
    ASSERT_NE(at_b, nullptr);
    EXPECT_EQ(at_a->id, 1U);
    EXPECT_EQ(at_b->id, 0U);
    EXPECT_EQ(at_a, a.peers.find(b.name));
    EXPECT_NE(at_a->outgoing, at_b->outgoing);
  }
}

TEST_F(PeerIds, all_pairs_of_four_connect_from_both_sides_at_once) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(std::make_unique<Node>(env));
    nodes.back()->serve();
  }
  std::vector<std::future<void>> work;
  for (std::uint32_t i = 0; i < 4; ++i) {
    work.push_back(std::async(std::launch::async, [&, i] {
      for (std::uint32_t step = 1; step < 4; ++step) {
        const std::uint32_t to = (i + step) % 4;
        EXPECT_EQ(connect(*nodes[i], *nodes[to], i, to), Code::success) << i << " to " << to;
      }
    }));
  }
  for (auto& each : work) each.get();
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t to = 0; to < 4; ++to) {
      if (i == to) continue;
      const auto peer = nodes[i]->peers.find(nodes[to]->name);
      ASSERT_NE(peer, nullptr);
      EXPECT_EQ(peer->id, to);
    }
  }
}

TEST_F(PeerIds, port_of_another_server_is_an_error_for_the_second) {
  Node first(env), second(env);
  first.serve();
  EXPECT_THROW(second.peers.listen(loopback, first.name.port), Error);
}

TEST_F(PeerIds, communicator_cant_connect_to_itself) {
  Node node(env);
  node.serve();
  EXPECT_EQ(connect(node, node, 0, 1), Code::invalid_config);
  EXPECT_EQ(node.peers.find(node.name), nullptr);
}

}  // namespace
}  // namespace hmc::compat
