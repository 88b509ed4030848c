// Lengths of 4 GiB and above, in little memory: long ranges of addresses that show one short piece again and again.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <future>

#include "tests/compat/pair.hpp"

namespace hmc::test {
namespace {

using enum status_t;

/// `bytes` addresses over a piece of memory of `piece` bytes.
class Repeated {
 public:
  Repeated(std::size_t bytes, std::size_t piece) : bytes_((bytes + piece - 1) / piece * piece), piece_(piece) {
    const int file = ::memfd_create("repeated", 0);
    base_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    good_ = file >= 0 && ::ftruncate(file, static_cast<off_t>(piece)) == 0 && base_ != MAP_FAILED;
    for (std::size_t at = 0; good_ && at < bytes_; at += piece)
      good_ = ::mmap(base_ + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    ::close(file);
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  ~Repeated() { ::munmap(base_, bytes_); }
  bool good() const { return good_; }
  std::uint8_t* data() const { return base_; }
  std::size_t piece() const { return piece_; }

 private:
  std::size_t bytes_, piece_;
  std::uint8_t* base_ = nullptr;
  bool good_ = false;
};

TEST(LargeLength, message_above_4_gib_arrives_with_its_length) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer needs four bytes for each byte of the message";
#endif
  ScopedEnv timeout("HMC_TIMEOUT_S", "600");
  constexpr std::size_t length = (std::size_t{4} << 30) + 7;
  Repeated out(length, 16 << 20), in(length, 24 << 20);
  ASSERT_TRUE(out.good() && in.good());
  fill(out.data(), 0, 1, 0, out.piece());
  Pair pair(8 << 20);
  std::size_t received = 0;
  auto receiver = std::async(std::launch::async, [&] {
    return pair.s().recvDataFrom(loopback, in.data(), length, MemoryType::CPU, &received);
  });
  EXPECT_EQ(pair.c().sendDataTo(loopback, out.data(), length, MemoryType::CPU), SUCCESS);
  EXPECT_EQ(receiver.get(), SUCCESS);
  EXPECT_EQ(received, length);
  // Each byte of the piece holds the last one of the message that was written to it.
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < in.piece(); ++at) {
    const std::size_t last = at + (length - 1 - at) / in.piece() * in.piece();
    wrong += in.data()[at] != pattern(0, 1, last % out.piece());
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_P(ByWire, lengths_of_4_gib_are_not_truncated_to_32_bits) {
  Pair pair(1 << 16);
  std::uint64_t id = 0;
  constexpr std::size_t four_gib = std::size_t{4} << 30;
  for (const std::size_t size : {four_gib, four_gib + 1, four_gib + 4096}) {
    EXPECT_EQ(pair.c().put(loopback, pair.port(), 0, 0, size), ERROR);
    EXPECT_EQ(pair.c().get(loopback, pair.port(), 0, 0, size), ERROR);
    EXPECT_EQ(pair.c().putNB(loopback, pair.port(), 0, 0, size, &id), ERROR);
    EXPECT_EQ(pair.c().put(loopback, pair.port(), 0, size, 1), ERROR);
    EXPECT_EQ(pair.c().put(loopback, pair.port(), size, 0, 1), ERROR);
    EXPECT_EQ(pair.c().send(loopback, 0, size), ERROR);
    EXPECT_EQ(pair.s().recv(loopback, size, 1), ERROR);
  }
  EXPECT_EQ(mismatch(pair.server.at(0), 0, 0, 0, 1), 1U);  // pattern(0, 0, 0) is 0: nothing was written
}

}  // namespace
}  // namespace hmc::test
