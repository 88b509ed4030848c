// A vector of floats from each rank; each gets the sum of its own and all those before it.
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
  const bench::Pattern expected = bench::prefix(hmc::sum, hmc::DType::f32, session.rank() + 1, session.ranks());

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase scan;
    scan.call = [&, bytes] { session.team.scan(in, out, bytes / element, hmc::DType::f32, hmc::sum); };
    scan.write = [&, bytes](int iteration) { given.write(in, bytes, iteration); };
    scan.read = [&, bytes](int iteration) { return expected.matches(out, bytes, iteration); };
    scan.spoil = [=] { out[bytes - 1] ^= std::byte{1}; };
    scan.algorithm_bytes = static_cast<double>(bytes);
    scan.bus_factor = 1;
    return scan;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_scan", .title = "Scan Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
