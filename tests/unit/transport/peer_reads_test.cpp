// PeerReads on this process's own memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::transport {
namespace {

constexpr std::size_t page = 4096;

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Two pages; the second isn't readable.
class TwoPages {
 public:
  TwoPages()
      : start_(
            static_cast<char*>(::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(start_ + page, page, PROT_NONE);
  }
  ~TwoPages() { ::munmap(start_, 2 * page); }
  char* start() const { return start_; }

 private:
  char* start_;
};

class ProcessReads : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_.is_readable(&reads_, sizeof reads_)) GTEST_SKIP() << "the system allows no process_vm_readv";
  }
  PeerReads reads_{""};
};

TEST_F(ProcessReads, bytes_are_read_in_place) {
  std::vector<std::uint32_t> from(50'001), to(50'001);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
  ASSERT_TRUE(PeerReads::read(::getpid(), address_of(from.data() + 1), to.data(), 50'000 * 4, 3).ok());
  EXPECT_EQ(std::memcmp(from.data() + 1, to.data(), 50'000 * 4), 0);
  EXPECT_EQ(to[50'000], 0U);
}

TEST_F(ProcessReads, process_is_identified_by_its_proof) {
  ReadProbe probe = reads_.probe();
  EXPECT_TRUE(reads_.try_on(probe));
  ++probe.nonce;
  EXPECT_FALSE(reads_.try_on(probe));
  --probe.nonce;
  probe.address = 0;
  EXPECT_FALSE(reads_.try_on(probe));
}

TEST_F(ProcessReads, unreadable_memory_is_detected_before_use) {
  const TwoPages pages;
  EXPECT_TRUE(reads_.is_readable(pages.start(), page));
  EXPECT_FALSE(reads_.is_readable(pages.start(), page + 1));
  EXPECT_FALSE(reads_.is_readable(pages.start() + page, 1));
}

TEST_F(ProcessReads, partial_read_is_a_failure) {
  const TwoPages pages;
  std::vector<char> to(2 * page);
  const base::Status status = PeerReads::read(::getpid(), address_of(pages.start()), to.data(), 2 * page, 5);
  EXPECT_EQ(status.code, Code::error);
  EXPECT_EQ(status.peer, 5);
}

TEST_F(ProcessReads, ended_process_is_a_peer_failure) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::uint64_t word = 0;
  const base::Status status = PeerReads::read(child, address_of(&word), &word, sizeof word, 7);
  EXPECT_EQ(status.code, Code::peer_failed);
  EXPECT_EQ(status.peer, 7);
}

}  // namespace
}  // namespace hmc::transport
