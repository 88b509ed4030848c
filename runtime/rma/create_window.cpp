// Creation of a window: collective, over its team's Exchange.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/base/fields.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/base/node_page.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

namespace {

/// Larger segments are mapped by page faults at first access, not when the window is created.
constexpr std::size_t map_ahead_max = std::size_t{256} << 20;

ErrorDetail detail_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.detail();
  } catch (const std::exception& error) {
    ErrorDetail detail;
    detail.message = error.what();
    return detail;
  }
}

base::Bytes encode(const Description& description) {
  base::ByteWriter out;
  out.number(description.failure.code).number(description.failure.peer);
  out.text(description.failure.message).text(description.failure.hint);
  out.number(description.bytes).number(description.next_id).number(description.rebound);
  out.number(static_cast<std::uint32_t>(description.keys.size()));
  for (const auto& [wire, key] : description.keys) out.text(wire).blob(key);
  out.number(static_cast<std::uint8_t>(description.has_device_atomics));
  out.blob(description.device).number(description.share).number(static_cast<std::uint32_t>(description.helpers.size()));
  for (const int rank : description.helpers) out.number(rank);
  return out.take();
}

Description decode(base::ByteView bytes, int rank, const char* operation) {
  base::ByteReader in(bytes);
  Description description;
  description.failure.code = in.number<Code>();
  description.failure.peer = in.number<int>();
  description.failure.message = in.text();
  description.failure.hint = in.text();
  description.bytes = in.number<std::uint64_t>();
  description.next_id = in.number<std::uint64_t>();
  description.rebound = in.number<std::uint64_t>();
  const auto keys = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < keys && in.ok(); ++i) {
    std::string wire = in.text();
    const base::ByteView key = in.blob();
    description.keys.emplace_back(std::move(wire), base::Bytes(key.begin(), key.end()));
  }
  description.has_device_atomics = in.number<std::uint8_t>() != 0;
  const base::ByteView device = in.blob();
  description.device.assign(device.begin(), device.end());
  description.share = in.number<std::uint64_t>();
  const auto helpers = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < helpers && in.ok(); ++i) description.helpers.push_back(in.number<int>());
  if (!in.complete()) throw Error(Code::refused, operation, fmt::format("rank {} sent a malformed description", rank));
  return description;
}

/// Collective. The descriptions of all ranks, by team rank.
std::vector<Description> exchange(TeamCore& team, const Description& mine, base::Deadline deadline) {
  std::vector<Description> ranks;
  for (const base::Bytes& theirs : allgather_for(team.fabric(), team.exchange(), encode(mine), deadline))
    ranks.push_back(decode(theirs, static_cast<int>(ranks.size()), team.fabric().operation.name()));
  return ranks;
}

/// All ranks throw the error of the lowest failed rank. The error names that rank, or the rank whose death is the
/// cause. A timeout is ignored if any rank has another failure, because the timeout is its consequence.
void throw_first_cause(const std::vector<Description>& ranks, const TeamCore& team) {
  const auto failed = [](const Description& one) { return one.failure.code != Code::success; };
  auto cause = std::find_if(ranks.begin(), ranks.end(),
                            [&](const Description& one) { return failed(one) && one.failure.code != Code::timeout; });
  if (cause == ranks.end()) cause = std::find_if(ranks.begin(), ranks.end(), failed);
  if (cause == ranks.end()) return;
  ErrorDetail detail = cause->failure;
  detail.operation = team.fabric().operation.name();
  detail.rank = team.fabric().rank;
  if (detail.code != Code::peer_failed && detail.code != Code::aborted)
    detail.peer = team.world_rank(static_cast<int>(cause - ranks.begin()));
  throw Error(std::move(detail));
}

/// The lineage of the window that the ranks rebind; 0: all ranks create one. All ranks use the same data.
std::uint64_t agreed_lineage(const std::vector<Description>& ranks, const TeamCore& team) {
  const auto rebinds = [](const Description& one) { return one.rebound != 0; };
  const auto first = std::ranges::find_if(ranks, rebinds);
  if (first == ranks.end()) return 0;
  const auto other = std::find_if(
      first, ranks.end(), [&](const Description& one) { return rebinds(one) && one.rebound != first->rebound; });
  if (other == ranks.end()) return first->rebound;
  const auto world = [&](auto rank) { return team.world_rank(static_cast<int>(rank - ranks.begin())); };
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = team.fabric().operation.name();
  detail.rank = team.fabric().rank;
  detail.peer = world(other);
  detail.message = fmt::format("rank {} rebinds window {}, rank {} rebinds window {}", world(first), first->rebound - 1,
                               world(other), other->rebound - 1);
  detail.hint = "every rank rebinds its windows in the same order";
  throw Error(std::move(detail));
}

