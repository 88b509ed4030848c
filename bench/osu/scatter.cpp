// One block from rank 0 to each rank; the size is that of a block.
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
  std::byte* const in = buffers.local();
  std::byte* const out = in + sizes.back() * ranks;
  std::vector<bench::Pattern> sent;
  for (std::size_t rank = 0; rank < ranks; ++rank) sent.push_back(bench::Pattern::bytes(rank));

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase scatter;
    scatter.call = [&, bytes] { session.team.scatter(in, out, bytes, root); };
    scatter.write = [&, bytes](int iteration) {
      for (std::size_t rank = 0; rank < ranks && session.rank() == root; ++rank)
        sent[rank].write(in + rank * bytes, bytes, iteration);
    };
    scatter.read = [&, bytes](int iteration) { return sent[mine].matches(out, bytes, iteration); };
    scatter.spoil = [=] { out[bytes - 1] ^= std::byte{1}; };
    scatter.algorithm_bytes = static_cast<double>(bytes * ranks);
    scatter.bus_factor = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    return scatter;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_scatter", .title = "Scatter Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
