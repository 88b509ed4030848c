#include "runtime/device/window_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "runtime/device/device_part.hpp"
#include "runtime/device/device_path.hpp"
#include "runtime/device/kernel_reach.hpp"
#include "runtime/device/mapped_channel.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/memory/stage.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::device {

namespace {

using Offers = std::vector<std::unique_ptr<DeviceOffer>>;  // by rank; null: host memory

/// Also issues the tickets of the asynchronous copies that put_nb and get_nb start, from open() to unmap().
class WindowDevices final : public rma::DeviceAccess, private progress::TicketSource {
 public:
  /// `measured`: of this rank; outlives this.
  WindowDevices(rma::WindowCore& core, std::vector<Figures>& measured) noexcept
      : core_(core), fabric_(core.fabric()), measured_(measured) {}
  WindowDevices(const WindowDevices&) = delete;
  WindowDevices& operator=(const WindowDevices&) = delete;
  ~WindowDevices() override { stop_issuing(); }

  transport::Region adopt(std::shared_ptr<memory::Allocation> part) override {
    part_.emplace(fabric_, std::move(part));
    return part_->control_region();
  }
  base::Bytes offer() const override { return base::encode(part_->offer()); }
  std::vector<int> open(std::span<const rma::Description> ranks, rma::WindowPeers& peers,
                        std::vector<std::unique_ptr<transport::Channel>>& channels, base::Deadline deadline) override;
  void serve(std::span<const int> clients) override;

  Request put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) override;
  Request get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) override;
  void put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) override;
  void get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) override;
  void flush(const char* operation, int rank, Timeout timeout) override;
  Path path(int rank) override;

  std::uint64_t wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) override;
  bool test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) override;

  void copy_in(const char* operation, const rma::WindowPeer& peer, std::uint64_t offset, const void* source,
               std::size_t bytes) override;
  void copy_out(const char* operation, const rma::WindowPeer& peer, std::uint64_t offset, void* destination,
                std::size_t bytes) override;
  void put_staged(const char* operation, int rank, std::uint64_t offset, const void* source,
                  std::size_t bytes) override;
  void get_staged(const char* operation, int rank, std::uint64_t offset, void* destination, std::size_t bytes) override;
  const memory::Allocation* mapping(int rank) const noexcept override {
    const DeviceMemory* const mapped = peer(rank).on_device ? channel(rank).mapped() : nullptr;
    return mapped != nullptr ? mapped->allocation().get() : nullptr;
  }
  std::byte* bounce_buffer() override;

  void put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes) override;
  rma::KernelAccess& kernel_access() override {
    if (kernel_reach_ == nullptr) kernel_reach_ = std::make_unique<KernelReach>(core_, channels_);
    return *kernel_reach_;
  }
  DeviceHandle device_handle(MemoryType type, int device) override;
  void open_context(rma::TeamCore& team) override;
  rma::WindowCore& context(const char* operation) override;

  void drop_handles() noexcept override { views_.clear(); }
  void close_context() override {
    if (context_ != nullptr && context_->is_open()) context_->close();
  }
  void unmap() noexcept override {
    stop_issuing();
    channels_.clear();
    kernel_reach_.reset();
    range_.reset();
  }

 private:
  std::vector<base::UniqueFd> take_descriptors(std::span<const rma::Description> ranks, const rma::WindowPeers& peers,
                                               const Offers& offers, base::Deadline deadline) const;

  const rma::WindowPeer& peer(int rank) const noexcept { return core_.peers()[static_cast<std::size_t>(rank)]; }
  DeviceChannel& channel(int rank) const noexcept { return *channels_[static_cast<std::size_t>(rank)]; }
  Request request(const char* operation, int rank, std::uint64_t number) const;

  // ---- tickets: the rank, and below it the number of the copy on the rank's channel
  static constexpr int number_bits = 40;
  MappedChannel& channel_of(std::uint64_t ticket) const noexcept { return *mapped_[ticket >> number_bits]; }
  base::Status test(std::uint64_t ticket) noexcept override {
    return channel_of(ticket).look(ticket & ((std::uint64_t{1} << number_bits) - 1));
  }
  void expired(std::uint64_t) noexcept override {}
  std::uint64_t moves() const noexcept override { return 0; }
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override {
    throw_status(fabric_, status, {operation});
  }
  bool is_transfer() const noexcept override { return true; }
  /// A device's copy can't be cancelled, so this waits for the channel's copies in flight.
  void abandon(std::uint64_t ticket) noexcept override { (void)channel_of(ticket).wait_for_begun(); }
  base::Status complete() noexcept override { return complete(-1, {base::Activity::flush}, fabric_.timeout); }
  /// Waits until the started copies to or from `rank` (-1: all) have ended.
  base::Status complete(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept;
  void stop_issuing() noexcept {
    if (tickets_index_ < 0) fabric_.tickets.remove(std::exchange(tickets_index_, 0));
    mapped_.clear();
  }

  memory::StageLease lease(const memory::Owner& owner, const rma::CallSite& call) const;

  rma::WindowCore& core_;
  rma::Fabric& fabric_;
  std::vector<Figures>& measured_;
  std::vector<Path> paths_;         // by rank; empty if no part is device memory
  std::optional<DevicePart> part_;  // this rank's, if it is device memory
  std::unique_ptr<NodeRange> range_;
  DeviceChannels channels_;
  std::vector<MappedChannel*> mapped_;  // by rank; null: not device memory, or not mapped here
  int tickets_index_ = 0;               // negative while this is registered with the fabric's tickets
  std::unique_ptr<KernelReach> kernel_reach_;
  std::vector<std::unique_ptr<DeviceView>> views_;
  std::shared_ptr<rma::WindowCore> context_;  // null until open_context
  std::unique_ptr<std::byte[]> bounce_buffer_;
};

