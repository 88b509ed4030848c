// Creation and close of a window: collective, over its team's Exchange.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/limits.hpp"
#include "runtime/base/node_area.hpp"
#include "runtime/rma/description.hpp"
#include "runtime/rma/device_access.hpp"
#include "runtime/rma/operation_scope.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

namespace {

/// Larger segments are mapped by page faults at first access, not when the window is created.
constexpr std::size_t map_ahead_max = std::size_t{256} << 20;

ErrorDetail detail_of_current_exception() {
  try {
    throw;
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
  out.number(description.failure.code).text(description.failure.message).text(description.failure.hint);
  out.number(description.bytes).number(description.next_id).number(static_cast<std::uint32_t>(description.keys.size()));
  for (const base::Bytes& key : description.keys) out.blob(key);
  out.blob(description.device).number(description.share).number(static_cast<std::uint32_t>(description.helpers.size()));
  for (const int rank : description.helpers) out.number(rank);
  return out.take();
}

Description decode(base::ByteView bytes, int rank, const char* operation) {
  base::ByteReader in(bytes);
  Description description;
  description.failure.code = in.number<Code>();
  description.failure.message = in.text();
  description.failure.hint = in.text();
  description.bytes = in.number<std::uint64_t>();
  description.next_id = in.number<std::uint64_t>();
  const auto keys = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < keys && in.ok(); ++i) {
    const base::ByteView key = in.blob();
    description.keys.emplace_back(key.begin(), key.end());
  }
  const base::ByteView device = in.blob();
  description.device.assign(device.begin(), device.end());
  description.share = in.number<std::uint64_t>();
  const auto helpers = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < helpers && in.ok(); ++i) description.helpers.push_back(in.number<int>());
  if (!in.complete()) throw Error(Code::refused, operation, fmt::format("rank {} sent a malformed description", rank));
  return description;
}

/// All ranks throw the error of the lowest failed rank. A timeout is ignored if any rank has another failure, because
/// the timeout is its consequence.
void throw_first_cause(const std::vector<Description>& ranks, const Fabric& fabric, const TeamCore* team) {
  const auto failed = [](const Description& one) { return one.failure.code != Code::success; };
  auto cause = std::find_if(ranks.begin(), ranks.end(),
                            [&](const Description& one) { return failed(one) && one.failure.code != Code::timeout; });
  if (cause == ranks.end()) cause = std::find_if(ranks.begin(), ranks.end(), failed);
  if (cause == ranks.end()) return;
  ErrorDetail detail = cause->failure;
  detail.operation = operation_of(fabric);
  detail.rank = fabric.rank;
  const auto guilty = static_cast<int>(cause - ranks.begin());
  detail.peer = team != nullptr ? team->world_rank(guilty) : guilty;
  throw Error(std::move(detail));
}

/// The size of a rank's part, and the memory and descriptors available to that rank. All ranks exchange their demands
/// before any rank allocates, so every rank reports a shortage at once.
struct Demand {
  std::uint64_t bytes = 0;
  std::uint64_t share = 0;
  std::uint32_t in_area = base::NodeArea::none;  // of the node's first rank: the number of the team's memory
  base::AvailableMemory room;
  std::string failure;  // empty: none

  /// `is_lazy`: the window takes no memory now.
  static Demand of_this_rank(const Fabric& fabric, std::size_t bytes, bool is_lazy) {
    // One for the segment, created or received, and one that a wire may open meanwhile.
    constexpr int descriptors = 2;
    // Smaller parts aren't checked, because reading the system's files takes 50 us.
    constexpr std::size_t worth_a_look = std::size_t{1} << 20;
    Demand demand;
    demand.bytes = bytes;
    demand.share = fabric.node_link->next_share();
    if (bytes >= worth_a_look && !is_lazy) demand.room = base::available_memory();
    if (!base::has_descriptors(descriptors, fabric.waiter.page().segment()->fd()))
      demand.failure = "no descriptor is left for shared memory: " + base::descriptor_limit();
    return demand;
  }
};