/// The size of a rank's part, and the memory and descriptors available to that rank. All ranks exchange their demands
/// before any rank allocates, so every rank reports a shortage at once.
struct Demand {
  std::uint64_t bytes = 0;
  std::uint64_t share = 0;
  std::uint32_t in_area = base::NodeArea::none;  // of the node's first rank: number of the team's memory in the area
  base::AvailableMemory room;
  std::string failure;  // empty: none
  static constexpr auto fields =
      std::tuple(&Demand::bytes, &Demand::share, &Demand::in_area, &Demand::failure, &Demand::room);

  /// `is_lazy`: the window takes no memory now.
  static Demand of_this_rank(const Fabric& fabric, std::size_t bytes, bool is_lazy) {
    // One for the segment, created or received, and one that a wire may open meanwhile.
    constexpr int descriptors = 2;
    Demand demand;
    demand.bytes = bytes;
    demand.share = fabric.node_link->next_share();
    if (bytes >= base::worth_a_look && !is_lazy) demand.room = base::available_memory();
    if (!base::has_descriptors(descriptors, fabric.waiter.page().segment()->fd()))
      demand.failure = "no descriptor is left for shared memory: " + base::descriptor_limit();
    return demand;
  }
};

/// Throws on every rank if any rank can't allocate its part. All ranks use the same data.
void refuse_excess(const TeamCore& team, const std::vector<Demand>& all, bool needs_descriptors) {
  const Fabric& fabric = team.fabric();
  ErrorDetail detail;
  detail.operation = fabric.operation.name();
  detail.rank = fabric.rank;
  detail.is_agreed = true;
  std::vector<base::MemoryDemand> demands;
  for (std::size_t member = 0; member < all.size(); ++member) {
    const int rank = team.world_rank(static_cast<int>(member));
    const Demand& demand = all[member];
    if (demand.failure.empty() || !needs_descriptors) {
      // Skip a rank without limits: its part is smaller than worth_a_look, or its system reports no limit.
      if (demand.room.machine_bytes != UINT64_MAX || demand.room.group_bytes != UINT64_MAX)
        demands.push_back({rank, demand.bytes, demand.room});
      continue;
    }
    detail.code = Code::error;
    detail.peer = rank;
    detail.message = fmt::format("rank {}: {}", rank, demand.failure);
    detail.hint = "raise `ulimit -n` for that rank";
    throw Error(std::move(detail));
  }
  const auto shortage = base::memory_shortage(demands);
  if (!shortage) return;
  detail.code = Code::out_of_memory;
  detail.message = *shortage;
  detail.hint = base::memory_hint;
  throw Error(std::move(detail));
}

/// The deadline of a step in which only some ranks of the team wait. Over the team's schedules it is half the timeout,
/// so a rank whose step times out still enters the next collective round before that round's deadline.
base::Deadline patience(const Fabric& fabric, const base::Exchange& exchange) {
  const bool is_control_plane = &exchange == fabric.exchange.get();
  return base::Deadline::after(is_control_plane ? fabric.timeout : fabric.timeout / 2);
}

/// Connects to the parts of all ranks, on the wire of each pair.
WindowPeers connect(TeamCore& team, WindowResources& own, std::vector<Description>& ranks, base::Deadline deadline) {
  const Reach& reach = team.fabric();
  WindowPeers peers(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const int world = team.world_rank(static_cast<int>(rank));
    peers[rank].bytes = ranks[rank].bytes;
    peers[rank].world = world;
    peers[rank].wire = static_cast<std::int8_t>(reach.peer(world).wire);
    peers[rank].local_index = static_cast<std::int16_t>(reach.peer(world).local_index);
  }
  // All ranks agree. A wire with such atomics reaches either all ranks of the job or none.
  const bool has_device_atomics = std::ranges::any_of(ranks, &Description::has_device_atomics);
  for (std::size_t wire = 0; wire < reach.wires.size(); ++wire) {
    std::vector<int> served;  // world ranks on this wire
    std::vector<WindowPeer*> served_as;
    std::vector<base::Bytes> keys(reach.peers.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      WindowPeer& peer = peers[rank];
      if (peer.wire == static_cast<int>(wire)) {
        served.push_back(peer.world);
        served_as.push_back(&peer);
      }
      for (auto& [name, key] : ranks[rank].keys)
        if (name == reach.wires[wire]->name()) keys[static_cast<std::size_t>(peer.world)] = std::move(key);
    }
    // The CPU's atomics on mapped memory would not be atomic with those of the device.
    const std::size_t by_channel = served.size();
    if (has_device_atomics && !reach.wires[wire]->capabilities().atomic_with_cpu) {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (peers[rank].direct == nullptr || !ranks[rank].device.empty()) continue;
        served.push_back(peers[rank].world);
        served_as.push_back(&peers[rank]);
      }
    }
    auto channels = reach.wires[wire]->connect(own.registered_region, keys, served, deadline);
    if (!served.empty()) own.wires.push_back(static_cast<int>(wire));
    for (std::size_t i = 0; i < served.size(); ++i) {
      served_as[i]->channel = channels[i].get();
      if (i < by_channel) {
        served_as[i]->direct = channels[i]->direct();
      } else {
        served_as[i]->wire = static_cast<std::int8_t>(wire);
        served_as[i]->has_device_atomics = true;
      }
      own.channels.push_back(std::move(channels[i]));
    }
  }
  return peers;
}

}  // namespace

