// A vector of floats from each rank, added up, a block of it to each; the size is that of a block.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

void measure(bench::Session& session) {
  constexpr std::size_t element = sizeof(float);
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options, element);
  const auto ranks = static_cast<std::size_t>(session.ranks());
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * (ranks + 1));
  std::byte* const in = buffers.local();
  std::byte* const out = in + sizes.back() * ranks;
  const bench::Pattern given = bench::contribution(hmc::sum, hmc::DType::f32, session.rank(), session.ranks());
  const bench::Pattern expected = bench::reduction(hmc::sum, hmc::DType::f32, session.ranks());

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase scatter;
    scatter.call = [&, bytes] { session.team.reduce_scatter(in, out, bytes / element, hmc::DType::f32, hmc::sum); };
    scatter.write = [&, bytes](int iteration) {
      // Block b in its own iteration's phase, so that blocks differ.
      for (std::size_t block = 0; block < ranks; ++block)
        given.write(in + block * bytes, bytes, iteration + static_cast<int>(block));
    };
    scatter.read = [&, bytes](int iteration) { return expected.matches(out, bytes, iteration + session.rank()); };
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
  const Spec program{.name = "hmc_reduce_scatter",
                     .title = "Reduce_scatter Latency Test",
                     .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