base::Bytes encode(const Demand& demand) {
  base::ByteWriter out;
  out.number(demand.bytes).number(demand.share).number(demand.in_area).text(demand.failure);
  out.number(demand.room.machine).number(demand.room.machine_bytes);
  out.number(demand.room.group).number(demand.room.group_bytes);
  return out.take();
}

Demand decode_demand(base::ByteView bytes, int world_rank, const Fabric& fabric) {
  base::ByteReader in(bytes);
  Demand demand;
  demand.bytes = in.number<std::uint64_t>();
  demand.share = in.number<std::uint64_t>();
  demand.in_area = in.number<std::uint32_t>();
  demand.failure = in.text();
  demand.room.machine = in.number<std::uint64_t>();
  demand.room.machine_bytes = in.number<std::uint64_t>();
  demand.room.group = in.number<std::uint64_t>();
  demand.room.group_bytes = in.number<std::uint64_t>();
  if (!in.complete())  // all ranks received the same bytes, so all of them throw
    throw Error(Code::refused, operation_of(fabric), fmt::format("rank {} sent a malformed size", world_rank));
  return demand;
}

/// Throws on every rank if any rank can't allocate its part. All ranks use the same data.
void refuse_excess(const TeamCore& team, const std::vector<Demand>& all, bool needs_descriptors) {
  const Fabric& fabric = team.fabric();
  ErrorDetail detail;
  detail.operation = operation_of(fabric);
  detail.rank = fabric.rank;
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
    throw AgreedError(std::move(detail));
  }
  const auto shortage = base::memory_shortage(demands);
  if (!shortage) return;
  detail.code = Code::out_of_memory;
  detail.message = *shortage;
  detail.hint = "ask for less, use fewer ranks on a machine, or raise the memory limit of this container or session";
  throw AgreedError(std::move(detail));
}

/// The deadline of a step in which only some ranks of the team wait. Over the team's schedules it is half the timeout,
/// so a rank whose step times out still enters the next collective round before that round's deadline.
base::Deadline patience(const Fabric& fabric, const base::Exchange& exchange) {
  const bool is_control_plane = &exchange == fabric.exchange.get();
  return base::Deadline::after(is_control_plane ? fabric.timeout : fabric.timeout / 2);
}

}  // namespace

