// Transfers in the order of a user's stream, on delayed drivers.
#include "runtime/memory/provider.hpp"
#include "tests/multirank/device_names.hpp"

// The stream itself fills the source: a put that ignores its order sends the old bytes.
HMC_SPMD_TEST(DeviceStreams, put_is_ordered_after_earlier_work_of_the_stream) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, whose streams can be delayed");
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type == hmc::MemoryType::CPU || kind.type == hmc::MemoryType::OPENCL) continue;
    const auto& provider = hmc::memory::provider_for(kind.type);
    const Fake fake(kind.name);
    constexpr std::size_t bytes = 5000;
    Mixed mixed(me, kind, bytes);
    Mixed on_host(me, hmc::spmd::all_kinds[0], bytes);
    ConnBuffer source(0, bytes, kind.type);
    const auto stream = provider.make_stream(0);
    for (hmc::Window* window : {&mixed.window, &on_host.window}) {
      const auto sent = made({me.rank, 3}, bytes);
      bool seen_under_way = false;
      bool reached = true;
      {
        const AllLate late(me, fake, 3000);
        // A busy machine may run the stream's thread first; then the attempt is repeated.
        for (int attempt = 0; attempt < 20 && !seen_under_way; ++attempt) {
          HMC_CHECK(provider
                        .copy_async({.destination = source.ptr,
                                     .source = sent.data(),
                                     .width = bytes,
                                     .direction = hmc::memory::Direction::host_to_device},
                                    *stream)
                        .ok());
          try {
            window->put_on(stream->native(), me.next(), 0, source.ptr, bytes);
          } catch (const hmc::Error& error) {
            HMC_CHECK_EQ(error.code(), Code::unsupported);
            reached = false;
          }
          seen_under_way = stream->query().code == Code::in_progress;
          HMC_CHECK(stream->synchronize().ok());
        }
      }
      const auto is_reached = [&](int peer) {
        const std::string way = window->path(peer).wire;
        return way != "staged" && way != "ucx" && way != "tcp";
      };
      HMC_CHECK_EQ(reached, is_reached(me.next()));
      HMC_CHECK(seen_under_way);
      me.runtime->world().barrier();
      const Mixed& target = window == &mixed.window ? mixed : on_host;
      if (is_reached(me.previous()))  // paths are the same in both directions here
        HMC_CHECK_CLEAN((Pattern{me.previous(), 3}.verify(target.bytes(0, bytes))));
      me.runtime->world().barrier();
    }
    // The source must be device memory.
    std::vector<std::byte> plain(8);
    if (me.runtime->path(me.next()).direct)
      HMC_CHECK_THROWS(Code::invalid_argument, on_host.window.put_on(stream->native(), me.next(), 0, plain.data(), 8));
    me.runtime->world().barrier();
    on_host.window.close();
    mixed.window.close();
  }
}
