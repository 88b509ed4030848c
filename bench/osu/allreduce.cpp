// A vector from each rank, combined element by element, to all.
#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"
#include "bench/osu/kit/pattern.hpp"

namespace {

hmc::DType dtype_named(const std::string& name) {
  int type = 0;
  while (hmc::name_of(static_cast<hmc::DType>(type)) != name)
    ++type;  // the command line takes only names that are there
  return static_cast<hmc::DType>(type);
}
hmc::Op op_named(const std::string& name) {
  int op = 0;
  while (hmc::name_of(static_cast<hmc::Op>(op)) != name) ++op;
  return static_cast<hmc::Op>(op);
}

void measure(bench::Session& session) {
  const hmc::DType type = dtype_named(session.options.dtype);
  const hmc::Op op = op_named(session.options.operation);
  const std::size_t element = hmc::size_of(type);
  const std::vector<std::size_t> sizes = bench::sizes_of(session.options, element);
  const double ranks = session.ranks();
  const std::size_t most = sizes.back();
  bench::Buffers buffers(session.team, session.options.place, most * 2);
  std::byte* const out = buffers.local();
  std::byte* const in = session.options.in_place ? out : out + most;
  const bench::Pattern given = bench::contribution(op, type, session.rank(), session.ranks());
  const bench::Pattern expected = bench::reduction(op, type, session.ranks());

  bench::measure_collective(session, sizes, [&](std::size_t bytes) {
    bench::CollectiveCase allreduce;
    allreduce.call = [=, &session] { session.team.allreduce(in, out, bytes / element, type, op); };
    allreduce.write = [=, &given](int iteration) { given.write(in, bytes, iteration); };
    allreduce.read = [=, &expected](int iteration) { return expected.matches(out, bytes, iteration); };
    allreduce.spoil = [=] { out[bytes - 1] ^= std::byte{1}; };
    allreduce.algorithm_bytes = static_cast<double>(bytes);
    allreduce.bus_factor = 2 * (ranks - 1) / ranks;
    return allreduce;
  });
  buffers.close();
}

// f32 and sum come first: they are the defaults.
std::vector<std::string> dtypes() {
  std::vector<std::string> names{hmc::name_of(hmc::DType::f32)};
  for (int type = 0; type < hmc::dtype_count; ++type) {
    if (static_cast<hmc::DType>(type) != hmc::DType::f32 && !hmc::is_located(static_cast<hmc::DType>(type)))
      names.emplace_back(hmc::name_of(static_cast<hmc::DType>(type)));
  }
  return names;
}
std::vector<std::string> operations() {
  std::vector<std::string> names;
  for (int op = 0; op < static_cast<int>(hmc::maxloc); ++op) names.emplace_back(hmc::name_of(static_cast<hmc::Op>(op)));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_allreduce",
                     .title = "Allreduce Latency Test",
                     .flags = timing_flags | size_flag | data_flags | in_place_flag,
                     .dtypes = dtypes(),
                     .operations = operations()};
  return run(argc, argv, program, measure);
}