std::shared_ptr<WindowCore> WindowCore::create(TeamCore& team, std::size_t bytes, Role role,
                                               const std::function<void(std::byte*)>& prepare) {
  Fabric& fabric = team.fabric();
  const OperationScope user(fabric, "Window::create", base::SetupCall::window);
  const base::Deadline deadline = patience(fabric, team.exchange());
  const bool is_lazy = role == Role::lazy && !base::refuses_pages_at_use();
  const base::NodeArea area(fabric.waiter.page());
  const std::vector<int> locals = team.local_ranks();
  const bool first_of_node = locals.front() == team.rank();
  Demand mine = Demand::of_this_rank(fabric, bytes, is_lazy);
  if (role == Role::lazy && first_of_node)
    mine.in_area = area.take(base::round_up(bytes, base::page_size()) * locals.size(), locals.size());
  std::vector<Demand> demands;
  std::set<int> nodes, nodes_with_area;
  for (const base::Bytes& theirs : allgather_for(fabric, team.exchange(), encode(mine), deadline)) {
    const int world = team.world_rank(static_cast<int>(demands.size()));
    demands.push_back(decode_demand(theirs, world, fabric));
    if (role != Role::lazy) continue;
    const int node = fabric.node_of[static_cast<std::size_t>(world)];
    nodes.insert(node);
    if (demands.back().in_area != base::NodeArea::none) nodes_with_area.insert(node);
  }
  const std::uint32_t in_area = demands[static_cast<std::size_t>(locals.front())].in_area;
  const std::shared_ptr<void> share = area.share(in_area);  // dropped if the ranks refuse
  // At the start each rank also needs descriptors for its first connections to other nodes.
  const bool needs_descriptors =
      role != Role::lazy || nodes.size() != nodes_with_area.size() || (team.is_world() && nodes.size() > 1);
  refuse_excess(team, demands, needs_descriptors);

  // Each rank's part of the node's segment consists of whole pages, so that each rank can populate its own part.
  std::size_t total = 0;
  std::size_t my_offset = 0;
  bool wraps = false;
  base::ShareGroup group;  // the team's ranks on this node
  for (const int member : locals) {
    const Demand& demand = demands[static_cast<std::size_t>(member)];
    const std::uint64_t size = demand.bytes;
    if (group.members.empty()) group.number = demand.share;
    group.members.push_back(team.world_rank(member));
    if (member == team.rank()) my_offset = total;
    wraps =
        wraps || size > SIZE_MAX / 2 || __builtin_add_overflow(total, base::round_up(size, base::page_size()), &total);
  }

  ErrorDetail failure;
  failure.code = Code::success;
  std::shared_ptr<base::Segment> segment;
  if (in_area != base::NodeArea::none || first_of_node) {
    try {
      segment = in_area != base::NodeArea::none ? area.map(in_area, total, share)
                                                : base::Segment::create(wraps ? SIZE_MAX : total);
    } catch (...) {
      failure = detail_of_current_exception();
    }
  }
  if (in_area == base::NodeArea::none) {
    try {
      segment = fabric.node_link->share_within(group, segment, deadline).front();
    } catch (...) {
      failure = detail_of_current_exception();
      return open(team, nullptr, failure, role);  // reports the failure to the other ranks, which call open too
    }
  }
  std::shared_ptr<memory::Allocation> allocation;
  if (segment != nullptr) {
    try {
      segment->populate(my_offset, is_lazy ? std::min(bytes, base::page_size()) : bytes);
      if (prepare) prepare(segment->base() + my_offset);
      allocation = memory::adopt_segment(segment, my_offset, bytes);
    } catch (...) {
      failure = detail_of_current_exception();
    }
  } else if (failure.code == Code::success) {
    failure.code = Code::out_of_memory;
    failure.message = "the node's first rank couldn't get the segment";
  }
  return open(team, std::move(allocation), failure, role);
}

std::shared_ptr<WindowCore> WindowCore::open(TeamCore& team, std::shared_ptr<memory::Allocation> allocation,
                                             const ErrorDetail& failure, Role role) {
  const OperationScope user(team.fabric(), "Window::create", base::SetupCall::window_over);
  if (role == Role::user) memory::look_for_devices();
  std::shared_ptr<WindowCore> core(new WindowCore(team, role), base::DeleteInOwner{});
  ErrorDetail outcome = failure;
  if (allocation != nullptr) {
    try {
      core->adopt(std::move(allocation));
    } catch (...) {
      outcome = detail_of_current_exception();
    }
  }
  const base::Bytes description = core->describe(outcome);
  core->connect(allgather_for(team.fabric(), team.exchange(), description, team.fabric().deadline()));
  return core;
}

WindowCore::WindowCore(TeamCore& team, Role role)
    : fabric_(team.shared_fabric()), team_(team.is_world() ? nullptr : &team), rank_(team.rank()), role_(role) {
  if (team_ != nullptr && role == Role::user) keeps_team_ = team.shared_from_this();
}

void WindowCore::adopt(std::shared_ptr<memory::Allocation> allocation) {
  region_.base = allocation->address;
  region_.bytes = allocation->bytes;
  region_.type = allocation->provider->type();
  region_.segment = allocation->segment;
  region_.segment_offset = allocation->segment_offset;
  registered_region_ = region_;
  if (allocation->segment == nullptr) {
    registered_region_ = devices().adopt(allocation);
    on_device_ = true;
  }
  allocation_ = std::move(allocation);
}

