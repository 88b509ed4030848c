// The messages by which two Communicators connect. Connection authenticates them.
//
//   client -> server   connect_request
//   server -> client   accepted, already_connected or refused
//   client -> server   commit, then the server's ready
//   same node, over a Unix socket: share_memory of the client, then of the server, each with its descriptors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/fields.hpp"
#include "runtime/control/frame.hpp"

namespace hmc::compat {

using Uid = std::array<std::uint8_t, 16>;    ///< random, of one Communicator
using Token = std::array<std::uint8_t, 16>;  ///< random, of one handshake

inline constexpr std::uint32_t handshake_version = 2;
inline constexpr std::int64_t no_id = -1;

enum class Step : std::uint8_t {
  connect_request,
  accepted,
  already_connected,
  refused,
  share_memory,
  commit,
  ready,
  last = ready
};

inline constexpr auto handshake_type = static_cast<control::MessageType>(96);  // not a type of ControlType
constexpr std::optional<std::size_t> handshake_limit(control::MessageType type) noexcept {
  return type == handshake_type ? std::optional<std::size_t>(std::size_t{1} << 20) : std::nullopt;
}
/// The base of the messages. The first field is the kind of the message.
template <Step S> struct StepMessage {
  Step step = S;
  static constexpr Step expected = S;
  static constexpr auto type = handshake_type;
};

struct ConnectRequest : StepMessage<Step::connect_request> {
  std::uint32_t version = handshake_version;
  Uid uid{};
  std::int64_t self_id = no_id;  ///< the client's id, and the id that it expects the server to have
  std::int64_t peer_id = no_id;
  std::string ip;  ///< the name that the client declares for itself
  std::uint16_t port = 0;
  std::vector<std::string> wires;  ///< in order of preference
  base::Bytes offer;               ///< of its Endpoint
  static constexpr auto fields = std::tuple(&ConnectRequest::step, &ConnectRequest::version, &ConnectRequest::uid,
                                            &ConnectRequest::self_id, &ConnectRequest::peer_id, &ConnectRequest::ip,
                                            &ConnectRequest::port, &ConnectRequest::wires, &ConnectRequest::offer);
};

struct Accepted : StepMessage<Step::accepted> {
  Uid uid{};
  std::string wire;  ///< the server's choice; empty: none in common
  base::Bytes offer;
  std::string unix_name;  ///< of the server's abstract Unix socket; empty: it doesn't share memory
  Token token{};
  static constexpr auto fields = std::tuple(&Accepted::step, &Accepted::uid, &Accepted::wire, &Accepted::offer,
                                            &Accepted::unix_name, &Accepted::token);
};

struct AlreadyConnected : StepMessage<Step::already_connected> {
  Uid uid{};
  static constexpr auto fields = std::tuple(&AlreadyConnected::step, &AlreadyConnected::uid);
};

struct Refused : StepMessage<Step::refused> {
  Code code = Code::refused;
  std::string text;
  static constexpr auto fields = std::tuple(&Refused::step, &Refused::code, &Refused::text);
};

struct ShareMemory : StepMessage<Step::share_memory> {  // with the memfds of the control words and of buffer or relay
  Token token{};
  std::uint64_t nonce = 0;  ///< the last word of the control memory
  std::uint64_t control_bytes = 0;
  std::uint64_t buffer_bytes = 0;  ///< of the segment of buffer or relay
  std::uint64_t file_offset = 0;
  std::uint64_t buffer_offset = 0;  ///< of buffer or relay in the segment
  static constexpr auto fields =
      std::tuple(&ShareMemory::step, &ShareMemory::token, &ShareMemory::nonce, &ShareMemory::control_bytes,
                 &ShareMemory::buffer_bytes, &ShareMemory::file_offset, &ShareMemory::buffer_offset);
};

struct Commit : StepMessage<Step::commit> {
  bool mapped = false;  ///< the client uses the memory that both have shared
  static constexpr auto fields = std::tuple(&Commit::step, &Commit::mapped);
};

struct Ready : StepMessage<Step::ready> {
  static constexpr auto fields = std::tuple(&Ready::step);
};

/// nullopt if the frame isn't exactly this message.
template <typename Message> std::optional<Message> decode_step(const control::Frame& frame) {
  auto message = frame.type == Message::type ? base::decode<Message>(frame.payload) : std::nullopt;
  return message && message->step == Message::expected ? std::move(message) : std::nullopt;
}

}  // namespace hmc::compat
