// Each atomic, one at a time, on a word of the peer's window; those without a result are completed by flush.
#include <fmt/format.h>

#include <atomic>
#include <string>
#include <vector>

#include "bench/osu/session.hpp"
#include "bench/osu/transfer.hpp"

namespace bench {
namespace {

constexpr std::uint64_t word_at = 64;  // in the window
constexpr int operand = 3;
constexpr int compared = 90;

// The word before an iteration. compare_swap succeeds in every second one. Without -c the word is written once: then
// only the first compare_swap succeeds, and failing ones are measured.
constexpr int word_before(int iteration) { return compared + iteration % 2; }

struct Atomic {
  const char* name;
  bool fetches;
  TransferLoop loop;
  int (*after)(int word);
};

template <typename T, typename Call> Atomic fetching(const char* name, int (*after)(int), Call) {
  const auto loop = [](Side& side, std::size_t, int repeat) {
    T result{};
    for (int i = 0; i < repeat; ++i) result = Call{}(side.window, side.peer);
    side.returned = static_cast<std::uint64_t>(result);
  };
  return {name, true, loop, after};
}

template <typename Call> Atomic posting(const char* name, int (*after)(int), Call) {
  const auto loop = [](Side& side, std::size_t, int repeat) {
    for (int i = 0; i < repeat; ++i) {
      Call{}(side.window, side.peer);
      side.window.flush(side.peer);
    }
  };
  return {name, false, loop, after};
}

template <typename T> std::vector<Atomic> atomics_on() {
  using W = hmc::Window;
  constexpr T value = operand;
  const auto plus = [](int word) { return word + operand; };
  const auto both = [](int word) { return word & operand; };
  const auto either = [](int word) { return word | operand; };
  const auto one = [](int word) { return word ^ operand; };
  const auto replaced = [](int) { return operand; };
  const auto same = [](int word) { return word; };
  const auto if_equal = [](int word) { return word == compared ? operand : word; };
  return {
      fetching<T>("fetch_add", plus, [](W& w, int peer) { return w.fetch_add<T>(peer, word_at, value); }),
      fetching<T>("fetch_and", both, [](W& w, int peer) { return w.fetch_and<T>(peer, word_at, value); }),
      fetching<T>("fetch_or", either, [](W& w, int peer) { return w.fetch_or<T>(peer, word_at, value); }),
      fetching<T>("fetch_xor", one, [](W& w, int peer) { return w.fetch_xor<T>(peer, word_at, value); }),
      fetching<T>("swap", replaced, [](W& w, int peer) { return w.swap<T>(peer, word_at, value); }),
      fetching<T>("compare_swap", if_equal,
                  [](W& w, int peer) { return w.compare_swap<T>(peer, word_at, compared, value); }),
      fetching<T>("fetch", same, [](W& w, int peer) { return w.fetch<T>(peer, word_at); }),
      posting("add", plus, [](W& w, int peer) { w.add<T>(peer, word_at, value); }),
      posting("set", replaced, [](W& w, int peer) { w.set<T>(peer, word_at, value); }),
      posting("and", both, [](W& w, int peer) { w.atomic_and<T>(peer, word_at, value); }),
      posting("or", either, [](W& w, int peer) { w.atomic_or<T>(peer, word_at, value); }),
      posting("xor", one, [](W& w, int peer) { w.atomic_xor<T>(peer, word_at, value); }),
  };
}

template <typename T> TransferCase case_of(const Atomic& atomic, Side& side) {
  T* const word = side.window.local<T>(word_at);
  return {atomic.loop, sizeof(T),
          [word](int iteration) { std::atomic_ref(*word).store(static_cast<T>(word_before(iteration))); },
          [&side, &atomic, word](int iteration) {
            const int before = word_before(iteration);
            if (side.starts) return !atomic.fetches || side.returned == static_cast<std::uint64_t>(before);
            return std::atomic_ref(*word).load() == static_cast<T>(atomic.after(before));
          },
          [&side, word] {
            ++side.returned;
            std::atomic_ref(*word).fetch_add(1);
          }};
}

// hmc_atomics prints a row per atomic; the other programs have one atomic and OSU's columns.
bool is_list(const Session& session) { return session.spec.name == "hmc_atomics"; }

Row row_of(const Session& session, const char* name, std::size_t bytes, const Figures& figures) {
  Row row;
  if (is_list(session)) {
    row.push_back({"# Operation", "operation", name, 20, true});
    row.push_back({"Million ops/s", "mops", 1 / figures.main});
  } else {
    row.push_back({"# Size", "size", std::uint64_t{bytes}, size_width, true});
  }
  row.push_back({"Latency (us)", "avg_us", figures.main});
  add_common(session.options, Metric::latency, figures, {}, row);
  return row;
}

template <typename T> void measure(Session& session, const std::string& operation) {
  const TransferSpec spec{.direction = Direction::put};
  Buffers buffers(session.team, Place::window, 0);
  Side side = side_of(session, spec, buffers, 1);
  side.writes = side.reads;                // the owner of the word sets it
  side.reads = side.reads || side.starts;  // and both check: the word, and the returned value

  print_facts(session, side.peer);
  session.report.columns(row_of(session, "", sizeof(T), {}));
  for (const Atomic& atomic : atomics_on<T>()) {
    if (operation != "all" && operation != atomic.name) continue;
    session.progress.begin(fmt::format("{}: {}", session.spec.name, atomic.name));
    const Figures figures = measure_transfer(session, spec, side, case_of<T>(atomic, side));
    session.row(row_of(session, atomic.name, sizeof(T), figures), figures.right);
  }
  buffers.close();
}

void measure_type(Session& session, const std::string& operation) {
  if (session.options.dtype == "i64") return measure<std::int64_t>(session, operation);
  if (session.options.dtype == "u64") return measure<std::uint64_t>(session, operation);
  if (session.options.dtype == "i32") return measure<std::int32_t>(session, operation);
  return measure<std::uint32_t>(session, operation);
}

Spec spec_of(const char* name, const char* title, const std::vector<std::string>& operations) {
  return {.name = name,
          .title = title,
          .flags = timing_flags,
          .iterations = latency_iterations,
          .min_ranks = 2,
          .dtypes = {"i64", "u64", "i32", "u32"},
          .operations = operations};
}

}  // namespace

std::vector<Program> atomics() {
  constexpr const char* compare_swap = "compare_swap";
  std::vector<std::string> all{"all"};
  std::vector<std::string> fetching;
  for (const Atomic& atomic : atomics_on<std::int64_t>()) {
    all.emplace_back(atomic.name);
    if (atomic.fetches && atomic.name != std::string(compare_swap)) fetching.emplace_back(atomic.name);
  }
  const auto chosen = [](Session& session) { measure_type(session, session.options.operation); };
  return {{spec_of("hmc_atomics", "Atomic Operation Rate Test", all), chosen},
          {spec_of("hmc_fop_latency", "Fetch_and_op Latency Test", fetching), chosen},
          {spec_of("hmc_cas_latency", "Compare_and_swap Latency Test", {}),
           [](Session& session) { measure_type(session, compare_swap); }}};
}

}  // namespace bench