base::Bytes WindowCore::describe(const ErrorDetail& failure) {
  Description description;
  description.failure = failure;
  description.bytes = region_.bytes;
  description.next_id = fabric_->next_window_id;
  description.share = fabric_->node_link->next_share();
  if (on_device_) description.device = devices_->offer();
  if (failure.code == Code::success) {
    try {
      for (const auto& wire : fabric_->wires) {
        description.keys.push_back(wire->register_region(registered_region_));
        ++registered_;
      }
    } catch (...) {
      description.failure = detail_of_current_exception();
    }
  }
  return encode(description);
}

void WindowCore::connect(const std::vector<base::Bytes>& descriptions) {
  std::vector<Description> ranks;
  for (std::size_t rank = 0; rank < descriptions.size(); ++rank)
    ranks.push_back(decode(descriptions[rank], static_cast<int>(rank), operation_of(*fabric_)));
  for (const Description& rank : ranks) id_ = std::max(id_, rank.next_id);
  fabric_->next_window_id = id_ + 1;
  throw_first_cause(ranks, *fabric_, team_);

  ErrorDetail outcome;
  outcome.code = Code::success;
  WindowPeers peers;
  std::vector<int> helpers;
  try {
    peers = make_peers(ranks);
    has_devices_ =
        std::any_of(ranks.begin(), ranks.end(), [](const Description& rank) { return !rank.device.empty(); });
    if (has_devices_) helpers = devices().open(ranks, peers, channels_, patience(*fabric_, exchange()));
  } catch (...) {
    outcome = detail_of_current_exception();
  }
  // If a rank can't connect to a peer, the creation must also fail on that peer.
  settle_devices(agree(outcome, helpers));
  peers_ = std::move(peers);
  std::uint64_t smallest = UINT64_MAX;
  for (const WindowPeer& peer : peers_) smallest = std::min(smallest, peer.bytes);
  allocator_ = SymmetricAllocator(smallest);
  map_ahead();
  open_ = true;
  if (role_ == Role::user) fabric_->windows.push_back(this);
  if (keeps_team_ != nullptr) ++keeps_team_->open_windows;
}

WindowPeers WindowCore::make_peers(std::vector<Description>& ranks) {
  const std::size_t size = ranks.size();
  WindowPeers peers(size);
  const base::Deadline deadline = patience(*fabric_, exchange());
  for (std::size_t w = 0; w < fabric_->wires.size(); ++w) {
    std::vector<int> served;             // world ranks on this wire
    std::vector<std::size_t> served_as;  // their team ranks
    std::vector<base::Bytes> keys(fabric_->wire_of.size());
    for (std::size_t rank = 0; rank < size; ++rank) {
      const int world = world_rank(static_cast<int>(rank));
      if (fabric_->wire_of[static_cast<std::size_t>(world)] == static_cast<int>(w)) {
        served.push_back(world);
        served_as.push_back(rank);
      }
      if (w < ranks[rank].keys.size()) keys[static_cast<std::size_t>(world)] = std::move(ranks[rank].keys[w]);
    }
    auto channels = fabric_->wires[w]->connect(registered_region_, keys, served, deadline);
    if (!served.empty()) wires_in_use_.push_back(static_cast<int>(w));
    for (std::size_t i = 0; i < served.size(); ++i) {
      WindowPeer& peer = peers[served_as[i]];
      peer.channel = channels[i].get();
      peer.direct = channels[i]->direct();
      peer.wire = static_cast<std::int8_t>(w);
    }
    for (auto& channel : channels) channels_.push_back(std::move(channel));
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    peers[rank].bytes = ranks[rank].bytes;
    peers[rank].world = world_rank(static_cast<int>(rank));
    peers[rank].local_index =
        static_cast<std::int16_t>(fabric_->local_index[static_cast<std::size_t>(peers[rank].world)]);
  }
  return peers;
}

DeviceAccess& WindowCore::devices() {
  if (devices_ == nullptr) {
    if (fabric_->make_device_access == nullptr)
      throw Error(Code::unsupported, operation_of(*fabric_), "this job has no access to device memory");
    devices_ = fabric_->make_device_access(*this);
  }
  return *devices_;
}

