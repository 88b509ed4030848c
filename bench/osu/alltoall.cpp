// One block from each rank to each; the size is that of a block.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

void measure(bench::Session& session) {
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options);
  const auto ranks = static_cast<std::size_t>(session.ranks());
  const auto mine = static_cast<std::size_t>(session.rank());
  bench::Buffers buffers(session.team, session.options.place, sizes.back() * ranks * 2);
  std::byte* const in = buffers.local();
  std::byte* const out = in + sizes.back() * ranks;
  std::vector<bench::Pattern> sent;  // by sender and receiver
  for (std::size_t i = 0; i < ranks * ranks; ++i) sent.push_back(bench::Pattern::bytes(i));

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase alltoall;
    alltoall.call = [&, bytes] { session.team.alltoall(in, out, bytes); };
    alltoall.write = [&, bytes](int iteration) {
      for (std::size_t rank = 0; rank < ranks; ++rank)
        sent[mine * ranks + rank].write(in + rank * bytes, bytes, iteration);
    };
    alltoall.read = [&, bytes](int iteration) {
      bool right = true;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        right &= sent[rank * ranks + mine].matches(out + rank * bytes, bytes, iteration);
      return right;
    };
    alltoall.spoil = [=] { out[bytes - 1] ^= std::byte{1}; };
    alltoall.algorithm_bytes = static_cast<double>(bytes * ranks);
    alltoall.bus_factor = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    return alltoall;
  });
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{
      .name = "hmc_alltoall", .title = "Alltoall Latency Test", .flags = timing_flags | size_flag | data_flags};
  return run(argc, argv, program, measure);
}
