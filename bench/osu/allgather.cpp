// One block from each rank, all of them to all; the size is that of a block.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

void measure(bench::Session& session) {
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options);
  const auto ranks = static_cast<std::size_t>(session.ranks());
  const auto mine = static_cast<std::size_t>(session.rank());
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * (ranks + 1));
  std::byte* const out = buffers.local();
  std::vector<bench::Pattern> sent;
  for (std::size_t rank = 0; rank < ranks; ++rank) sent.push_back(bench::Pattern::bytes(rank));

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    std::byte* const in = session.options.in_place ? out + mine * bytes : out + sizes.back() * ranks;
    bench::CollectiveCase allgather;
    allgather.call = [&, in, bytes] { session.team.allgather(in, out, bytes); };
    allgather.write = [&, in, bytes](int iteration) { sent[mine].write(in, bytes, iteration); };
    allgather.read = [&, bytes](int iteration) {
      bool right = true;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        right &= sent[rank].matches(out + rank * bytes, bytes, iteration);
      return right;
    };
    allgather.spoil = [=] { out[ranks * bytes - 1] ^= std::byte{1}; };
    allgather.algorithm_bytes = static_cast<double>(bytes * ranks);
    allgather.bus_factor = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    return allgather;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_allgather",
                     .title = "Allgather Latency Test",
                     .flags = timing_flags | size_flag | data_flags | in_place_flag};
  return run(argc, argv, program, measure);
}
