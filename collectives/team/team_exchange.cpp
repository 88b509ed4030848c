#include "collectives/team/team_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/network/schedule_team.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

namespace {

/// Each rank's data in one round. Longer data is rare and needs a second round.
struct Head {
  std::uint64_t length = 0;
  std::byte bytes[248] = {};
};

/// Upper limit: no valid description of a window is longer.
constexpr std::uint64_t longest = std::uint64_t{64} << 20;

CollectiveArgs args_of(const rma::Fabric& fabric, CollectiveKind collective, const void* in, void* out,
                       std::uint64_t bytes) {
  CollectiveArgs args;
  args.call.collective = collective;
  args.call.count = bytes;
  args.input = in;
  args.output = out;
  args.signature = Signature::make(fabric.operation.call(), fabric.operation.number(), static_cast<int>(collective));
  return args;
}

}  // namespace

void TeamExchange::run(const CollectiveArgs& args) {
  if (const base::Status status = schedules_.run(args); !status.ok())
    schedules_.throw_error(status, team_.fabric().operation.name());
}

void TeamExchange::barrier(base::Deadline) {
  run(args_of(team_.fabric(), CollectiveKind::barrier, nullptr, nullptr, 0));
}

std::vector<base::Bytes> TeamExchange::allgather(base::ByteView mine, base::Deadline) {
  Head head;
  head.length = mine.size();
  if (!mine.empty()) std::memcpy(head.bytes, mine.data(), std::min(mine.size(), sizeof head.bytes));
  std::vector<Head> heads(static_cast<std::size_t>(size()));
  run(args_of(team_.fabric(), CollectiveKind::allgather, &head, heads.data(), sizeof head));

  std::vector<std::uint64_t> lengths;
  for (const Head& each : heads) lengths.push_back(each.length);
  const auto most = std::max_element(lengths.begin(), lengths.end());
  if (*most > longest) {
    const int world = team_.world_rank(static_cast<int>(most - lengths.begin()));
    throw Error(Code::refused, team_.fabric().operation.name(),
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
  CollectiveArgs args = args_of(team_.fabric(), CollectiveKind::allgather, mine.data(), joined.data(), 0);
  args.call.counts = lengths;
  args.signature = args.signature.irregular();
  run(args);
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
  // More rounds would need the other groups.
  if (left_-- <= 0) throw Error(Code::error, "team creation", "a team's first window takes more rounds than agreed");
  std::vector<base::Bytes> all = parent_.allgather(mine, deadline);
  std::vector<base::Bytes> ours;
  for (const int rank : group_) ours.push_back(std::move(all[static_cast<std::size_t>(rank)]));
  return ours;
}

}  // namespace hmc::collectives
