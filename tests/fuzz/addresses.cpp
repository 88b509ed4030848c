// Addresses of tcp wires, as peers publish them.
#include "runtime/transport/am/tcp/addresses.hpp"

#include <algorithm>

#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

using namespace hmc::transport::tcp;

namespace {

Address address_on(std::uint64_t machine, std::vector<Ip> ips) {
  return {.machine = machine, .port = 4711, .ips = std::move(ips)};
}
const Ip v4{.bytes_used = 4, .prefix = 24, .bytes = {10, 0, 0, 7}};
const Ip v6{.bytes_used = 16, .prefix = 64, .bytes = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};

}  // namespace

void run(base::ByteView input) {
  const auto theirs = decode(input);
  if (!theirs) return;
  require(std::ranges::equal(encode(*theirs), input));
  for (const std::uint64_t machine : {std::uint64_t{0}, theirs->machine, std::uint64_t{1}}) {
    const Address mine = address_on(machine, {v4, v6});
    for (const Candidate& candidate : candidates(mine, *theirs)) {
      require(candidate.length <= sizeof candidate.address && !base::text_of(candidate.address).empty());
      (void)distance_of(mine, candidate.address);
    }
  }
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  add(encode(address_on(0, {})));
  add(encode(address_on(1, {v4})));
  add(encode(address_on(2, {v4, v6})));
}

}  // namespace hmc::fuzz