std::vector<int> WindowDevices::open(std::span<const rma::Description> ranks, rma::WindowPeers& peers,
                                     std::vector<std::unique_ptr<transport::Channel>>& channels,
                                     base::Deadline deadline) {
  Offers offers(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].device.empty())
      offers[rank] = std::make_unique<DeviceOffer>(DeviceOffer::decode(ranks[rank].device, peers[rank].world));
  for (const rma::WindowPeer& peer : peers) paths_.push_back(fabric_.peer(peer.world).path);
  std::vector<int> helpers;
  mapped_.assign(ranks.size(), nullptr);
  channels_.resize(ranks.size());
  std::vector<NodeRange::Part> local;
  for (std::size_t rank = 0; rank < peers.size(); ++rank)
    if (peers[rank].local_index >= 0)
      local.push_back(
          {static_cast<int>(rank), offers[rank].get(), peers[rank].bytes, static_cast<int>(rank) == core_.rank()});
  range_ = std::make_unique<NodeRange>(local);
  auto descriptors = take_descriptors(ranks, peers, offers, deadline);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (offers[rank] == nullptr) continue;
    rma::WindowPeer& peer = peers[rank];
    const auto found = std::find_if(channels.begin(), channels.end(),
                                    [&](const auto& channel) { return channel.get() == peer.channel; });
    auto control = std::move(*found);
    channels.erase(found);
    DevicePath way = select_path(fabric_, measured_, {static_cast<int>(rank), peer.world, *offers[rank], peer.wire},
                                 *range_, std::move(descriptors[rank]), std::move(control),
                                 static_cast<int>(rank) == core_.rank() ? &*part_ : nullptr);
    peer.direct = nullptr;
    peer.channel = way.channel.get();
    peer.on_device = true;
    mapped_[rank] = way.mapped;
    paths_[rank] = std::move(way.path);
    if (way.needs_agent) helpers.push_back(peer.world);
    channels_[rank] = std::move(way.channel);
  }
  tickets_index_ = fabric_.tickets.add(*this);
  return helpers;
}

