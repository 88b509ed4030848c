// Misuse gives an Error, not a crash: its code, and a text with operation, rank, peer, offset and size.
#include <array>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/spmd.hpp"

namespace {

using hmc::Code;
using hmc::Window;
using hmc::spmd::TestRank;

constexpr std::size_t window_bytes = 4096;
constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();

struct Expected {
  Code code;
  std::string operation;
  int peer = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool extent = true;
};

void expect(const TestRank& me, const Expected& expected, const std::function<void()>& call) {
  try {
    call();
  } catch (const hmc::Error& error) {
    const std::string text = error.what();
    const auto names = [&](const std::string& part) {
      HMC_CHECK_MSG(text.find(part) != std::string::npos, "'{}' isn't in: {}", part, text);
    };
    HMC_CHECK_MSG(error.code() == expected.code, "wanted {}, got: {}", name_of(expected.code), text);
    HMC_CHECK_EQ(error.detail().operation, expected.operation);
    HMC_CHECK_EQ(error.rank(), me.rank);
    names(expected.operation);
    names(name_of(expected.code));
    names("rank " + std::to_string(me.rank));
    if (expected.peer >= 0) {
      HMC_CHECK_EQ(error.peer(), expected.peer);
      names("peer " + std::to_string(expected.peer));
    }
    if (expected.extent) {
      HMC_CHECK_EQ(error.detail().offset, expected.offset);
      HMC_CHECK_EQ(error.detail().size, expected.size);
      names("offset " + std::to_string(expected.offset));
      names("size " + std::to_string(expected.size));
    }
    return;
  }
  hmc::spmd::fail_check(__FILE__, __LINE__, "nothing was thrown by " + expected.operation);
}

/// Every verb with an offset and a size must fail with these arguments.
void each_transfer(TestRank& me, Window& win, Code code, int peer, std::uint64_t offset, std::size_t size,
                   void* local) {
  const hmc::Put put{offset, local, size};
  const hmc::Get get{offset, local, size};
  const hmc::Strides strides{1, size, size, size};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"put", [&] { win.put(peer, offset, local, size); }},
      {"get", [&] { win.get(peer, offset, local, size); }},
      {"put_nb", [&] { win.put_nb(peer, offset, local, size).wait(); }},
      {"get_nb", [&] { win.get_nb(peer, offset, local, size).wait(); }},
      {"put_batch",
       [&] {
         win.put_batch(peer, {&put, 1});
       }},
      {"get_batch",
       [&] {
         win.get_batch(peer, {&get, 1});
       }},
      {"put_strided", [&] { win.put_strided(peer, offset, local, strides); }},
      {"get_strided", [&] { win.get_strided(peer, offset, local, strides); }},
      {"put_signal", [&] { win.put_signal(peer, offset, local, size, 0, 1); }},
  };
  for (const auto& [operation, call] : calls) expect(me, {code, operation, peer, offset, size}, call);
}

void each_atomic(TestRank& me, Window& win, Code code, int peer, std::uint64_t offset) {
  std::uint64_t old = 0;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"fetch_add", [&] { win.fetch_add<std::uint64_t>(peer, offset, 1); }},
      {"swap", [&] { win.swap<std::uint64_t>(peer, offset, 1); }},
      {"compare_swap", [&] { win.compare_swap<std::uint64_t>(peer, offset, 1, 2); }},
      {"fetch", [&] { win.fetch<std::uint64_t>(peer, offset); }},
      {"fetch_and", [&] { win.fetch_and<std::uint64_t>(peer, offset, 1); }},
      {"fetch_or", [&] { win.fetch_or<std::uint64_t>(peer, offset, 1); }},
      {"fetch_xor", [&] { win.fetch_xor<std::uint64_t>(peer, offset, 1); }},
      {"fetch_add_nb", [&] { (void)win.fetch_add_nb(peer, offset, 1, &old); }},
      {"swap_nb", [&] { (void)win.swap_nb(peer, offset, 1, &old); }},
      {"compare_swap_nb", [&] { (void)win.compare_swap_nb(peer, offset, 1, 2, &old); }},
      {"fetch_nb", [&] { (void)win.fetch_nb(peer, offset, &old); }},
      {"add", [&] { win.add<std::uint64_t>(peer, offset, 1); }},
      {"set", [&] { win.set<std::uint64_t>(peer, offset, 1); }},
      {"atomic_and", [&] { win.atomic_and<std::uint64_t>(peer, offset, 1); }},
      {"atomic_or", [&] { win.atomic_or<std::uint64_t>(peer, offset, 1); }},
      {"atomic_xor", [&] { win.atomic_xor<std::uint64_t>(peer, offset, 1); }},
  };
  for (const auto& [operation, call] : calls) expect(me, {code, operation, peer, offset, 8}, call);
}

