// The start of a job.
#include <fmt/format.h>

#include "bench/osu/kit/stats.hpp"
#include "bench/osu/programs.hpp"

namespace bench {
namespace {

// Initializes and finalizes: `time hmcrun -np 64 hmc_hello` measures the start of a job.
void hello(Session& session) {
  print_facts(session);
  session.report.line(fmt::format("This is a test with {} processes", session.ranks()));
}

// The duration of Runtime::init on each rank.
void init(Session& session) {
  const double min = min_over_ranks(session.team, session.init_us);
  const double max = max_over_ranks(session.team, session.init_us);
  const double avg = sum_over_ranks(session.team, session.init_us) / session.ranks();
  print_facts(session);
  // OSU's line has whole milliseconds only.
  session.report.line(fmt::format("nprocs: {}, min: {:.0f} ms, max: {:.0f} ms, avg: {:.0f} ms", session.ranks(),
                                  min / 1000, max / 1000, avg / 1000));
  session.report.remark(fmt::format("Microseconds: min {:.2f}, max {:.2f}, avg {:.2f}", min, max, avg));
  session.report.value("min_us", min);
  session.report.value("max_us", max);
  session.report.value("avg_us", avg);
}

}  // namespace

std::vector<Program> starts() {
  return {{{.name = "hmc_hello", .title = "Hello World Test"}, hello},
          {{.name = "hmc_init", .title = "Init Test"}, init}};
}

}  // namespace bench
