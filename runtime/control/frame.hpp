// Frames: the messages of an authenticated connection, whatever the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd_passing.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::control {

/// The type of a message. Each protocol over these connections has its own types, which are above `hello`.
enum class MessageType : std::uint16_t { hello = 1 };

/// The limits of one protocol: the maximum payload of a type; nullopt for an unknown type.
using PayloadLimit = std::optional<std::size_t> (*)(MessageType type) noexcept;

inline constexpr std::uint32_t frame_magic = 0x31434d48;  // "HMC1"
inline constexpr std::uint16_t protocol_version = 7;
inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t frame_mac_bytes = sizeof(Mac);
inline constexpr std::size_t most_fds_per_frame = base::most_fds_per_message;

struct Frame {
  MessageType type{};
  std::uint16_t fds = 0;  ///< number of descriptors sent with it
  base::Bytes payload;
};

/// The MAC covers the direction, so a frame that is reflected to its sender is rejected.
enum class Direction : std::uint8_t { to_server = 1, to_client = 2 };

enum class FrameFault { none, magic, version, type, length, mac };
const char* name_of(FrameFault fault) noexcept;

/// Signs with a key, a direction and a counter, so a frame can be neither replayed nor reflected.
class FrameSealer {
 public:
  /// Later frames use `key`; the counter restarts at 0.
  void rekey(const Secret& key, Direction direction) noexcept;
  /// header {magic 4, version 2, type 2, fds 2, zero 2, length 4}, payload, MAC 32.
  base::Bytes seal(MessageType type, base::ByteView payload, std::uint16_t fds = 0);

 private:
  Secret key_;
  Direction direction_{};
  std::uint64_t counter_ = 0;
};

/// Consumes received bytes and returns complete, verified frames. The header is checked before memory is allocated for
/// the payload, and memory grows only with the bytes received. After a fault it returns no more frames.
class FrameOpener {
 public:
  explicit FrameOpener(PayloadLimit limit) noexcept : limit_(limit) {}
  void rekey(const Secret& key, Direction direction) noexcept;
  /// While true, only a hello is accepted, because an unauthenticated peer may send no other message.
  void hello_only(bool yes) noexcept { hello_only_ = yes; }
  void feed(base::ByteView bytes);
  std::optional<Frame> next();

  FrameFault fault() const noexcept { return fault_; }
  std::uint16_t peer_version() const noexcept { return peer_version_; }  ///< after FrameFault::version
  bool empty() const noexcept { return read_ == buffer_.size(); }

 private:
  struct Header {
    MessageType type{};
    std::uint16_t fds = 0;
    std::uint32_t length = 0;
  };
  bool read_header(Header& header);
  std::nullopt_t fail(FrameFault fault) noexcept;

  PayloadLimit limit_;
  Secret key_;
  Direction direction_{};
  std::uint64_t counter_ = 0;
  bool hello_only_ = true;
  base::Bytes buffer_;
  std::size_t read_ = 0;  // bytes of buffer_ that were returned
  FrameFault fault_ = FrameFault::none;
  std::uint16_t peer_version_ = 0;
};

}  // namespace hmc::control