/// The same for atomics, and for the signal word of a put_signal with valid data.
void each_word(TestRank& me, Window& win, Code code, int peer, std::uint64_t offset) {
  each_atomic(me, win, code, peer, offset);
  expect(me, {code, "put_signal", peer, offset, 8}, [&] { win.put_signal(peer, 0, nullptr, 0, offset, 1); });
}

}  // namespace

HMC_SPMD_TEST(Errors, access_past_the_end_is_out_of_range) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  std::vector<std::byte> local(2 * window_bytes);
  const int peer = me.next();
  const std::pair<std::uint64_t, std::size_t> ranges[] = {
      {window_bytes, 1}, {window_bytes - 1, 2}, {0, window_bytes + 1},  {far, 1},
      {far - 7, 8},      {far - 7, 16},         {far / 2, far / 2 + 2}, {8, std::numeric_limits<std::size_t>::max()},
  };
  for (const auto& [offset, size] : ranges)
    each_transfer(me, win, Code::out_of_range, peer, offset, size, local.data());
  for (const std::uint64_t offset : {std::uint64_t{window_bytes}, far - 7})
    each_word(me, win, Code::out_of_range, peer, offset);
  expect(me, {Code::out_of_range, "wait_until", -1, window_bytes, 8},
         [&] { win.wait_until(window_bytes, hmc::Cmp::eq, 0); });
  expect(me, {Code::out_of_range, "test_until", -1, far - 7, 8}, [&] { win.test_until(far - 7, hmc::Cmp::eq, 0); });
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Errors, access_to_the_last_byte_and_empty_access_at_the_end_are_valid) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  std::byte byte{7};
  win.put(me.next(), window_bytes - 1, &byte, 1);
  win.put(me.next(), window_bytes, &byte, 0);
  win.put(me.next(), 0, nullptr, 0);
  win.get(me.next(), window_bytes, nullptr, 0);
  win.put_batch(me.next(), {});
  win.put_strided(me.next(), 0, &byte, {0, 1, 1, 1});
  me.runtime->world().barrier();
  HMC_CHECK_EQ(static_cast<int>(win.data()[window_bytes - 1]), 7);
  win.close();
}

HMC_SPMD_TEST(Errors, invalid_rank_is_rejected) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  std::vector<std::byte> local(64);
  for (const int peer : {-1, me.size, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    each_transfer(me, win, Code::bad_rank, peer, 8, 16, local.data());
    each_atomic(me, win, Code::bad_rank, peer, 8);
    expect(me, {Code::bad_rank, "flush", peer, 0, 0, false}, [&] { win.flush(peer); });
    HMC_CHECK_THROWS(Code::bad_rank, win.ptr(peer, 0));
    HMC_CHECK_THROWS(Code::bad_rank, win.bytes(peer));
    HMC_CHECK_THROWS(Code::bad_rank, me.runtime->path(peer));
    HMC_CHECK_THROWS(Code::bad_rank, me.runtime->node(peer));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Errors, misaligned_word_is_rejected) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  for (const std::uint64_t offset : {1U, 2U, 4U, 7U, 12U}) each_word(me, win, Code::misaligned, me.next(), offset);
  expect(me, {Code::misaligned, "fetch_add", me.next(), 2, 4}, [&] { win.fetch_add<std::int32_t>(me.next(), 2, 1); });
  expect(me, {Code::misaligned, "wait_until", -1, 4, 8}, [&] { win.wait_until(4, hmc::Cmp::eq, 0); });
  win.fetch_add<std::int32_t>(me.next(), 4, 1);  // an alignment of 4 is enough for 4 bytes
  me.runtime->world().barrier();
  HMC_CHECK_EQ(*win.local<std::int32_t>(4), 1);
  win.close();
}

