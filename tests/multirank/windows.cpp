// Windows over all kinds of memory, of all sizes, and their symmetric allocation.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "runtime/base/fd.hpp"
#include "runtime/base/segment.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::ConnBuffer;
using hmc::Window;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

/// Each rank fills the next rank's part with a pattern, which the owner verifies, and gets it back.
void exchange(TestRank& me, Window& win, std::uint64_t call) {
  const std::size_t theirs = win.bytes(me.next());
  std::vector<std::byte> bytes(theirs);
  Pattern{me.rank, call}.fill(bytes);
  win.put(me.next(), 0, bytes.data(), theirs);
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify({win.data(), win.bytes()})));
  std::fill(bytes.begin(), bytes.end(), std::byte{0xcc});
  win.get(me.next(), 0, bytes.data(), theirs);
  HMC_CHECK_CLEAN((Pattern{me.rank, call}.verify(bytes)));
  me.runtime->world().barrier();
}

}  // namespace

HMC_SPMD_TEST(Windows, new_window_is_zeroed_and_has_its_sizes) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, std::size_t{1} << 20}) {
    Window win = Window::create(me.runtime->world(), bytes);
    HMC_CHECK(win.is_open());
    HMC_CHECK_EQ(win.bytes(), bytes);
    for (int rank = 0; rank < me.size; ++rank) HMC_CHECK_EQ(win.bytes(rank), bytes);
    for (std::size_t i = 0; i < bytes; ++i) HMC_CHECK(win.data()[i] == std::byte{0});
    me.runtime->world().barrier();
    exchange(me, win, bytes);
    win.close();
  }
}

HMC_SPMD_TEST(Windows, ranks_may_have_different_sizes) {
  const auto size_of = [](int rank) {
    return static_cast<std::size_t>(rank) * 5000 + static_cast<std::size_t>(rank % 3);
  };
  Window win = Window::create(me.runtime->world(), size_of(me.rank));  // rank 0's part is empty
  for (int rank = 0; rank < me.size; ++rank) HMC_CHECK_EQ(win.bytes(rank), size_of(rank));
  std::byte byte{1};
  HMC_CHECK_THROWS(hmc::Code::out_of_range, win.put(0, 0, &byte, 1));
  exchange(me, win, 1);
  win.close();
}

