// The messages by which two Communicators of compat/hmc connect.
#include "compat/hmc/handshake.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::compat;

namespace {

template <typename Message> void decode_as(base::ByteView input) {
  const control::Frame frame{Message::type, 0, {input.begin(), input.end()}};
  if (const auto message = decode_step<Message>(frame)) require(base::encode(*message) == frame.payload);
}

}  // namespace

void run(base::ByteView input) {
  decode_as<ConnectRequest>(input);
  decode_as<Accepted>(input);
  decode_as<AlreadyConnected>(input);
  decode_as<Refused>(input);
  decode_as<ShareMemory>(input);
  decode_as<Commit>(input);
  decode_as<Ready>(input);
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  add(base::encode(ConnectRequest{}));
  add(base::encode(Accepted{}));
  add(base::encode(AlreadyConnected{}));
  Refused refused;
  refused.text = "not now";
  add(base::encode(refused));
  add(base::encode(ShareMemory{}));
  Commit commit;
  commit.mapped = true;
  add(base::encode(commit));
  add(base::encode(Ready{}));
}

}  // namespace hmc::fuzz
