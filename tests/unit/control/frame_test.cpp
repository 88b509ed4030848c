#include "runtime/control/frame.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace hmc::control {
namespace {

constexpr auto some_type = static_cast<MessageType>(20);
constexpr std::uint32_t longest = 256;
std::optional<std::size_t> limit_of_type(MessageType type) noexcept {
  return type == some_type ? std::optional<std::size_t>(longest) : std::nullopt;
}

class FrameDecoder : public testing::Test {
 protected:
  FrameDecoder() {
    sealer_.rekey(key_, Direction::to_server);
    opener_ = fresh_opener();
  }
  FrameOpener fresh_opener() const {
    FrameOpener opener(&limit_of_type);
    opener.rekey(key_, Direction::to_server);
    opener.hello_only(false);
    return opener;
  }
  base::Bytes seal(std::string_view text) { return sealer_.seal(some_type, base::as_bytes(text)); }
  FrameFault fault_after(const base::Bytes& bytes) {
    opener_.feed(bytes);
    EXPECT_FALSE(opener_.next());
    return opener_.fault();
  }

  Secret key_ = Secret::random();
  FrameSealer sealer_;
  FrameOpener opener_{&limit_of_type};
};

TEST_F(FrameDecoder, decoded_frames_equal_encoded_ones) {
  for (const char* text : {"one", "", "three"}) opener_.feed(seal(text));
  for (const char* text : {"one", "", "three"}) {
    const auto frame = opener_.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->type, some_type);
    EXPECT_EQ(base::as_text(frame->payload), text);
  }
  EXPECT_FALSE(opener_.next());
  EXPECT_EQ(opener_.fault(), FrameFault::none);
  EXPECT_TRUE(opener_.empty());
}

TEST_F(FrameDecoder, frames_received_byte_by_byte_are_complete) {
  const base::Bytes bytes = seal("slowly");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(opener_.next()) << "after " << i << " bytes";
    opener_.feed(base::ByteView(bytes).subspan(i, 1));
  }
  EXPECT_EQ(base::as_text(opener_.next()->payload), "slowly");
}

TEST_F(FrameDecoder, flipped_bit_is_detected) {
  const base::Bytes good = seal("the payload");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      base::Bytes bad = good;
      bad[i] ^= static_cast<std::byte>(1 << bit);
      FrameOpener opener = fresh_opener();
      opener.feed(bad);
      // An increased length leaves the frame incomplete. With the bytes that follow, it fails verification.
      opener.feed(base::Bytes(1 << 10));
      EXPECT_FALSE(opener.next()) << "byte " << i << " bit " << bit;
      EXPECT_NE(opener.fault(), FrameFault::none) << "byte " << i << " bit " << bit;
    }
  }
}

TEST_F(FrameDecoder, truncated_frame_is_not_decoded) {
  const base::Bytes good = seal("the payload");
  for (std::size_t length = 0; length < good.size(); ++length) {
    FrameOpener opener = fresh_opener();
    opener.feed(base::ByteView(good).first(length));
    EXPECT_FALSE(opener.next());
    EXPECT_EQ(opener.fault(), FrameFault::none);
  }
}

TEST_F(FrameDecoder, replayed_frame_is_rejected) {
  const base::Bytes first = seal("pay 10");
  opener_.feed(first);
  ASSERT_TRUE(opener_.next());
  EXPECT_EQ(fault_after(first), FrameFault::mac);
}

TEST_F(FrameDecoder, reordered_frames_are_rejected) {
  const base::Bytes first = seal("one");
  EXPECT_EQ(fault_after(seal("two")), FrameFault::mac);
}

TEST_F(FrameDecoder, reflected_frame_is_rejected) {
  FrameOpener mine(&limit_of_type);
  mine.rekey(key_, Direction::to_client);  // this side is the client and receives its own bytes
  mine.hello_only(false);
  mine.feed(seal("echo"));
  EXPECT_FALSE(mine.next());
  EXPECT_EQ(mine.fault(), FrameFault::mac);
}

TEST_F(FrameDecoder, different_key_is_rejected) {
  sealer_.rekey(Secret::random(), Direction::to_server);
  EXPECT_EQ(fault_after(seal("stranger")), FrameFault::mac);
}

base::Bytes header_with(std::uint32_t magic, std::uint16_t version, std::uint16_t type, std::uint32_t length) {
  base::ByteWriter out;
  out.number(magic).number(version).number(type).number(std::uint16_t{0}).number(std::uint16_t{0}).number(length);
  return out.take();
}

TEST_F(FrameDecoder, huge_length_is_rejected_by_its_header) {
  const auto type = static_cast<std::uint16_t>(some_type);
  EXPECT_EQ(fault_after(header_with(frame_magic, protocol_version, type, 0xffffffffU)), FrameFault::length);
}

TEST_F(FrameDecoder, length_above_the_limit_of_type_its_type_is_rejected) {
  const auto type = static_cast<std::uint16_t>(some_type);
  opener_.feed(header_with(frame_magic, protocol_version, type, longest));
  EXPECT_FALSE(opener_.next());
  EXPECT_EQ(opener_.fault(), FrameFault::none) << "it waits for the rest";
  opener_ = fresh_opener();
  EXPECT_EQ(fault_after(header_with(frame_magic, protocol_version, type, longest + 1)), FrameFault::length);
}

TEST_F(FrameDecoder, unknown_types_and_protocols_are_rejected) {
  EXPECT_EQ(fault_after(header_with(frame_magic, protocol_version, 999, 0)), FrameFault::type);
  opener_ = fresh_opener();
  EXPECT_EQ(fault_after(header_with(0x20544547, protocol_version, 1, 0)), FrameFault::magic);
}

TEST_F(FrameDecoder, different_version_is_distinguished) {
  EXPECT_EQ(fault_after(header_with(frame_magic, protocol_version + 1, 1, 0)), FrameFault::version);
  EXPECT_EQ(opener_.peer_version(), protocol_version + 1);
}

TEST_F(FrameDecoder, unauthenticated_peer_may_send_only_a_hello) {
  opener_.hello_only(true);
  EXPECT_EQ(fault_after(seal("let me in")), FrameFault::type);
}

TEST_F(FrameDecoder, nothing_is_decoded_after_an_error) {
  base::Bytes bad = seal("bad");
  bad.back() ^= std::byte{1};
  EXPECT_EQ(fault_after(bad), FrameFault::mac);
  opener_.feed(seal("good"));
  EXPECT_FALSE(opener_.next());
}

}  // namespace
}  // namespace hmc::control