/// Collective over the team's ranks on this node. Returns the descriptors for their tickets, indexed by team rank;
/// empty for a rank that passes none.
std::vector<base::UniqueFd> WindowDevices::take_descriptors(std::span<const rma::Description> ranks,
                                                            const rma::WindowPeers& peers, const Offers& offers,
                                                            base::Deadline deadline) const {
  std::vector<base::UniqueFd> by_rank(ranks.size());
  std::vector<std::size_t> local;  // by world rank
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (peers[rank].local_index >= 0) local.push_back(rank);
  const bool any = std::any_of(local.begin(), local.end(), [&](std::size_t rank) {
    return offers[rank] != nullptr && ticket_of(*offers[rank], memory::SharingKind::vmm_fd) != nullptr;
  });
  if (!any || local.size() < 2) return by_rank;
  std::sort(local.begin(), local.end(), [&](std::size_t a, std::size_t b) { return peers[a].world < peers[b].world; });
  base::ShareGroup group;
  group.number = ranks[local.front()].share;
  for (const std::size_t rank : local) group.members.push_back(peers[rank].world);
  const base::UniqueFd none;
  auto passed = fabric_.node_link->pass(group, part_ ? part_->descriptor() : none, deadline);
  for (std::size_t i = 0; i < local.size(); ++i) by_rank[local[i]] = std::move(passed[i]);
  return by_rank;
}

void WindowDevices::serve(std::span<const int> clients) {
  part_->give_back();
  if (clients.empty()) return;
  // A rank on another node can't wake the agent.
  const bool by_far =
      std::any_of(clients.begin(), clients.end(), [&](int world) { return !fabric_.peer(world).path.direct; });
  paths_[static_cast<std::size_t>(core_.rank())].why += "; " + part_->start_agent(by_far);
}

Path WindowDevices::path(int rank) {
  Path& path = paths_[static_cast<std::size_t>(rank)];
  // A staged path is measured at the first call, because the owner's agent runs only when the window is open, and few
  // callers need the result.
  if (path.wire == "staged" && path.latency_us == 0 && path.why.find(not_measured) == std::string::npos) {
    try {
      const auto figures = measure_reading(core_.peers()[static_cast<std::size_t>(rank)].bytes,
                                           [&](void* into, std::size_t bytes) { core_.get(rank, 0, into, bytes); });
      path.gigabytes_per_s = figures.gigabytes_per_s;
      path.latency_us = figures.latency_us;
    } catch (const std::exception& error) {
      path.why += not_measured + std::string(error.what());
    }
  }
  return path;
}

// ---- verbs to device memory

/// `number`: 0 if the copy is complete.
Request WindowDevices::request(const char* operation, int rank, std::uint64_t number) const {
  if (number == 0) return Request::from_raw({nullptr, 0, operation, 0, peer(rank).world});
  const std::uint64_t ticket = static_cast<std::uint64_t>(rank) << number_bits | number;
  return Request::from_raw({&core_, ticket, operation, tickets_index_, peer(rank).world});
}

Request WindowDevices::put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  std::uint64_t number = 0;
  require(fabric_, channel(rank).begin_put(offset, source, bytes, number),
          {"put_nb", peer(rank).world, offset, bytes, true});
  fabric_.note_wire_put();
  return request("put_nb", rank, number);
}

Request WindowDevices::get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes) {
  std::uint64_t number = 0;
  require(fabric_, channel(rank).begin_get(offset, destination, bytes, number),
          {"get_nb", peer(rank).world, offset, bytes, true});
  if (number != 0) fabric_.note_unflushed();
  return request("get_nb", rank, number);
}

void WindowDevices::put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides) {
  fabric_.note_wire_put();
  require(fabric_, channel(rank).put_rows(offset, source, strides),
          {"put_strided", peer(rank).world, offset, strides.rows * strides.row_bytes, true});
}

void WindowDevices::get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides) {
  require(fabric_, channel(rank).get_rows(offset, destination, strides),
          {"get_strided", peer(rank).world, offset, strides.rows * strides.row_bytes, true});
}

void WindowDevices::flush(const char* operation, int rank, Timeout timeout) {
  const int world = rank >= 0 ? peer(rank).world : -1;
  require(fabric_, complete(rank, {base::Activity::flush, world}, fabric_.resolve(timeout)), {operation, world});
}

base::Status WindowDevices::complete(int rank, const base::WaitNote& note, std::chrono::nanoseconds timeout) noexcept {
  for (std::size_t i = 0; i < mapped_.size(); ++i) {
    MappedChannel* const channel = mapped_[i];
    if (channel == nullptr || (rank >= 0 && static_cast<std::size_t>(rank) != i)) continue;
    const base::Status unseen = channel->take_unseen();
    if (channel->idle() && unseen.ok()) continue;
    base::Status looked;
    const auto over = [&]() noexcept {
      looked = channel->look(channel->begun());
      return looked.code != Code::in_progress;
    };
    if (const base::Status status = fabric_.waiter.until(note, over, timeout); !status.ok()) return status;
    if (!looked.ok()) return looked;
    if (!unseen.ok()) return unseen;  // failure of an earlier copy, whose event was reused
  }
  return {};
}