std::shared_ptr<WindowCore> create_window(TeamCore& team, std::size_t bytes, WindowCore::Role role,
                                          const std::function<void(std::byte*)>& prepare) {
  Fabric& fabric = team.fabric();
  const OperationScope user(fabric, "Window::create", base::SetupCall::window);
  const base::Deadline deadline = patience(fabric, team.exchange());

  // First round: the memory that each rank needs, and has. All ranks agree to allocate, or all throw.
  const bool may_use_area = role == WindowCore::Role::lazy;
  const bool is_lazy = may_use_area && !base::refuses_pages_at_use();
  const base::NodeArea area(fabric.waiter.page());
  const std::vector<int> locals = team.local_ranks();
  const bool first_of_node = locals.front() == team.rank();
  Demand mine = Demand::of_this_rank(fabric, bytes, is_lazy);
  if (may_use_area && first_of_node)
    mine.in_area = area.take(base::round_up(bytes, base::page_size()) * locals.size(), locals.size());
  std::vector<Demand> demands;
  std::set<int> nodes, nodes_with_area;
  for (const base::Bytes& theirs : allgather_for(fabric, team.exchange(), base::encode(mine), deadline)) {
    const int world = team.world_rank(static_cast<int>(demands.size()));
    auto sent = base::decode<Demand>(theirs);
    if (!sent)  // all ranks received the same bytes, so all of them throw
      throw Error(Code::refused, fabric.operation.name(), fmt::format("rank {} sent a malformed size", world));
    const Demand& demand = demands.emplace_back(*std::move(sent));
    if (!may_use_area) continue;
    nodes.insert(fabric.peer(world).node);
    if (demand.in_area != base::NodeArea::none) nodes_with_area.insert(fabric.peer(world).node);
  }
  const std::uint32_t in_area = demands[static_cast<std::size_t>(locals.front())].in_area;
  const std::shared_ptr<void> share = area.share(in_area);  // dropped if the ranks refuse
  // At the start each rank also needs descriptors for its first connections to other nodes.
  const bool needs_descriptors =
      !may_use_area || nodes.size() != nodes_with_area.size() || (team.is_world() && nodes.size() > 1);
  refuse_excess(team, demands, needs_descriptors);

  // Each rank's part of the node's segment consists of whole pages, so that each rank can populate its own part.
  std::size_t total = 0;
  std::size_t my_offset = 0;
  bool wraps = false;
  base::ShareGroup group{{}, demands[static_cast<std::size_t>(locals.front())].share};
  for (const int member : locals) {
    const std::uint64_t size = demands[static_cast<std::size_t>(member)].bytes;
    group.members.push_back(team.world_rank(member));
    if (member == team.rank()) my_offset = total;
    wraps =
        wraps || size > SIZE_MAX / 2 || __builtin_add_overflow(total, base::round_up(size, base::page_size()), &total);
  }

  // A rank that fails still takes part in the next rounds, which report its failure to all ranks.
  std::exception_ptr failure;
  std::shared_ptr<base::Segment> segment;
  std::shared_ptr<memory::Allocation> allocation;
  try {
    if (in_area != base::NodeArea::none)
      segment = area.map(in_area, total, share);
    else if (first_of_node)
      segment = base::Segment::create(wraps ? SIZE_MAX : total);
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    if (in_area == base::NodeArea::none) segment = fabric.node_link->share_within(group, segment, deadline).front();
    if (segment != nullptr) {
      segment->populate(my_offset, is_lazy ? std::min(bytes, base::page_size()) : bytes);
      if (prepare) prepare(segment->base() + my_offset);
      allocation = memory::adopt_segment(std::move(segment), my_offset, bytes);
    } else if (failure == nullptr) {
      throw Error(Code::out_of_memory, fabric.operation.name(), "the node's first rank couldn't get the segment");
    }
  } catch (...) {
    failure = std::current_exception();
  }
  return create_window_over(team, std::move(allocation), failure, role);
}