HMC_SPMD_TEST(Windows, conn_buffer_may_be_destroyed_before_its_window) {
  ConnBuffer buffer(0, 10'000, hmc::MemoryType::CPU);
  Pattern{me.rank, 9}.fill({static_cast<std::byte*>(buffer.ptr), buffer.buffer_size});
  Window win = Window::create(me.runtime->world(), buffer);
  HMC_CHECK_EQ(static_cast<void*>(win.data()), buffer.ptr);
  HMC_CHECK_EQ(win.bytes(), 10'000U);
  std::vector<std::byte> bytes(10'000);
  win.get(me.next(), 0, bytes.data(), bytes.size());
  HMC_CHECK_CLEAN((Pattern{me.next(), 9}.verify(bytes)));
  me.runtime->world().barrier();
  { const ConnBuffer gone = std::move(buffer); }
  exchange(me, win, 2);
  win.close();
}

HMC_SPMD_TEST(Windows, two_windows_over_one_conn_buffer_share_bytes) {
  ConnBuffer buffer(0, 8192, hmc::MemoryType::CPU);
  Window one = Window::create(me.runtime->world(), buffer);
  Window two = Window::create(me.runtime->world(), buffer);
  std::vector<std::byte> bytes(8192);
  Pattern{me.rank, 3}.fill(bytes);
  one.put(me.next(), 0, bytes.data(), bytes.size());
  me.runtime->world().barrier();
  two.get(me.next(), 0, bytes.data(), bytes.size());
  HMC_CHECK_CLEAN((Pattern{me.rank, 3}.verify(bytes)));
  HMC_CHECK(buffer.readToCpu(bytes.data(), bytes.size()) == hmc::status_t::SUCCESS);
  HMC_CHECK_CLEAN((Pattern{me.previous(), 3}.verify(bytes)));
  me.runtime->world().barrier();
  one.close();
  exchange(me, two, 4);
  two.close();
}

HMC_SPMD_TEST(Windows, window_over_a_memfd_starts_at_its_offset) {
  const std::size_t page = hmc::base::page_size();
  hmc::base::UniqueFd memfd(::memfd_create("theirs", MFD_CLOEXEC));
  HMC_CHECK_EQ(::ftruncate(memfd.get(), static_cast<off_t>(4 * page)), 0);
  Window win = Window::create_over_memfd(me.runtime->world(), memfd.get(), page + 100, 2 * page);
  HMC_CHECK_EQ(win.bytes(), page + 100);
  struct stat file {};
  HMC_CHECK_EQ(::fstat(memfd.get(), &file), 0);
  HMC_CHECK_EQ(static_cast<std::size_t>(file.st_blocks) * 512, 2 * page);  // the pages of the window are allocated, and
                                                                           // no others
  exchange(me, win, 6);
  std::vector<std::byte> seen(page + 100);
  HMC_CHECK_EQ(::pread(memfd.get(), seen.data(), seen.size(), static_cast<off_t>(2 * page)),
               static_cast<ssize_t>(seen.size()));
  HMC_CHECK_CLEAN((Pattern{me.previous(), 6}.verify(seen)));
  me.runtime->world().barrier();
  win.close();
  HMC_CHECK_MSG(::lseek(memfd.get(), 0, SEEK_SET) == 0, "the caller's descriptor was closed");
}

HMC_SPMD_TEST(Windows, invalid_or_short_memfd_is_rejected_on_all_ranks) {
  hmc::base::UniqueFd memfd(::memfd_create("short", MFD_CLOEXEC));
  const std::size_t page = hmc::base::page_size();
  const bool guilty = me.rank == me.size - 1;
  HMC_CHECK_EQ(::ftruncate(memfd.get(), static_cast<off_t>(guilty ? page : 2 * page)), 0);
  HMC_CHECK_THROWS(hmc::Code::out_of_range, Window::create_over_memfd(me.runtime->world(), memfd.get(), 2 * page));
  HMC_CHECK_THROWS(hmc::Code::invalid_argument,
                   Window::create_over_memfd(me.runtime->world(), guilty ? -1 : memfd.get(), page));
}

HMC_SPMD_TEST(Windows, pointer_is_null_where_load_and_store_cannot_reach) {
  Window win = Window::create(me.runtime->world(), 4096);
  *win.local<std::uint64_t>(8) = 1000 + static_cast<std::uint64_t>(me.rank);
  me.runtime->world().barrier();
  for (int rank = 0; rank < me.size; ++rank) {
    const auto* const word = win.ptr<std::uint64_t>(rank, 8);
    const hmc::Path path = me.runtime->path(rank);
    HMC_CHECK_MSG((word != nullptr) == path.direct, "rank {} over {} ({})", rank, path.wire, path.why);
    if (word != nullptr) HMC_CHECK_EQ(*word, 1000 + static_cast<std::uint64_t>(rank));
    HMC_CHECK(win.ptr(rank, 4097) == nullptr);
  }
  if (me.runtime->path(me.rank).direct) HMC_CHECK(win.ptr(me.rank) == win.data());
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Windows, many_windows_are_separate) {
  std::vector<Window> wins;
  for (std::size_t i = 0; i < 20; ++i) wins.push_back(Window::create(me.runtime->world(), 1000 + i));
  std::vector<std::byte> bytes(2000);
  for (std::size_t i = 0; i < wins.size(); ++i) {
    Pattern{me.rank, i}.fill(bytes);
    wins[i].put(me.next(), 0, bytes.data(), wins[i].bytes());
  }
  me.runtime->world().barrier();
  for (std::size_t i = 0; i < wins.size(); ++i)
    HMC_CHECK_CLEAN((Pattern{me.previous(), i}.verify({wins[i].data(), wins[i].bytes()})));
  for (std::size_t i = 0; i < wins.size(); i += 2) wins[i].close();
  for (std::size_t i = 1; i < wins.size(); i += 2) exchange(me, wins[i], 100 + i);
  for (std::size_t i = 1; i < wins.size(); i += 2) wins[i].close();
}

// Every rank makes the same random calls: the offsets are equal, ranges don't overlap, and freed space is reused.
HMC_SPMD_TEST(Windows, symmetric_allocation_has_equal_offsets_on_all_ranks) {
  constexpr std::uint64_t capacity = 50'000;
  Window win = Window::create(me.runtime->world(), capacity);
  std::mt19937_64 random(me.options.seed);
  std::map<std::uint64_t, std::uint64_t> taken;
  std::vector<std::uint64_t> history;
  for (int step = 0; step < 2000; ++step) {
    if (!taken.empty() && random() % 100 < 45) {
      const auto victim = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      win.free(victim->first);
      taken.erase(victim);
      continue;
    }
    const std::uint64_t bytes = 1 + random() % 2500;
    const std::uint64_t align = std::uint64_t{1} << (random() % 10);
    std::uint64_t offset = capacity;  // stands for "full" in the history
    try {
      offset = win.alloc(bytes, align);
    } catch (const hmc::Error& error) {
      HMC_CHECK_EQ(error.code(), hmc::Code::out_of_memory);
    }
    history.push_back(offset);
    if (offset == capacity) continue;
    HMC_CHECK_EQ(offset % align, 0U);
    HMC_CHECK_LE(offset + bytes, capacity);
    const auto after = taken.lower_bound(offset);
    HMC_CHECK(after == taken.end() || offset + bytes <= after->first);
    HMC_CHECK(after == taken.begin() || std::prev(after)->first + std::prev(after)->second <= offset);
    taken[offset] = bytes;
  }
  std::vector<std::uint64_t> everyone(history.size() * static_cast<std::size_t>(me.size));
  me.runtime->world().allgather(history, everyone);
  for (std::size_t i = 0; i < everyone.size(); ++i) HMC_CHECK_EQ(everyone[i], history[i % history.size()]);
  for (const auto& [offset, bytes] : taken) win.free(offset);
  HMC_CHECK_EQ(win.alloc(capacity, 1), 0U);
  win.close();
}

namespace {

/// The error text of close on every rank. The window is closed in any case.
std::string text_of_close(TestRank& me, Window& win, hmc::Code wanted) {
  std::string text;
  try {
    win.close();
    HMC_CHECK(wanted == hmc::Code::success);
  } catch (const hmc::Error& error) {
    HMC_CHECK_MSG(error.code() == wanted, "wanted {}, got: {}", name_of(wanted), error.what());
    HMC_CHECK_EQ(error.detail().operation, "Window::close");
    text = error.what();
  }
  HMC_CHECK(!win.is_open());
  me.runtime->world().barrier();  // the job still works
  return text;
}

void expect_in(const std::string& text, const std::string& part) {
  HMC_CHECK_MSG(text.find(part) != std::string::npos, "'{}' isn't in: {}", part, text);
}

}  // namespace

HMC_SPMD_TEST(Windows, close_reports_different_allocation_sizes) {
  const int odd = me.size - 1;
  Window win = Window::create(me.runtime->world(), 1 << 16);
  win.alloc(100);
  win.alloc(me.rank == odd ? 640 : 64);
  win.alloc(100);
  const std::string text = text_of_close(me, win, me.size > 1 ? hmc::Code::mismatch : hmc::Code::success);
  if (me.size == 1) return;
  expect_in(text, "from call 2 of alloc on");
  expect_in(text, fmt::format("rank {} got 640 bytes at offset 128", odd));
  expect_in(text, me.size == 2 ? "rank 0 got 64 bytes at offset 128" : "ranks 0, 1");
}

HMC_SPMD_TEST(Windows, close_reports_a_missing_allocation) {
  Window win = Window::create(me.runtime->world(), 1 << 16);
  const std::uint64_t first = win.alloc(100);
  win.free(first);
  if (me.rank != 0) win.alloc(32);
  const std::string text = text_of_close(me, win, me.size > 1 ? hmc::Code::mismatch : hmc::Code::success);
  if (me.size == 1) return;
  expect_in(text, "rank 0 made no such call");
  expect_in(text, "got 32 bytes at offset 0");
}

HMC_SPMD_TEST(Windows, close_of_a_team_window_names_world_ranks) {
  if (me.size < 4) return;
  hmc::Team half = me.runtime->world().split(me.rank % 2);
  Window win = Window::create(half, 1 << 16);
  win.alloc(me.rank == 2 ? 8 : 16);
  const std::string text = text_of_close(me, win, me.rank % 2 == 0 ? hmc::Code::mismatch : hmc::Code::success);
  if (me.rank % 2 == 0) expect_in(text, "world rank 2 got 8 bytes at offset 0");
  half.close();
}

HMC_SPMD_TEST(Windows, close_reports_differences_after_a_long_history) {
  Window win = Window::create(me.runtime->world(), 1 << 16);
  for (int i = 0; i < 1500; ++i) win.free(win.alloc(static_cast<std::size_t>(1 + i % 7)));
  win.alloc(me.rank == 0 ? 8 : 16);
  const std::string text = text_of_close(me, win, me.size > 1 ? hmc::Code::mismatch : hmc::Code::success);
  if (me.size > 1) expect_in(text, "after the first 1024 calls of alloc");
}

HMC_SPMD_TEST(Windows, counters_have_the_path_of_puts) {
  Window win = Window::create(me.runtime->world(), 64);
  const std::uint64_t value = 5;
  const hmc::Counters before = me.runtime->counters();
  for (int i = 0; i < 10; ++i) win.put(me.next(), 8, &value, 8);
  const hmc::Counters after = me.runtime->counters();
  const bool direct = me.runtime->path(me.next()).direct;
  HMC_CHECK_EQ(after.puts_direct - before.puts_direct, direct ? 10U : 0U);
  HMC_CHECK_EQ(after.puts_wire - before.puts_wire, direct ? 0U : 10U);
  me.runtime->world().barrier();
  win.close();
}

// Sizes that are copied, inlined, and accessed by a device; ranges inside the registration and across its end.
HMC_SPMD_TEST(Registration, registered_memory_is_a_source_and_a_destination) {
  constexpr std::size_t bytes = 300'007;
  Window win = Window::create(me.runtime->world(), 2 * bytes);
  std::vector<std::byte> memory(2 * bytes);
  hmc::Registration registration = hmc::Registration::create(me.runtime->world(), memory.data(), bytes);
  bool uses_verbs = me.size == 1;
  for (int peer = 0; peer < me.size; ++peer) uses_verbs |= me.runtime->path(peer).wire == "verbs";
  HMC_CHECK(uses_verbs || !registration.is_used());
  std::uint64_t call = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{221}, std::size_t{70'001}, bytes}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{13}, bytes - size}) {
      ++call;
      const std::span<std::byte> part = std::span(memory).subspan(at, size);
      Pattern{me.rank, call}.fill(part);
      win.put(me.next(), at, part.data(), size);
      me.runtime->world().barrier();
      HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify({win.data() + at, size})));
      std::fill(part.begin(), part.end(), std::byte{0xcc});
      win.get(me.next(), at, part.data(), size);
      HMC_CHECK_CLEAN((Pattern{me.rank, call}.verify(part)));
      me.runtime->world().barrier();
    }
  }
  // A put in flight when the registration ends still arrives.
  Pattern{me.rank, 99}.fill(std::span(memory).first(bytes));
  hmc::Request put = win.put_nb(me.next(), 0, memory.data(), bytes);
  hmc::Registration moved = std::move(registration);
  HMC_CHECK(!registration.is_used());
  moved.release();
  put.wait();
  me.runtime->world().barrier();
  HMC_CHECK_CLEAN((Pattern{me.previous(), 99}.verify({win.data(), bytes})));
  try {
    (void)hmc::Registration::create(me.runtime->world(), nullptr, 8);
    HMC_CHECK(false);
  } catch (const hmc::Error& error) {
    HMC_CHECK(error.code() == hmc::Code::invalid_argument);
  }
  win.close();
}

HMC_SPMD_TEST(Windows, shared_mapping_outlives_the_window) {
  constexpr std::size_t bytes = 10001;
  std::vector<std::shared_ptr<std::byte>> parts;
  {
    Window win = Window::create(me.runtime->world(), bytes);
    Pattern{me.rank, 7}.fill({win.data(), bytes});
    for (int rank = 0; rank < me.size; ++rank) {
      parts.push_back(win.share(rank));
      HMC_CHECK_EQ(parts.back().get(), win.ptr(rank));
    }
    me.runtime->world().barrier();
    win.close();
  }
  Window next = Window::create(me.runtime->world(), bytes);  // may be mapped where the first window was
  Pattern{me.rank, 8}.fill({next.data(), bytes});
  for (int rank = 0; rank < me.size; ++rank) {
    const auto& part = parts[static_cast<std::size_t>(rank)];
    if (part != nullptr) HMC_CHECK_CLEAN((Pattern{rank, 7}.verify({part.get(), bytes})));
  }
  next.close();
}