void WindowCore::settle_devices(const std::vector<Description>& answers) {
  if (!has_devices_) return;
  ErrorDetail outcome;
  outcome.code = Code::success;
  if (on_device_) {
    std::vector<int> clients;
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      const auto& helpers = answers[rank].helpers;
      if (std::find(helpers.begin(), helpers.end(), fabric_->rank) != helpers.end())
        clients.push_back(world_rank(static_cast<int>(rank)));
    }
    try {
      devices_->serve(clients);
    } catch (const Error& error) {
      outcome = error.detail();
    }
  }
  agree(outcome);  // afterwards a peer may put
}

Path WindowCore::path(int rank) {
  const WindowPeer& to = peer("Window::path", rank);
  return has_devices_ ? devices_->path(rank) : fabric_->paths[static_cast<std::size_t>(to.world)];
}

std::vector<Description> WindowCore::agree(const ErrorDetail& outcome, const std::vector<int>& helpers) {
  Description mine;
  mine.failure = outcome;
  mine.helpers = helpers;
  // A peer may wait for this rank until its own deadline before it enters this round.
  const auto deadline = base::Deadline::after(2 * fabric_->timeout);
  const auto answers = allgather_for(*fabric_, exchange(), encode(mine), deadline);
  std::vector<Description> ranks;
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    ranks.push_back(decode(answers[rank], static_cast<int>(rank), operation_of(*fabric_)));
  throw_first_cause(ranks, *fabric_, team_);
  return ranks;
}

void WindowCore::map_ahead() noexcept {
  // All ranks have populated their parts. Map the pages in this process too, so that puts cause no page faults.
  if (role_ == Role::lazy || region_.segment == nullptr || region_.segment->bytes() > map_ahead_max) return;
  try {
    region_.segment->populate(0, region_.segment->bytes());
  } catch (const Error&) {
    // Not an error: the pages exist. Without page table entries only the first puts are slower.
  }
}

void WindowCore::close() {
  if (!is_open()) refuse_closed("Window::close");
  const OperationScope user(*fabric_, "Window::close", base::SetupCall::window_close, id_);
  flush_all(job_timeout);
  if (devices_ != nullptr) devices_->drop_handles();
  if (devices_ != nullptr) devices_->close_context();
  std::exception_ptr unheard;
  if (!fabric_->closed()) unheard = meet_to_close(*fabric_, exchange());  // afterwards no peer accesses this part
  // After a failure the barrier used the control plane. In this case has_failed() is true on all ranks, including those
  // that had reported the failure before.
  const bool compares = role_ == Role::user && !fabric_->closed() && unheard == nullptr && !exchange().has_failed();
  if (compares) unheard = compare_allocations();
  // The barrier itself may have put into this window. These puts must complete before the channels are destroyed.
  if (team_ != nullptr) flush_all(job_timeout);
  open_ = false;
  if (keeps_team_ != nullptr) --keeps_team_->open_windows;
  peers_.clear();
  if (devices_ != nullptr) devices_->unmap();
  channels_.clear();
  std::erase(fabric_->windows, this);
  // Device memory may be freed only after all peers have unmapped it.
  if (has_devices_ && !fabric_->closed()) unheard = meet_to_close(*fabric_, exchange(), std::move(unheard));
  deregister_region();
  region_ = registered_region_ = {};
  allocation_.reset();
  if (unheard != nullptr) std::rethrow_exception(unheard);
}

WindowCore::~WindowCore() {
  if (open_ && keeps_team_ != nullptr) --keeps_team_->open_windows;
  std::erase(fabric_->windows, this);
  if (devices_ != nullptr) {
    devices_->drop_handles();
    devices_->unmap();
  }
  channels_.clear();  // abandons the transfers in flight
  deregister_region();
}

void WindowCore::deregister_region() noexcept {
  on_device_ = has_devices_ = false;
  devices_.reset();
  for (; registered_ > 0; --registered_) fabric_->wires[registered_ - 1]->deregister_region(registered_region_);
}

}  // namespace hmc::rma
