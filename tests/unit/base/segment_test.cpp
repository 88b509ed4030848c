#include "runtime/base/segment.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include <hmc/error.hpp>

#include "tests/support/too_much_memory.hpp"

namespace hmc::base {
namespace {

UniqueFd duplicate(const Segment& segment) { return UniqueFd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)); }

template <typename Function> Code code_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::success;
}

TEST(Segment, file_size_limit_is_an_error_without_a_signal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{page_size(), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    Segment::create(page_size() + 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_memory);
    text = error.what();
  }
  EXPECT_EQ(Segment::create(page_size())->bytes(), page_size());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(text.find("RLIMIT_FSIZE"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(2 * page_size())), std::string::npos) << text;
}

TEST(Segment, populate_refuses_more_memory_than_the_machine_has) {
  const std::size_t bytes = hmc::test::too_much_memory();
  const auto segment = Segment::create(bytes);
  std::string text;
  try {
    segment->populate(0, bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_memory);
    text = error.what();
  }
  EXPECT_NE(text.find("this process needs " + std::to_string(bytes) + " bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("are available"), std::string::npos) << text;
  struct stat info {};
  ASSERT_EQ(::fstat(segment->fd(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

/// Bytes of memory allocated to the file.
std::uint64_t taken(const Segment& segment) {
  struct stat info {};
  EXPECT_EQ(::fstat(segment.fd(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

/// In the calling process the system call fails with EPERM from now on, as in some sandboxes.
bool forbid(long call) {
  const auto at = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  std::array<sock_filter, 4> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Segment, sandbox_without_memfd_create_has_segments) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!forbid(SYS_memfd_create) || ::memfd_create("test", 0) >= 0 || errno != EPERM) ::_exit(2);
    try {
      const auto segment = Segment::create(5000);
      std::memset(segment->base(), 7, 5000);
      const auto other = Segment::map(duplicate(*segment), segment->bytes());
      ::_exit(other->base()[4999] == std::byte{7} ? 0 : 3);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(4);
    }
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes of addresses
TEST(Segment, limit_of_addresses_is_named) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    try {
      (void)Segment::create(std::size_t{5} << 30);
      ::_exit(3);
    } catch (const Error& error) {
      const bool is_named = error.detail().hint.find("RLIMIT_AS (ulimit -v) is 4294967296 bytes") == 0;
      ::_exit(error.code() == Code::out_of_memory && is_named ? 0 : 4);
    }
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(Segment, segment_is_zeroed_and_has_whole_pages) {
  const auto segment = Segment::create(5000);
  EXPECT_EQ(segment->bytes(), round_up(5000, page_size()));
  for (std::size_t i = 0; i < segment->bytes(); ++i) ASSERT_EQ(segment->base()[i], std::byte{0}) << i;
  EXPECT_EQ(Segment::create(0)->bytes(), page_size());
}

TEST(Segment, segment_cannot_shrink_or_grow) {
  const auto segment = Segment::create(8 * page_size());
  EXPECT_NE(::ftruncate(segment->fd(), 0), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(segment->fd(), static_cast<off_t>(100 * page_size())), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "adding seals is sealed too";
}

TEST(Segment, descriptor_is_not_inherited) {
  const auto segment = Segment::create(1);
  EXPECT_EQ(::fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Segment, two_mappings_of_one_file_share_memory_and_identity) {
  const auto mine = Segment::create(4 * page_size());
  const auto theirs = Segment::map(duplicate(*mine));
  EXPECT_NE(mine->base(), theirs->base());
  EXPECT_EQ(theirs->bytes(), mine->bytes());
  EXPECT_EQ(theirs->identity(), mine->identity());
  std::memcpy(mine->base() + 100, "hello", 5);
  EXPECT_EQ(std::memcmp(theirs->base() + 100, "hello", 5), 0);
  EXPECT_FALSE(Segment::create(page_size())->identity() == mine->identity());
}

TEST(Segment, part_of_a_file_can_be_mapped) {
  const auto whole = Segment::create(4 * page_size());
  for (std::size_t i = 0; i < whole->bytes(); ++i) whole->base()[i] = static_cast<std::byte>(i / page_size() + 1);
  const auto part = Segment::map(duplicate(*whole), 2 * page_size(), page_size());
  EXPECT_EQ(part->bytes(), 2 * page_size());
  EXPECT_EQ(part->file_offset(), page_size());
  EXPECT_EQ(part->base()[0], std::byte{2});
  EXPECT_EQ(part->base()[2 * page_size() - 1], std::byte{3});
  const auto rest = Segment::map(duplicate(*whole), 0, page_size());
  EXPECT_EQ(rest->bytes(), 3 * page_size());
}

TEST(Segment, range_beyond_the_file_is_rejected) {
  const auto whole = Segment::create(2 * page_size());
  EXPECT_EQ(code_of([&] { Segment::map(duplicate(*whole), 3 * page_size()); }), Code::out_of_range);
  EXPECT_EQ(code_of([&] { Segment::map(duplicate(*whole), page_size(), 2 * page_size()); }), Code::out_of_range);
  EXPECT_EQ(code_of([&] { Segment::map(duplicate(*whole), page_size(), UINT64_MAX - 4095); }), Code::out_of_range);
  EXPECT_EQ(code_of([&] { Segment::map(duplicate(*whole), SIZE_MAX, page_size()); }), Code::out_of_range);
}

TEST(Segment, impossible_size_is_out_of_memory) {
  EXPECT_EQ(code_of([] { Segment::create(SIZE_MAX); }), Code::out_of_memory);
  EXPECT_EQ(code_of([] { Segment::create(SIZE_MAX / 2 + 1); }), Code::out_of_memory);
  EXPECT_NE(code_of([] { Segment::create(std::size_t{1} << 60); }), Code::success);
}

TEST(Segment, invalid_descriptor_is_an_error) {
  EXPECT_NE(code_of([] { Segment::map(UniqueFd(-1), 4096); }), Code::success);
}

TEST(Segment, populate_allocates_only_the_requested_pages) {
  const std::size_t bytes = std::size_t{64} << 20;
  const auto segment = Segment::create(bytes);
  EXPECT_LT(taken(*segment), std::uint64_t{4} << 20);
  segment->populate(bytes / 2, 1);
  EXPECT_GE(taken(*segment), page_size());
  EXPECT_LT(taken(*segment), std::uint64_t{8} << 20);
  segment->populate(0, bytes);
  EXPECT_GE(taken(*segment), bytes);
}

TEST(Segment, populate_keeps_contents_and_accepts_odd_ranges) {
  const auto segment = Segment::create(8 * page_size());
  std::memset(segment->base(), 7, segment->bytes());
  segment->populate(3, 2 * page_size());
  segment->populate(segment->bytes() - 1, 1);
  segment->populate(0, 0);
  for (std::size_t i = 0; i < segment->bytes(); ++i) ASSERT_EQ(segment->base()[i], std::byte{7}) << i;
}

TEST(Segment, last_holder_releases_the_memory) {
  UniqueFd fd;
  std::byte* base = nullptr;
  {
    const auto segment = Segment::create(page_size());
    base = segment->base();
    const auto also = segment;
    EXPECT_EQ(also->base(), base);
  }
  // msync of an unmapped range fails with ENOMEM.
  EXPECT_NE(::msync(base, page_size(), MS_ASYNC), 0);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace hmc::base
