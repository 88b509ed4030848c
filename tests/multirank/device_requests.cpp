// put_nb and get_nb of device memory, on delayed drivers: a missing wait exposes the old bytes.
#include <algorithm>
#include <array>

#include "tests/multirank/device_names.hpp"

namespace {

constexpr std::size_t bytes = 5000;
constexpr int late_us = 3000;

/// For each vendor, creates a window and calls `body` with its driver, on every rank between two barriers.
template <typename Body> void on_late_drivers(TestRank& me, Body&& body) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, whose streams can be delayed");
  std::uint64_t call = 0;
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type == hmc::MemoryType::CPU || kind.type == hmc::MemoryType::OPENCL) continue;
    const Fake fake(kind.name);
    Mixed mixed(me, kind, 2 * bytes);
    me.runtime->world().barrier();
    body(kind, fake, mixed, ++call);
    me.runtime->world().barrier();
    if (mixed.window.is_open()) mixed.window.close();
  }
}

bool is_mapped(const Mixed& mixed, int peer) { return mixed.window.path(peer).wire != "staged"; }

}  // namespace

HMC_SPMD_TEST(DeviceRequests, put_overlaps_with_the_host_and_completes_at_wait) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    auto sent = made({me.rank, call}, bytes);
    bool seen_under_way = false;
    const AllLate late(me, fake, late_us);
    // A busy machine may run the stream's thread first; then the attempt is repeated.
    for (int attempt = 0; attempt < 20 && !seen_under_way; ++attempt) {
      Request put = mixed.window.put_nb(me.next(), 8, sent.data(), bytes);
      seen_under_way = !put.test();
      put.wait();
      if (!is_mapped(mixed, me.next())) break;
    }
    std::fill(sent.begin(), sent.end(), std::byte{0});  // the request is complete: the caller owns the source
    HMC_CHECK_EQ(seen_under_way, is_mapped(mixed, me.next()));
    mixed.window.flush();
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(mixed.bytes(8, bytes))));
  });
}

HMC_SPMD_TEST(DeviceRequests, get_completes_at_wait_on_host_and_device) {
  on_late_drivers(me, [&](MemoryKind kind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    mixed.write(100, made({me.rank, call}, bytes));
    ConnBuffer target(0, bytes, kind.type);
    me.runtime->world().barrier();
    std::vector<std::byte> got(bytes), on_device(bytes);
    {
      const Late late(fake, late_us);
      std::array<Request, 2> gets{mixed.window.get_nb(me.next(), 100, got.data(), bytes),
                                  mixed.window.get_nb(me.next(), 100, target.ptr, bytes)};
      HMC_CHECK(Request::wait_any(gets) != Request::none);
      Request::wait_all(gets);
      HMC_CHECK_EQ(target.readToCpu(on_device.data(), bytes), hmc::status_t::SUCCESS);
    }
    HMC_CHECK_CLEAN((Pattern{me.next(), call}.verify(got)));
    HMC_CHECK_CLEAN((Pattern{me.next(), call}.verify(on_device)));
  });
}

// Requests are dropped. flush (of one rank or of all), barrier and close complete them.
HMC_SPMD_TEST(DeviceRequests, flush_barrier_and_close_complete_dropped_requests) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    for (int way = 0; way < 4; ++way) {
      const Pattern pattern{me.rank, 10 * call + static_cast<std::uint64_t>(way)};
      const auto sent = made(pattern, bytes);
      me.runtime->world().barrier();
      const Late late(fake, late_us);
      for (int i = 0; i < 3; ++i) (void)mixed.window.put_nb(me.next(), 0, sent.data(), bytes);
      if (way == 0) mixed.window.flush(me.next());
      if (way == 1) mixed.window.flush();
      if (way < 2) {  // a separate copy, which no stream orders behind them
        std::vector<std::byte> got(bytes);
        mixed.window.get(me.next(), 0, got.data(), bytes);
        HMC_CHECK_CLEAN(pattern.verify(got));
      }
      if (way == 3) mixed.window.close();
      me.runtime->world().barrier();
      HMC_CHECK_CLEAN((Pattern{me.previous(), pattern.call}.verify(mixed.bytes(0, bytes))));
      me.runtime->world().barrier();
    }
  });
}

// Only gets are in flight. A barrier must wait for them too, so that the owner may write after it.
HMC_SPMD_TEST(DeviceRequests, barrier_completes_dropped_gets) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    mixed.write(0, made({me.rank, call}, bytes));
    mixed.window.flush();
    me.runtime->world().barrier();
    std::vector<std::byte> got(bytes);
    {
      const Late late(fake, 10 * late_us);
      (void)mixed.window.get_nb(me.next(), 0, got.data(), bytes);
      me.runtime->world().barrier();
      HMC_CHECK_CLEAN((Pattern{me.next(), call}.verify(got)));
    }
    mixed.write(0, made({me.rank, call + 50}, bytes));
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{me.next(), call}.verify(got)));
  });
}