std::shared_ptr<WindowCore> create_window_over(TeamCore& team, std::shared_ptr<memory::Allocation> allocation,
                                               std::exception_ptr failure, WindowCore::Role role,
                                               std::uint64_t rebound) {
  Fabric& fabric = team.fabric();
  const OperationScope user(fabric, "Window::create", base::SetupCall::window_over);
  if (role == WindowCore::Role::user) memory::look_for_devices();
  std::shared_ptr<WindowCore> core(new WindowCore(team, role), base::DeleteInOwner{});
  WindowResources& own = core->own_;

  // First round: the properties of all parts, and the keys by which peers access them.
  Description mine;
  mine.next_id = fabric.windows.proposed_id();
  mine.rebound = rebound;
  mine.share = fabric.node_link->next_share();
  try {
    if (allocation == nullptr) std::rethrow_exception(failure);
    own.region.base = allocation->address;
    own.region.bytes = mine.bytes = allocation->bytes;
    own.region.type = allocation->provider->type();
    own.region.segment = allocation->segment;
    own.region.segment_offset = allocation->segment_offset;
    own.registered_region = own.region;
    if (allocation->segment == nullptr) {
      own.registered_region = core->devices().adopt(allocation);
      own.on_device = true;
      mine.device = own.devices->offer();
    }
    own.allocation = std::move(allocation);
    for (; own.registered < fabric.wires.size(); ++own.registered)
      mine.keys.emplace_back(fabric.wires[own.registered]->name(),
                             fabric.wires[own.registered]->register_region(own.registered_region));
    for (int rank = 0; rank < team.size(); ++rank) {
      const auto wire = static_cast<std::size_t>(fabric.peer(team.world_rank(rank)).wire);
      mine.has_device_atomics = mine.has_device_atomics || !fabric.wires[wire]->capabilities().atomic_with_cpu;
    }
  } catch (...) {
    mine.failure = detail_of(std::current_exception());
  }
  std::vector<Description> ranks = exchange(team, mine, fabric.deadline());
  for (const Description& rank : ranks) core->id_ = std::max(core->id_, rank.next_id);
  fabric.windows.take_id(core->id_);
  throw_first_cause(ranks, team);
  const std::uint64_t lineage = agreed_lineage(ranks, team);
  core->lineage_ = lineage != 0 ? lineage : core->id_ + 1;

  // Second round: if a rank can't connect to a peer, creation fails on all ranks. A peer may wait for this rank until
  // its own deadline before it enters this round.
  Description outcome;
  WindowPeers peers;
  try {
    peers = connect(team, own, ranks, patience(fabric, team.exchange()));
    own.has_devices =
        std::any_of(ranks.begin(), ranks.end(), [](const Description& rank) { return !rank.device.empty(); });
    if (own.has_devices)
      outcome.helpers = core->devices().open(ranks, peers, own.channels, patience(fabric, team.exchange()));
  } catch (...) {
    outcome.failure = detail_of(std::current_exception());
  }
  const std::vector<Description> outcomes = exchange(team, outcome, base::Deadline::after(2 * fabric.timeout));
  throw_first_cause(outcomes, team);

  // Third round: ranks with device memory start their agents. Afterwards a peer may put.
  if (own.has_devices) {
    Description served;
    std::vector<int> clients;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
      if (std::ranges::find(outcomes[rank].helpers, fabric.rank) != outcomes[rank].helpers.end())
        clients.push_back(peers[rank].world);
    try {
      if (own.on_device) own.devices->serve(clients);
    } catch (...) {
      served.failure = detail_of(std::current_exception());
    }
    throw_first_cause(exchange(team, served, base::Deadline::after(2 * fabric.timeout)), team);
  }

  // All ranks have populated their parts. Map the pages in this process too, so that puts cause no page faults. A
  // failure isn't an error: without page table entries only the first puts are slower.
  base::Segment* const segment = own.region.segment.get();
  if (role != WindowCore::Role::lazy && segment != nullptr && segment->bytes() <= map_ahead_max) try {
      segment->populate(0, segment->bytes());
    } catch (const Error&) {
    }
  std::uint64_t smallest = UINT64_MAX;
  for (const WindowPeer& peer : peers) smallest = std::min(smallest, peer.bytes);
  core->allocator_ = SymmetricAllocator(smallest);
  own.peers = std::move(peers);
  core->open_ = true;
  if (role == WindowCore::Role::user) fabric.windows.add(*core);
  if (core->keeps_team_ != nullptr) ++core->keeps_team_->open_windows;
  return core;
}

}  // namespace hmc::rma
