// Joined puts: the number of messages that small puts take.
#include <algorithm>
#include <vector>

#include "runtime/transport/am/am_wire.hpp"
#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

// Under traffic, since an idle wire doesn't hold puts. All sizes that may be joined, so that messages become full; the
// last put to a word must win.
HMC_SPMD_TEST(Riding, small_puts_share_messages_in_order) {
  Fixture on(me);
  auto* const wire = dynamic_cast<transport::am::AmWire*>(&on.wire());
  if (wire == nullptr || wire->capabilities().one_sided) spmd::skip("for wires whose puts are messages");
  constexpr std::uint64_t puts = 400;
  constexpr std::size_t most = transport::am::inline_bytes;
  Window window(on, 2 * most);
  std::uint64_t messages = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    on.barrier();
    std::vector<std::byte> word(8);
    while (!wire->holds_back()) window.get(on.next(), 0, word);  // until the progress thread is awake
    const std::uint64_t before = wire->messages_to(on.next());
    for (std::uint64_t i = 0; i < puts; ++i) {
      const std::size_t bytes = i % 16 == 7 ? most : 8 + i % 9;
      window.put(on.next(), 8 * (i % 4), bytes_of({me.rank, round * puts + i}, bytes));
    }
    on.flush(on.next());
    messages += wire->messages_to(on.next()) - before;
    on.barrier();
    std::vector<std::byte> expected(window.mine().size());
    for (std::uint64_t i = 0; i < puts; ++i) {
      const std::size_t bytes = i % 16 == 7 ? most : 8 + i % 9;
      std::ranges::copy(bytes_of({on.previous(), round * puts + i}, bytes),
                        expected.begin() + static_cast<std::ptrdiff_t>(8 * (i % 4)));
    }
    HMC_CHECK(std::ranges::equal(window.mine(), expected));
    on.barrier();
  }
  HMC_CHECK_GE(messages, 20U);
  // Without joining: as many messages as puts, and 20 flushes. Most puts are joined if cores are free.
  HMC_CHECK_GE(20 * puts, messages);
  window.close();
}

}  // namespace hmc::conformance
