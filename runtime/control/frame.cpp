#include "runtime/control/frame.hpp"

namespace hmc::control {

namespace {

constexpr std::size_t hello_bytes = 32;

/// The data that the MAC covers in addition to the frame's bytes.
std::array<std::byte, 9> place_of(Direction direction, std::uint64_t counter) noexcept {
  std::array<std::byte, 9> place{};
  place[0] = static_cast<std::byte>(direction);
  for (std::size_t i = 1; i < place.size(); ++i, counter >>= 8) place[i] = static_cast<std::byte>(counter & 0xff);
  return place;
}

}  // namespace

const char* name_of(FrameFault fault) noexcept {
  switch (fault) {
    case FrameFault::none: return "no fault";
    case FrameFault::magic: return "it doesn't use this protocol";
    case FrameFault::version: return "it uses another version of this protocol";
    case FrameFault::type: return "it sent a message that isn't allowed here";
    case FrameFault::length: return "it sent a message that is longer than allowed";
    case FrameFault::mac: return "its message isn't authentic (another HMC_SECRET, or another user without one?)";
  }
  return "unknown fault";
}

void FrameSealer::rekey(const Secret& key, Direction direction) noexcept {
  key_ = key;
  direction_ = direction;
  counter_ = 0;
}

base::Bytes FrameSealer::seal(MessageType type, base::ByteView payload, std::uint16_t fds) {
  base::ByteWriter out;
  out.number(frame_magic).number(protocol_version).number(type).number(fds).number(std::uint16_t{0});
  out.number(static_cast<std::uint32_t>(payload.size())).raw(payload);
  const auto place = place_of(direction_, counter_++);
  const Mac mac = key_.sign({place, out.view()});
  return out.raw(mac).take();
}

void FrameOpener::rekey(const Secret& key, Direction direction) noexcept {
  key_ = key;
  direction_ = direction;
  counter_ = 0;
}

void FrameOpener::feed(base::ByteView bytes) {
  if (fault_ != FrameFault::none) return;
  if (read_ > 0 && read_ >= buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(read_));
    read_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::nullopt_t FrameOpener::fail(FrameFault fault) noexcept {
  fault_ = fault;
  buffer_ = {};
  read_ = 0;
  return std::nullopt;
}

bool FrameOpener::read_header(Header& header) {
  base::ByteReader in(base::ByteView(buffer_).subspan(read_).first(frame_header_bytes));
  const auto magic = in.number<std::uint32_t>();
  const auto version = in.number<std::uint16_t>();
  header.type = in.number<MessageType>();
  header.fds = in.number<std::uint16_t>();
  const auto zero = in.number<std::uint16_t>();
  header.length = in.number<std::uint32_t>();
  const auto limit = header.type == MessageType::hello ? std::optional(hello_bytes) : limit_(header.type);
  FrameFault fault = FrameFault::none;
  if (magic != frame_magic) {
    fault = FrameFault::magic;
  } else if (version != protocol_version) {
    fault = FrameFault::version;
    peer_version_ = version;
  } else if (!limit || (hello_only_ && header.type != MessageType::hello)) {
    fault = FrameFault::type;
  } else if (header.length > *limit || header.fds > most_fds_per_frame || zero != 0) {
    fault = FrameFault::length;
  }
  if (fault != FrameFault::none) fail(fault);
  return fault == FrameFault::none;
}

std::optional<Frame> FrameOpener::next() {
  if (fault_ != FrameFault::none || buffer_.size() - read_ < frame_header_bytes) return std::nullopt;
  Header header;
  if (!read_header(header)) return std::nullopt;
  const std::size_t signed_bytes = frame_header_bytes + header.length;
  if (buffer_.size() - read_ < signed_bytes + frame_mac_bytes) return std::nullopt;

  const auto bytes = base::ByteView(buffer_).subspan(read_, signed_bytes + frame_mac_bytes);
  const auto place = place_of(direction_, counter_);
  const Mac expected = key_.sign({place, bytes.first(signed_bytes)});
  if (!equal(expected, bytes.last(frame_mac_bytes))) return fail(FrameFault::mac);

  ++counter_;
  read_ += bytes.size();
  const base::ByteView payload = bytes.subspan(frame_header_bytes, header.length);
  return Frame{header.type, header.fds, base::Bytes(payload.begin(), payload.end())};
}

}  // namespace hmc::control