std::uint64_t WindowDevices::wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout) {
  std::uint64_t seen = 0;
  base::Status looked;
  DeviceWatch watch;
  const auto ready = [&]() noexcept {
    return part_->look(watch, offset, seen, looked) && (!looked.ok() || rma::holds(seen, compare, value));
  };
  const base::Status status = fabric_.waiter.until({base::Activity::wait_until}, ready, fabric_.resolve(timeout));
  if (const base::Status& outcome = status.ok() ? looked : status; !outcome.ok()) [[unlikely]]
    core_.throw_wait(outcome, offset, compare, value, seen);
  return seen;
}

bool WindowDevices::test_until(std::uint64_t offset, Cmp compare, std::uint64_t value) {
  const rma::CallSite call{"test_until", -1, offset, 8, true};
  core_.drive_wires();
  std::uint64_t seen = 0;
  base::Status looked;
  DeviceWatch watch;
  // look() returns false while a peer holds the word lock, which lasts at most as long as the copy of a word.
  const auto ready = [&]() noexcept { return part_->look(watch, offset, seen, looked); };
  const base::Status status = fabric_.waiter.until({base::Activity::wait_until}, ready, fabric_.timeout);
  require(fabric_, status.ok() ? looked : status, call);
  if (rma::holds(seen, compare, value)) return true;
  require(fabric_, fabric_.waiter.page().aborted(), call);
  return false;
}

// ---- the local side is device memory

void WindowDevices::copy_in(const char* operation, const rma::WindowPeer& peer, std::uint64_t offset,
                            const void* source, std::size_t bytes) {
  require(
      fabric_,
      memory::copy_between(peer.direct + offset, memory::host_owner(), source, memory::known_owner_of(source), bytes),
      {operation, peer.world, offset, bytes, true});
}

void WindowDevices::copy_out(const char* operation, const rma::WindowPeer& peer, std::uint64_t offset,
                             void* destination, std::size_t bytes) {
  require(fabric_,
          memory::copy_between(destination, memory::known_owner_of(destination), peer.direct + offset,
                               memory::host_owner(), bytes),
          {operation, peer.world, offset, bytes, true});
}

memory::StageLease WindowDevices::lease(const memory::Owner& owner, const rma::CallSite& call) const {
  try {
    return {*owner.provider, owner.info.device};
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = call.operation;
    detail.rank = fabric_.rank;
    detail.peer = call.peer;
    detail.offset = call.offset;
    detail.size = call.size;
    detail.has_extent = true;
    throw Error(std::move(detail));
  } catch (const std::exception&) {
    throw_status(fabric_, base::Status::failure(Code::out_of_memory, "no memory to stage a transfer"), call);
  }
}

// The copy of the next piece from the device overlaps the put of the current one.
void WindowDevices::put_staged(const char* operation, int rank, std::uint64_t offset, const void* source,
                               std::size_t bytes) {
  const rma::CallSite call{operation, peer(rank).world, offset, bytes, true};
  const memory::StageLease stage = lease(memory::known_owner_of(source), call);
  const std::size_t piece = memory::staged_piece(bytes);
  memory::OutPieces pieces(*stage, source, bytes, piece);
  for (std::size_t done = 0; done < bytes; done += piece) {
    const std::byte* at = nullptr;
    require(fabric_, pieces.next(at), call);
    core_.put(rank, offset + done, at, std::min(piece, bytes - done));
  }
}

void WindowDevices::get_staged(const char* operation, int rank, std::uint64_t offset, void* destination,
                               std::size_t bytes) {
  const rma::CallSite call{operation, peer(rank).world, offset, bytes, true};
  const memory::StageLease stage = lease(memory::known_owner_of(destination), call);
  const std::size_t piece = memory::staged_piece(bytes);
  memory::InPieces pieces(*stage, destination, bytes, piece);
  for (std::size_t done = 0; done < bytes; done += piece) {
    std::byte* at = nullptr;
    require(fabric_, pieces.room(at), call);
    core_.get(rank, offset + done, at, std::min(piece, bytes - done));
    require(fabric_, pieces.filled(), call);
  }
  require(fabric_, pieces.finish(), call);
}

