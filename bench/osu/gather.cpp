// One block from each rank to rank 0; the size is that of a block.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

constexpr int root = 0;

void measure(bench::Session& session) {
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options);
  const auto ranks = static_cast<std::size_t>(session.ranks());
  const auto mine = static_cast<std::size_t>(session.rank());
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * (ranks + 1));
  std::byte* const out = buffers.local();
  std::byte* const in = out + sizes.back() * ranks;
  std::vector<bench::Pattern> sent;
  for (std::size_t rank = 0; rank < ranks; ++rank) sent.push_back(bench::Pattern::bytes(rank));

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase gather;
    gather.call = [&, bytes] { session.team.gather(in, out, bytes, root); };
    gather.write = [&, bytes](int iteration) { sent[mine].write(in, bytes, iteration); };
    gather.read = [&, bytes](int iteration) {
      bool right = true;
      for (std::size_t rank = 0; rank < ranks && session.rank() == root; ++rank)
        right &= sent[rank].matches(out + rank * bytes, bytes, iteration);
      return right;
    };
    gather.spoil = [&] { session.failed = true; };
    gather.algorithm_bytes = static_cast<double>(bytes * ranks);
    gather.bus_factor = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    return gather;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_gather", .title = "Gather Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