HMC_SPMD_TEST(Errors, null_pointer_with_a_size_is_rejected) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  each_transfer(me, win, Code::invalid_argument, me.next(), 0, 8, nullptr);
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Errors, closed_window_is_rejected) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  win.close();
  HMC_CHECK(!win.is_open());
  std::vector<std::byte> local(64);
  each_transfer(me, win, Code::closed, me.next(), 8, 16, local.data());
  each_atomic(me, win, Code::closed, me.next(), 8);
  HMC_CHECK_THROWS(Code::closed, win.close());
  HMC_CHECK_THROWS(Code::closed, win.fence());
  HMC_CHECK_THROWS(Code::closed, win.flush());
  HMC_CHECK_THROWS(Code::closed, win.flush(me.next()));
  HMC_CHECK_THROWS(Code::closed, win.alloc(8));
  HMC_CHECK_THROWS(Code::closed, win.free(0));
  HMC_CHECK_THROWS(Code::closed, win.wait_until(0, hmc::Cmp::eq, 0));

  Window never;
  HMC_CHECK(!never.is_open());
  HMC_CHECK_THROWS(Code::closed, never.put(0, 0, local.data(), 1));
  HMC_CHECK_THROWS(Code::closed, never.bytes());
}

HMC_SPMD_TEST(Errors, invalid_stride_is_rejected) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  std::vector<std::byte> local(window_bytes);
  const int peer = me.next();
  HMC_CHECK_THROWS(Code::invalid_argument, win.put_strided(peer, 0, local.data(), {2, 16, 8, 16}));
  HMC_CHECK_THROWS(Code::invalid_argument, win.get_strided(peer, 0, local.data(), {2, 16, 16, 8}));
  HMC_CHECK_THROWS(Code::out_of_range, win.put_strided(peer, 0, local.data(), {3, 16, 16, 2048}));
  HMC_CHECK_THROWS(Code::out_of_range, win.put_strided(peer, 0, local.data(), {2, 16, 16, far - 8}));
  HMC_CHECK_THROWS(Code::out_of_range, win.get_strided(peer, 0, local.data(), {far, 16, 16, 4096}));
  win.put_strided(peer, 0, local.data(), {2, 16, 16, window_bytes - 16});
  win.put_strided(peer, 0, local.data(), {far, 0, 16, 16});  // zero bytes per row, any number of rows
  win.get_strided(peer, 0, local.data(), {far, 0, 16, 16});
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Errors, batch_with_one_invalid_entry_moves_nothing) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  const std::uint64_t value = 0x0123456789abcdefU;
  const std::array<hmc::Put, 3> puts{{{0, &value, 8}, {window_bytes - 4, &value, 8}, {16, &value, 8}}};
  expect(me, {Code::out_of_range, "put_batch", me.next(), window_bytes - 4, 8},
         [&] { win.put_batch(me.next(), puts); });
  me.runtime->world().barrier();
  HMC_CHECK_EQ(*win.local<std::uint64_t>(0), 0U);
  HMC_CHECK_EQ(*win.local<std::uint64_t>(16), 0U);
  win.close();
}

HMC_SPMD_TEST(Errors, full_window_reports_the_free_bytes) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  const std::uint64_t first = win.alloc(1024);
  try {
    win.alloc(window_bytes);
    hmc::spmd::fail_check(__FILE__, __LINE__, "nothing was thrown");
  } catch (const hmc::Error& error) {
    HMC_CHECK_EQ(error.code(), Code::out_of_memory);
    const std::string text = error.what();
    for (const char* part : {"alloc", "4096", "3072"})
      HMC_CHECK_MSG(text.find(part) != std::string::npos, "no {} in: {}", part, text);
  }
  win.free(first);
  HMC_CHECK_EQ(win.alloc(window_bytes), 0U);
  HMC_CHECK_THROWS(Code::invalid_argument, win.free(64));
  HMC_CHECK_THROWS(Code::invalid_argument, win.alloc(8, 3));
  HMC_CHECK_THROWS(Code::invalid_argument, win.alloc(8, 0));
  win.close();
}

HMC_SPMD_TEST(Errors, allocation_failure_is_an_error_on_every_rank) {
  const std::size_t mine = me.rank == me.size - 1 ? std::size_t{1} << 60 : std::size_t{4096};
  try {
    Window win = Window::create(me.runtime->world(), mine);
    hmc::spmd::fail_check(__FILE__, __LINE__, "a window of 2^60 bytes was made");
  } catch (const hmc::Error& error) {
    HMC_CHECK_MSG(error.code() == Code::out_of_memory || error.code() == Code::error, "{}", error.what());
    HMC_CHECK_MSG(std::string(error.what()).find("Window::create") != std::string::npos, "{}", error.what());
  }
  // The job continues.
  Window win = Window::create(me.runtime->world(), window_bytes);
  me.runtime->world().barrier();
  win.close();
}
