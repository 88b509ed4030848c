// A vector of floats from each rank, added up, to rank 0.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

constexpr int root = 0;

void measure(bench::Session& session) {
  constexpr std::size_t element = sizeof(float);
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options, element);
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * 2);
  std::byte* const out = buffers.local();
  std::byte* const in = out + sizes.back();
  const bench::Pattern given = bench::contribution(hmc::sum, hmc::DType::f32, session.rank(), session.ranks());
  const bench::Pattern expected = bench::reduction(hmc::sum, hmc::DType::f32, session.ranks());

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase reduce;
    reduce.call = [&, bytes] { session.team.reduce(in, out, bytes / element, hmc::DType::f32, hmc::sum, root); };
    reduce.write = [&, bytes](int iteration) { given.write(in, bytes, iteration); };
    reduce.read = [&, bytes](int iteration) {
      return session.rank() != root || expected.matches(out, bytes, iteration);
    };
    reduce.spoil = [&] { session.failed = true; };
    reduce.algorithm_bytes = static_cast<double>(bytes);
    reduce.bus_factor = 1;
    return reduce;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_reduce", .title = "Reduce Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
