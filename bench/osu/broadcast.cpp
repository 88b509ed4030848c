// From rank 0 to all.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

constexpr int root = 0;

void measure(bench::Session& session) {
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options);
  bench::Buffers buffers(session.team, session.options.place, sizes.back());
  std::byte* const data = buffers.local();
  const bench::Pattern sent = bench::Pattern::bytes(root);
  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase broadcast;
    broadcast.call = [&, bytes] { session.team.broadcast(data, bytes, root); };
    broadcast.write = [&, bytes](int iteration) {
      if (session.rank() == root) sent.write(data, bytes, iteration);
    };
    broadcast.read = [&, bytes](int iteration) { return sent.matches(data, bytes, iteration); };
    broadcast.spoil = [=] { data[bytes - 1] ^= std::byte{1}; };
    broadcast.algorithm_bytes = static_cast<double>(bytes);
    broadcast.bus_factor = 1;
    return broadcast;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_broadcast", .title = "Broadcast Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