// The later put is one copy, the earlier ones are five: without the fence it would arrive first.
HMC_SPMD_TEST(DeviceRequests, fence_orders_later_puts_after_puts_in_flight) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    const auto first = made({me.rank, call}, bytes), last = made({me.rank, call + 100}, bytes);
    const Late late(fake, late_us);
    for (int i = 0; i < 5; ++i) (void)mixed.window.put_nb(me.next(), 0, first.data(), bytes);
    mixed.window.fence();
    mixed.window.put_signal(me.next(), 0, last.data(), bytes, bytes / 8 * 8 + 8, call);
    HMC_CHECK_EQ(mixed.window.wait_until(bytes / 8 * 8 + 8, hmc::Cmp::eq, call), call);
    HMC_CHECK_CLEAN((Pattern{me.previous(), call + 100}.verify(mixed.bytes(0, bytes))));
  });
}

HMC_SPMD_TEST(DeviceRequests, abandoned_transfer_writes_no_more) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    mixed.write(0, made({me.rank, call}, bytes));
    me.runtime->world().barrier();
    std::vector<std::byte> got(bytes), after(bytes);
    const Late late(fake, late_us);
    for (int i = 0; i < 3; ++i) {
      Request get = mixed.window.get_nb(me.next(), 0, got.data(), bytes);
      get.abandon();
      std::fill(got.begin(), got.end(), std::byte{0x55});
    }
    mixed.window.get_nb(me.next(), 0, after.data(), bytes).wait();  // ordered behind them in their stream
    HMC_CHECK(std::all_of(got.begin(), got.end(), [](std::byte each) { return each == std::byte{0x55}; }));
    HMC_CHECK_CLEAN((Pattern{me.next(), call}.verify(after)));
  });
}

HMC_SPMD_TEST(DeviceRequests, full_queue_waits_until_the_deadline) {
  on_late_drivers(me, [&](MemoryKind, const Fake& fake, Mixed& mixed, std::uint64_t call) {
    std::vector<std::vector<std::byte>> sent;
    std::vector<Request> puts;
    for (std::uint64_t i = 0; i < 100; ++i) sent.push_back(made({me.rank, call * 1000 + i}, 16));
    for (std::uint64_t i = 0; i < 100; ++i) puts.push_back(mixed.window.put_nb(me.next(), 16 * i, sent[i].data(), 16));
    Request::wait_all(puts);
    me.runtime->world().barrier();
    for (std::uint64_t i = 0; i < 100; ++i)
      HMC_CHECK_CLEAN((Pattern{me.previous(), call * 1000 + i}.verify(mixed.bytes(16 * i, 16))));
    me.runtime->world().barrier();
    bool timed_out = false;
    const AllLate late(me, fake, 20'000);
    // On a busy machine the stream may finish before this rank checks. Then the attempt is repeated with a longer
    // delay.
    for (int us = 20'000; us < 10'000'000 && !timed_out; us *= 2) {
      fake.set_delay_us(us);
      Request slow = mixed.window.put_nb(me.next(), 0, sent[0].data(), 16);
      try {
        slow.wait(std::chrono::milliseconds(1));
      } catch (const hmc::Error& error) {
        HMC_CHECK_EQ(error.code(), Code::timeout);
        timed_out = true;
      }
      slow.wait();  // the request is still valid and completes
      if (!is_mapped(mixed, me.next())) break;
    }
    HMC_CHECK_EQ(timed_out, is_mapped(mixed, me.next()));
    mixed.window.flush();
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{me.previous(), call * 1000}.verify(mixed.bytes(0, 16))));
  });
}

// Through host memory in several pieces: to a device window, and to a host window, which a rank of another node reaches
// by a wire.
HMC_SPMD_TEST(DeviceRequests, delayed_device_transfers_complete_on_every_path) {
  on_late_drivers(me, [&](MemoryKind kind, const Fake& fake, Mixed&, std::uint64_t call) {
    constexpr std::size_t many = 700'001;
    Mixed on_device(me, kind, many), on_host(me, hmc::spmd::all_kinds[0], many);
    ConnBuffer local(0, many, kind.type), back(0, many, kind.type);
    const auto sent = made({me.rank, call}, many);
    HMC_CHECK_EQ(local.writeFromCpu(sent.data(), many), hmc::status_t::SUCCESS);
    me.runtime->world().barrier();
    std::vector<std::byte> got(many);
    {
      const Late late(fake, 300);
      for (Mixed* mixed : {&on_device, &on_host}) {
        mixed->window.put(me.next(), 0, local.ptr, many);
        mixed->window.flush();
        me.runtime->world().barrier();
        HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(mixed->bytes(0, many))));
        mixed->window.get(me.next(), 0, back.ptr, many);
        HMC_CHECK_EQ(back.readToCpu(got.data(), many), hmc::status_t::SUCCESS);
        HMC_CHECK_CLEAN((Pattern{me.rank, call}.verify(got)));
        HMC_CHECK_EQ(back.writeFromCpu(std::vector<std::byte>(many).data(), many), hmc::status_t::SUCCESS);
      }
      me.runtime->world().barrier();  // all ranks have verified the bytes that the next copy overwrites
      // Between two windows that this rank may not map: through a host buffer of two halves of 1 MiB.
      hmc::copy({on_host.window, me.next(), 1}, {on_device.window, me.next(), 0}, many - 1);
      on_host.window.flush();
      me.runtime->world().barrier();
    }
    HMC_CHECK_CLEAN((Pattern{me.previous(), call}.verify(on_host.bytes(1, many - 1))));
    me.runtime->world().barrier();
    on_device.window.close();
    on_host.window.close();
  });
}