std::byte* WindowDevices::bounce_buffer() {
  if (bounce_buffer_ == nullptr) bounce_buffer_.reset(new (std::nothrow) std::byte[2 * bounce_half]);
  if (bounce_buffer_ == nullptr)
    throw Error(Code::out_of_memory, "copy", "no host memory for a copy between two windows that aren't mapped here");
  return bounce_buffer_.get();
}

// ---- kernels and streams

void WindowDevices::put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes) {
  const rma::WindowPeer& peer = this->peer(rank);
  const rma::CallSite call{"put_on", peer.world, offset, bytes, true};
  if (bytes == 0) return;
  const DeviceMemory* const mapped = peer.on_device ? channel(rank).mapped() : nullptr;
  if (peer.direct == nullptr && mapped == nullptr)
    require(fabric_, base::Status::failure(Code::unsupported, "a device can't copy to that rank's memory"), call);
  std::byte* const to = (mapped != nullptr ? mapped->allocation()->address : peer.direct) + offset;
  const memory::Owner target = mapped != nullptr ? mapped->owner() : memory::host_owner();
  const memory::Owner from = memory::known_owner_of(source);
  const bool from_device = !memory::is_host_accessible(from);
  const memory::Owner& by = from_device ? from : target;
  if (memory::is_host_accessible(by))
    require(fabric_, base::Status::failure(Code::invalid_argument, "neither side is a device's: it has no stream"),
            call);
  if (from_device && !memory::is_host_accessible(target) && from.provider != target.provider)
    require(fabric_, base::Status::failure(Code::unsupported, "the two sides are devices of different vendors"), call);
  const auto borrowed = by.provider->borrow_stream(by.info.device, stream);
  require(fabric_, by.provider->copy_async(memory::transfer_between(to, target, source, from, bytes), *borrowed), call);
  if (peer.direct != nullptr)
    ++fabric_.counters.puts_direct;
  else
    fabric_.note_wire_put();
}

DeviceHandle WindowDevices::device_handle(MemoryType type, int device) {
  const memory::Provider* const provider =
      core_.on_device() ? core_.allocation()->provider : &memory::provider_for(type);
  if (core_.on_device()) device = core_.allocation()->device;
  if (provider->host_accessible() || provider->kernels() == nullptr)
    throw Error(Code::unsupported, "Window::device_handle",
                fmt::format("HMC knows no kernels of {} devices", provider->name()));
  // Check the caller's device number, because the functions below use it as an index.
  const int count = provider->kernels()->vendor().device_count();
  if (device < 0 || device >= count)
    throw Error(Code::invalid_argument, "Window::device_handle",
                fmt::format("{} has {} devices, and no device {}", provider->name(), count, device));
  for (const auto& each : views_)
    if (&each->provider() == provider && each->device() == device && each->has_context() == (context_ != nullptr))
      return each->handle();
  return views_
      .emplace_back(std::make_unique<DeviceView>(core_, channels_, range_.get(), context_.get(), *provider, device))
      ->handle();
}

void WindowDevices::open_context(rma::TeamCore& team) {
  if (context_ != nullptr)
    throw Error(Code::invalid_argument, "Window::open_context", "the window already has a context");
  if (team.id() != core_.team_id())
    throw Error(Code::invalid_argument, "Window::open_context", "this isn't the team that the window was made over");
  const rma::OperationScope user(fabric_, "Window::open_context", base::SetupCall::context, core_.id());
  context_ = rma::create_window(team, Window::context_bytes, rma::WindowCore::Role::internal);
}

rma::WindowCore& WindowDevices::context(const char* operation) {
  if (context_ == nullptr)
    throw Error(Code::invalid_argument, operation, "the window has no context", "open_context makes it");
  return *context_;
}

class RankDevices final : public rma::Devices {
 public:
  std::unique_ptr<rma::DeviceAccess> access(rma::WindowCore& core) override {
    return std::make_unique<WindowDevices>(core, measured_);
  }

 private:
  std::vector<Figures> measured_;
};

}  // namespace

std::unique_ptr<rma::Devices> make_devices() { return std::make_unique<RankDevices>(); }

}  // namespace hmc::device
