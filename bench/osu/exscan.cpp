// A vector of floats from each rank; each gets the sum of those before it, and rank 0 nothing.
#include <algorithm>

#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

void measure(bench::Session& session) {
  constexpr std::size_t element = sizeof(float);
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options, element);
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * 2);
  std::byte* const out = buffers.local();
  std::byte* const in = out + sizes.back();
  const bench::Pattern given = bench::contribution(hmc::sum, hmc::DType::f32, session.rank(), session.ranks());
  const int before = session.rank();
  const bench::Pattern expected = bench::prefix(hmc::sum, hmc::DType::f32, std::max(before, 1), session.ranks());

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase exscan;
    exscan.call = [&, bytes] { session.team.exscan(in, out, bytes / element, hmc::DType::f32, hmc::sum); };
    exscan.write = [&, bytes](int iteration) { given.write(in, bytes, iteration); };
    exscan.read = [&, bytes](int iteration) { return before == 0 || expected.matches(out, bytes, iteration); };
    exscan.spoil = [&] { session.failed = true; };
    exscan.algorithm_bytes = static_cast<double>(bytes);
    exscan.bus_factor = 1;
    return exscan;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_exscan", .title = "Exscan Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
