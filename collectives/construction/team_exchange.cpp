#include "collectives/construction/team_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/failure.hpp"
#include "runtime/window/on_behalf.hpp"

namespace hmc::collectives {

using schedule::Collective;

namespace {

/// What one round carries of each rank. Longer texts, which are rare, take a second one.
struct Head {
  std::uint64_t length = 0;
  std::byte bytes[248] = {};
};

/// More is no description of a window, whatever it says.
constexpr std::uint64_t longest = std::uint64_t{64} << 20;

Given given_of(base::Construction what, Collective collective, const void* in, void* out, std::uint64_t bytes) {
  Given given;
  given.call.collective = collective;
  given.call.count = bytes;
  given.input = in;
  given.output = out;
  given.signature = Signature::make(what, bytes, static_cast<int>(collective));
  return given;
}

}  // namespace

void TeamExchange::run(const Given& given) {
  if (const base::Status status = schedules_.run(given); !status.ok())
    throw_failure(team_, schedules_, status, window::operation_of(team_.fabric()), 0);
}

void TeamExchange::barrier(base::Deadline) {
  Given given = given_of(what(), Collective::barrier, nullptr, nullptr, 0);
  given.signature = Signature::make(what(), team_.fabric().making_number, static_cast<int>(Collective::barrier));
  run(given);
}

std::vector<base::Bytes> TeamExchange::allgather(base::ByteView mine, base::Deadline) {
  Head head;
  head.length = mine.size();
  if (!mine.empty()) std::memcpy(head.bytes, mine.data(), std::min(mine.size(), sizeof head.bytes));
  std::vector<Head> heads(static_cast<std::size_t>(size()));
  run(given_of(what(), Collective::allgather, &head, heads.data(), sizeof head));

  std::vector<std::uint64_t> lengths;
  for (const Head& each : heads) lengths.push_back(each.length);
  const auto most = std::max_element(lengths.begin(), lengths.end());
  if (*most > longest) {
    const int world = team_.world_rank(static_cast<int>(most - lengths.begin()));
    throw Error(Code::refused, window::operation_of(team_.fabric()),
                fmt::format("world rank {} sent {} bytes", world, *most));
  }
  if (*most > sizeof head.bytes) return gather_long(mine, lengths);
  std::vector<base::Bytes> all;
  for (const Head& each : heads) all.emplace_back(each.bytes, each.bytes + each.length);
  return all;
}

std::vector<base::Bytes> TeamExchange::gather_long(base::ByteView mine, const std::vector<std::uint64_t>& lengths) {
  std::uint64_t total = 0;
  for (const std::uint64_t length : lengths) total += length;
  base::Bytes joined(total);
  Given given = given_of(what(), Collective::allgather, mine.data(), joined.data(), 0);
  given.call.counts = lengths;
  given.signature = Signature::make(what(), total).irregular();
  run(given);
  std::vector<base::Bytes> all;
  auto begin = joined.begin();
  for (const std::uint64_t length : lengths) {
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    all.emplace_back(begin, end);
    begin = end;
  }
  return all;
}

std::vector<base::Bytes> GroupExchange::allgather(base::ByteView mine, base::Deadline deadline) {
  // More would need the other groups.
  if (left_-- <= 0) throw Error(Code::error, "construction", "a team's first window takes more rounds than agreed");
  std::vector<base::Bytes> all = parent_.allgather(mine, deadline);
  std::vector<base::Bytes> ours;
  for (const int rank : group_) ours.push_back(std::move(all[static_cast<std::size_t>(rank)]));
  return ours;
}

}  // namespace hmc::collectives
