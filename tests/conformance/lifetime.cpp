// Lifetime of regions and wires: several at once, and many in succession.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

using spmd::Pattern;

namespace {

/// Excludes the descriptors that this function opens, also in other threads.
int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && !target.native().ends_with("/fd") && !target.native().ends_with("/statm")) ++count;
  }
  return count;
}

/// Resident memory of the process, so of all ranks that are threads. 0 with a sanitizer: freed memory stays in its
/// quarantine, and it detects leaks itself.
std::size_t resident_kib() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0, resident = 0;
  HMC_CHECK_EQ(std::fscanf(file, "%lu %lu", &total, &resident), 2);
  std::fclose(file);
  return resident * (base::page_size() / 1024);
}

void use(Fixture& on, Window& window, std::uint64_t call) {
  const std::size_t bytes = window.mine().size();
  const auto source = bytes_of({on.me.rank, call}, bytes);
  window.put(on.next(), 0, source);
  on.settle();
  HMC_CHECK_CLEAN((Pattern{on.previous(), call}.verify(window.mine())));
  on.barrier();
}

}  // namespace

HMC_SPMD_TEST(Lifetime, several_regions_are_separate) {
  Fixture on(me);
  std::vector<std::unique_ptr<Window>> windows;
  std::vector<std::vector<std::byte>> sources;
  for (std::size_t i = 0; i < 8; ++i) windows.push_back(std::make_unique<Window>(on, 1 + i * 4999));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    sources.push_back(bytes_of({me.rank, i}, windows[i]->mine().size()));
    (void)windows[i]->put_nb(on.next(), 0, sources.back());
  }
  on.settle();
  for (std::size_t i = 0; i < windows.size(); ++i)
    HMC_CHECK_CLEAN((Pattern{on.previous(), i}.verify(windows[i]->mine())));
  on.barrier();
  // Closed in another order than opened; the others still work.
  for (const std::size_t i : {3U, 0U, 7U}) windows[i]->close();
  for (const std::size_t i : {1U, 2U, 4U, 5U, 6U}) use(on, *windows[i], 100 + i);
  for (const std::size_t i : {6U, 1U, 5U, 2U, 4U}) windows[i]->close();
}

HMC_SPMD_TEST(Lifetime, notice_to_a_retired_region_affects_nothing_else) {
  Fixture on(me);
  Window window(on, 4096), other(on, 4096);
  constexpr std::uint64_t signal = 2048;
  const auto source = bytes_of({me.rank, 1}, 100);
  const auto notify = [&](std::uint64_t value) {
    Ticket ticket = transport::done;
    on.require(window.to(on.next()).notify(0, source.data(), source.size(), signal, value, ticket), "notify");
    on.wait(ticket);
  };
  notify(1);
  window.wait_signal(signal, 1);
  HMC_CHECK_CLEAN((Pattern{on.previous(), 1}.verify(window.mine().first(100))));
  on.settle();
  on.wire().retire_region(window.region());
  on.barrier();
  for (std::uint64_t value = 2; value < 5; ++value) notify(value);
  on.flush();  // throws if the peer refused a put
  use(on, other, 2);
  other.close();
  window.close();
}

HMC_SPMD_TEST(Lifetime, register_and_deregister_leaks_nothing) {
  Fixture on(me);
  const std::uint64_t rounds = number(me, "window_rounds", 150);
  int descriptors = 0;
  std::size_t resident = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Window window(on, 30000 + round % 3 * 5000);
    use(on, window, round);
    window.close();
    on.barrier();
    if (round == rounds / 3) {
      descriptors = open_descriptors();
      resident = resident_kib();
      on.barrier();
    }
  }
  on.barrier();
  HMC_CHECK_LE(open_descriptors(), descriptors);
  HMC_CHECK_LE(resident_kib(), resident + 4096);
  on.barrier();
}

HMC_SPMD_TEST(Lifetime, open_and_close_of_wires_leaks_nothing) {
  const std::uint64_t rounds = number(me, "wire_rounds", 12);
  const auto all = [&] { me.bootstrap->barrier(base::Deadline::after(wait_timeout)); };
  int descriptors = 0;
  std::size_t resident = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    {
      Fixture on(me);
      Window window(on, 20000);
      use(on, window, round);
      window.close();
    }
    all();
    if (round == rounds / 3) {
      descriptors = open_descriptors();
      resident = resident_kib();
      all();
    }
  }
  HMC_CHECK_LE(open_descriptors(), descriptors);
  HMC_CHECK_LE(resident_kib(), resident + 8192);
  all();
}

}  // namespace hmc::conformance
