#include <hmc/buffer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hmc/place.hpp>

#include "runtime/base/fork.hpp"
#include "runtime/memory/openmp.hpp"
#include "runtime/memory/pointer_lookup.hpp"

namespace hmc::detail {

/// A transfer is queued on a stream of the called Buffer: one per device, created at first use, or the user's. It is
/// ordered after all transfers in flight at its source and destination. Its event is stored at both, and orders later
/// reads and writes after it. The memory of both is kept until the event completes. One thread at a time.
class Transfers {
 public:
  using Keep = std::vector<std::shared_ptr<const void>>;

  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  /// Waits for its own transfers, because only this object keeps their memory. Doesn't wait for other work in a user's
  /// stream, unless a wait fails.
  ~Transfers();

  /// Uses the user's stream for that device.
  void use(const memory::Provider& provider, int device, void* native);
  /// A new object with the same streams of the user and no transfer in flight.
  std::shared_ptr<Transfers> alike() const;
  memory::Stream& stream(const memory::Provider& provider, int device);

  /// Starts a copy on a stream of `provider`, and records it at its source and destination. Returns `unsupported` if
  /// the provider doesn't support this copy. If it throws Error, the copy isn't in flight.
  base::Status put(const memory::Provider& provider, const memory::Transfer& copy, int device, Keep keep,
                   Transfers* other);
  /// Waits for the last put.
  void wait_for_last();
  /// Waits for all transfers in flight, and for all work of the streams. Throws the first Error.
  void synchronize();

 private:
  struct Lane {
    const memory::Provider* provider;
    int device;
    std::unique_ptr<memory::Stream> stream;
    bool is_users;
  };
  /// The point in a stream after a transfer.
  struct Mark {
    const memory::Provider* provider;
    std::unique_ptr<memory::Event> event;
  };
  struct Pending {
    std::shared_ptr<Mark> mark;
    bool is_own;  ///< in a stream of this object
    Keep keep;
  };

  /// Orders later work of `stream` after all transfers of this object.
  void come_before(memory::Stream& stream, const memory::Provider& provider, Keep& keep);
  void forget_passed() noexcept;
  void drain() noexcept;

  std::vector<Lane> lanes_;
  std::vector<Pending> pending_;
};

namespace {

void check(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "Buffer", status.what == nullptr ? "transfer" : status.what);
}

}  // namespace

Transfers::~Transfers() {
  bool all_over = true;
  for (const Pending& each : pending_)
    if (each.is_own && !each.mark->event->synchronize().ok()) all_over = false;
  if (!all_over) drain();  // the memory that the transfers access is freed next
}

void Transfers::use(const memory::Provider& provider, int device, void* native) {
  lanes_.push_back({&provider, device, provider.borrow_stream(device, native), true});
}

std::shared_ptr<Transfers> Transfers::alike() const {
  auto made = base::make_owned<Transfers>();
  for (const Lane& lane : lanes_)
    if (lane.is_users) made->use(*lane.provider, lane.device, lane.stream->native());
  return made;
}

memory::Stream& Transfers::stream(const memory::Provider& provider, int device) {
  for (const Lane& lane : lanes_)
    if (lane.provider == &provider && lane.device == device) return *lane.stream;
  lanes_.push_back({&provider, device, provider.make_stream(device), false});
  return *lanes_.back().stream;
}

void Transfers::come_before(memory::Stream& stream, const memory::Provider& provider, Keep& keep) {
  for (const Lane& lane : lanes_) {
    if (lane.stream.get() == &stream) continue;
    if (lane.provider != &provider) {  // only the host can order the streams of two vendors
      check(lane.stream->synchronize());
      continue;
    }
    std::shared_ptr<memory::Event> here = provider.make_event(lane.device);
    check(here->record(*lane.stream));
    check(stream.wait(*here));
    keep.push_back(std::move(here));  // some vendors read the event only when the stream reaches the wait
  }
  for (const Pending& each : pending_) {
    if (each.is_own) continue;
    if (each.mark->provider == &provider) {
      check(stream.wait(*each.mark->event));
      keep.push_back(each.mark);
    } else {
      check(each.mark->event->synchronize());
    }
  }
}

base::Status Transfers::put(const memory::Provider& provider, const memory::Transfer& copy, int device, Keep keep,
                            Transfers* other) {
  if (other == this) other = nullptr;
  forget_passed();
  memory::Stream& stream = this->stream(provider, device);
  try {
    come_before(stream, provider, keep);
    if (other != nullptr) other->come_before(stream, provider, keep);
    const auto mark = std::make_shared<Mark>(Mark{&provider, provider.make_event(device)});
    pending_.reserve(pending_.size() + 1);
    if (other != nullptr) other->pending_.reserve(other->pending_.size() + 1);
    if (const base::Status copied = provider.copy_async(copy, stream); !copied.ok()) {
      (void)stream.synchronize();
      if (copied.code == Code::unsupported) return copied;
      check(copied);
    }
    check(mark->event->record(stream));
    pending_.push_back({mark, true, std::move(keep)});
    if (other != nullptr) other->pending_.push_back({mark, false, {}});
  } catch (...) {
    (void)stream.synchronize();  // the copy may be in flight, and the stream waits for events that are destroyed next
    throw;
  }
  return {};
}

void Transfers::wait_for_last() {
  const base::Status status = pending_.back().mark->event->synchronize();
  if (!status.ok()) drain();  // after the error the caller may free the memory, or it is on the stack
  check(status);
  forget_passed();
}

/// The fallback after a failed wait for a mark: waits for all streams.
void Transfers::drain() noexcept {
  for (const Lane& lane : lanes_) (void)lane.stream->synchronize();
}

void Transfers::synchronize() {
  base::Status first;
  const auto take = [&](const base::Status& status) {
    if (first.ok()) first = status;
  };
  for (const Lane& lane : lanes_) take(lane.stream->synchronize());
  for (const Pending& each : pending_) take(each.mark->event->synchronize());
  check(first);
  pending_.clear();
}

/// Removes the entries before the first mark that isn't complete. A stream completes its marks in order, and a full
/// scan isn't worth its cost.
void Transfers::forget_passed() noexcept {
  const auto first_left = std::find_if(pending_.begin(), pending_.end(),
                                       [](const Pending& each) { return !each.mark->event->query().ok(); });
  pending_.erase(pending_.begin(), first_left);
}

}  // namespace hmc::detail

namespace hmc {

namespace {

using memory::Backing;
using memory::OpenMp;

struct Source {
  const char* name;
  MemoryType type;
  Backing backing;
};
// Indexed by Allocator, so in its order.
constexpr std::array<Source, allocator_count> sources{{
    {"host_new", MemoryType::CPU, Backing::best},
    {"host_malloc", MemoryType::CPU, Backing::best},
    {"cuda", MemoryType::NVIDIA_GPU, Backing::best},
    {"cuda_async", MemoryType::NVIDIA_GPU, Backing::stream_ordered},
    {"cuda_pinned", MemoryType::NVIDIA_GPU, Backing::pinned},
    {"cuda_managed", MemoryType::NVIDIA_GPU, Backing::managed},
    {"hip", MemoryType::AMD_GPU, Backing::best},
    {"hip_async", MemoryType::AMD_GPU, Backing::stream_ordered},
    {"hip_pinned", MemoryType::AMD_GPU, Backing::pinned},
    {"hip_managed", MemoryType::AMD_GPU, Backing::managed},
    {"musa", MemoryType::MOORE_GPU, Backing::best},
    {"cnrt", MemoryType::CAMBRICON_MLU, Backing::best},
    {"acl", MemoryType::ASCEND_NPU, Backing::best},
    {"opencl", MemoryType::OPENCL, Backing::best},
    {"openmp", MemoryType::CPU, Backing::best},
    {"window", MemoryType::CPU, Backing::best},  // Place::part holds the actual memory type of the window's part
}};

const Source& source_of(const Place& place) noexcept { return sources[static_cast<std::size_t>(place.part)]; }

std::shared_ptr<std::byte> from_host(Allocator allocator, std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const bool by_new = allocator == Allocator::host_new;
  void* const got = by_new ? ::operator new(size, std::nothrow) : std::malloc(size);
  if (got == nullptr) throw Error(Code::out_of_memory, "Buffer", std::to_string(bytes) + " bytes of host memory");
  auto* const address = static_cast<std::byte*>(got);
  if (by_new) return {address, [](std::byte* each) { ::operator delete(each); }};
  return {address, [](std::byte* each) { std::free(each); }};
}

std::shared_ptr<std::byte> from_openmp(int device, std::size_t bytes) {
  const OpenMp& openmp = OpenMp::instance();
  if (!openmp.why_not().empty()) throw Error(Code::unsupported, "Buffer", "no OpenMP here: " + openmp.why_not());
  if (device < 0 || device > openmp.host())
    throw Error(Code::invalid_argument, "Buffer",
                fmt::format("OpenMP has devices 0 to {} (the host), not {}", openmp.host(), device));
  void* const got = openmp.allocate(std::max<std::size_t>(bytes, 1), device);
  if (got == nullptr)
    throw Error(Code::out_of_memory, "Buffer", fmt::format("omp_target_alloc({}, {}) gave nothing", bytes, device));
  return {static_cast<std::byte*>(got), [device](std::byte* each) { OpenMp::instance().free(each, device); }};
}

/// True if the place is on an OpenMP device, whose memory only OpenMP calls can access.
bool is_on_openmp_device(const Place* place) noexcept {
  return place != nullptr && place->part == Allocator::openmp && place->device < OpenMp::instance().devices();
}

/// The place of a Buffer determines its memory type; only a user's pointer needs a lookup.
memory::Owner owner_at(const detail::End& end) {
  if (end.place == nullptr) return memory::owner_of(end.address);
  const Source& source = source_of(*end.place);
  const auto kind = source.type == MemoryType::CPU       ? memory::PointerKind::unknown
                    : source.backing == Backing::pinned  ? memory::PointerKind::pinned
                    : source.backing == Backing::managed ? memory::PointerKind::managed
                                                         : memory::PointerKind::device;
  return {&memory::provider_for(source.type), {kind, end.place->device}};
}

base::Status by_openmp(const detail::End& to, const detail::End& from, std::size_t bytes) {
  const OpenMp& openmp = OpenMp::instance();
  const bool to_openmp = is_on_openmp_device(to.place), from_openmp = is_on_openmp_device(from.place);
  const bool direct = (to_openmp || memory::is_host_accessible(owner_at(to))) &&
                      (from_openmp || memory::is_host_accessible(owner_at(from)));
  const int to_device = to_openmp ? to.place->device : openmp.host();
  const int from_device = from_openmp ? from.place->device : openmp.host();
  if (direct) return openmp.copy(to.address, to_device, from.address, from_device, bytes);
  const std::unique_ptr<std::byte[]> between(new (std::nothrow) std::byte[bytes]);
  if (between == nullptr) return base::Status::failure(Code::out_of_memory, "no host memory for a copy to go through");
  const base::Status taken = from_openmp ? openmp.copy(between.get(), openmp.host(), from.address, from_device, bytes)
                                         : memory::copy_between(between.get(), from.address, bytes);
  if (!taken.ok()) return taken;
  return to_openmp ? openmp.copy(to.address, to_device, between.get(), openmp.host(), bytes)
                   : memory::copy_between(to.address, between.get(), bytes);
}

detail::Transfers* transfers_of(const detail::End& end) noexcept {
  return end.transfers == nullptr ? nullptr : end.transfers->get();
}

void copy_now(const detail::End& to, const detail::End& from, std::size_t bytes) {
  if (auto* const at_to = transfers_of(to)) at_to->synchronize();
  if (auto* const at_from = transfers_of(from)) at_from->synchronize();
  const base::Status status = is_on_openmp_device(to.place) || is_on_openmp_device(from.place)
                                  ? by_openmp(to, from, bytes)
                                  : memory::copy_between(to.address, owner_at(to), from.address, owner_at(from), bytes);
  if (!status.ok()) throw Error(status.code, "Buffer", status.what == nullptr ? "copy" : status.what);
}

/// The provider and the copy for a stream; nullopt if the host must execute the transfer.
struct Route {
  const memory::Provider* provider;
  int device;
  memory::Transfer copy;
};
std::optional<Route> route(const detail::End& to, const memory::Owner& at_to, const detail::End& from,
                           const memory::Owner& at_from, std::size_t bytes) noexcept {
  if (is_on_openmp_device(to.place) || is_on_openmp_device(from.place)) return std::nullopt;
  const bool to_host = memory::is_host_accessible(at_to), from_host = memory::is_host_accessible(at_from);
  if (to_host && from_host) return std::nullopt;
  if (!to_host && !from_host && at_to.provider != at_from.provider) return std::nullopt;
  const memory::Owner& device_side = to_host ? at_from : at_to;
  Route found{device_side.provider, device_side.info.device, {to.address, from.address, bytes}};
  found.copy.direction = to_host     ? memory::Direction::device_to_host
                         : from_host ? memory::Direction::host_to_device
                                     : memory::Direction::device_to_device;
  if (!to_host && !from_host && at_to.info.device != at_from.info.device) {
    found.copy.destination_device = at_to.info.device;
    found.copy.source_device = at_from.info.device;
  }
  return found;
}

}  // namespace

Place Place::of(const void* address) noexcept {
  const memory::Owner owner = memory::owner_of(address);
  if (owner.info.kind == memory::PointerKind::unknown) return Allocator::host_malloc;
  const Backing backing = owner.info.kind == memory::PointerKind::pinned    ? Backing::pinned
                          : owner.info.kind == memory::PointerKind::managed ? Backing::managed
                                                                            : Backing::best;
  const auto found = std::find_if(sources.begin(), sources.end(), [&](const Source& each) {
    return each.type == owner.provider->type() && each.backing == backing;
  });
  // The host can access pinned memory of a vendor that has no allocator for it.
  if (found == sources.end()) return Allocator::host_malloc;
  return {static_cast<Allocator>(found - sources.begin()), std::max(owner.info.device, 0)};
}

Place Place::current(Allocator allocator) {
  if (allocator == Allocator::openmp) return {allocator, OpenMp::instance().current_device()};
  const Place first(allocator);
  return {allocator, memory::provider_for(source_of(first).type).current_device()};
}

const char* name_of(Allocator allocator) noexcept {
  const auto index = static_cast<std::size_t>(allocator);
  return index < sources.size() ? sources[index].name : "unknown";
}

namespace detail {

std::shared_ptr<std::byte> allocate_at(const Place& place, std::size_t bytes) {
  if (place.allocator == Allocator::window)
    throw Error(Code::invalid_argument, "Buffer", "a place in a window is made of the window");
  if (place.allocator == Allocator::openmp) return from_openmp(place.device, bytes);
  const Source& source = source_of(place);
  if (source.type == MemoryType::CPU) return from_host(place.allocator, bytes);
  auto allocation = memory::provider_for(source.type).allocate(place.device, bytes, source.backing);
  std::byte* const address = allocation->address;
  return {std::move(allocation), address};
}

std::shared_ptr<std::byte> own_at(const Place& place, std::byte* address) {
  if (place.allocator == Allocator::window)
    throw Error(Code::invalid_argument, "Buffer", "a window owns the memory of its heap");
  if (place.allocator == Allocator::host_new) return {address, [](std::byte* each) { ::operator delete[](each); }};
  if (place.allocator == Allocator::host_malloc) return {address, [](std::byte* each) { std::free(each); }};
  if (place.allocator == Allocator::openmp)
    return {address, [device = place.device](std::byte* each) { OpenMp::instance().free(each, device); }};
  const Source& source = source_of(place);
  return {memory::provider_for(source.type).own(address, place.device, source.backing), address};
}

void transfer(const End& to, const End& from, std::size_t bytes, TransferMode mode, Transfers* by) {
  if (bytes == 0) return;
  if (by == nullptr) return copy_now(to, from, bytes);
  const memory::Owner at_to = owner_at(to), at_from = owner_at(from);
  const auto found = route(to, at_to, from, at_from, bytes);
  if (!found) return copy_now(to, from, bytes);
  const bool waits =
      mode == TransferMode::sync || (mode == TransferMode::sync_host && memory::is_host_accessible(at_to));
  Route taken = *found;
  Transfers::Keep keep{to.keeper, from.keeper};
  if (!waits && from.keeper == nullptr && memory::is_host_accessible(at_from)) {
    // The caller may modify or free the source after the return.
    const std::shared_ptr<std::byte> copied = from_host(Allocator::host_malloc, bytes);
    std::memcpy(copied.get(), from.address, bytes);
    taken.copy.source = copied.get();
    keep.push_back(copied);
  }
  const End& other = transfers_of(to) == by ? from : to;
  if (!waits && other.transfers != nullptr && *other.transfers == nullptr)
    *other.transfers = base::make_owned<Transfers>();
  const base::Status put = by->put(*taken.provider, taken.copy, taken.device, std::move(keep), transfers_of(other));
  if (put.code == Code::unsupported) return copy_now(to, from, bytes);  // for example between two OpenCL devices
  if (waits) by->wait_for_last();
}

bool is_host_accessible(const Place& place) noexcept {
  const Source& source = source_of(place);
  if (place.part == Allocator::openmp) return !is_on_openmp_device(&place);
  return source.type == MemoryType::CPU || source.backing == Backing::pinned || source.backing == Backing::managed;
}

bool has_same_access(const Place& one, const Place& other) noexcept {
  if (one == other) return true;
  if (one.heap != nullptr || other.heap != nullptr) return false;
  const Source &a = source_of(one), &b = source_of(other);
  const bool host = a.type == MemoryType::CPU && b.type == MemoryType::CPU;
  if (host) return is_host_accessible(one) && is_host_accessible(other);
  const auto is_devices = [](Backing backing) {
    return backing == Backing::best || backing == Backing::stream_ordered;
  };
  return a.type == b.type && one.device == other.device && is_devices(a.backing) && is_devices(b.backing);
}

bool is_device_accessible(MemoryType type, int device, const Place& place) noexcept {
  if (source_of(place).type != type) return false;
  // Every device of the vendor can access its pinned and managed memory.
  return device == place.device || is_host_accessible(place);
}

bool is_openmp_accessible(int device, const Place& place) noexcept {
  if (device == OpenMp::instance().host()) return is_host_accessible(place);
  return place.part == Allocator::openmp && place.device == device;
}

MemoryType memory_type_of(const Place& place) noexcept { return source_of(place).type; }
MemoryType resolved(MemoryType type) { return memory::resolved(type); }

Allocator allocator_for(MemoryType type) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].type == type) return static_cast<Allocator>(i);
  throw Error(Code::unsupported, "Buffer", std::string("no allocator for ") + name_of(type) + " memory");
}

std::shared_ptr<Transfers> make_transfers(const Place& place, const TransferOrder& order) {
  if (order.mode == TransferMode::sync && !order.has_stream) return nullptr;
  auto made = base::make_owned<Transfers>();
  if (!order.has_stream) return made;
  const Source& source = source_of(place);
  if (source.type == MemoryType::CPU)
    throw Error(Code::invalid_argument, "Buffer",
                fmt::format("a stream goes with a device's memory, not with {}", name_of(place.allocator)));
  made->use(memory::provider_for(source.type), place.device, order.stream);
  return made;
}

std::shared_ptr<Transfers> alike(const std::shared_ptr<Transfers>& transfers) {
  return transfers == nullptr ? nullptr : transfers->alike();
}

void* stream_at(const std::shared_ptr<Transfers>& transfers, const Place& place) {
  const MemoryType type = source_of(place).type;
  if (transfers == nullptr || type == MemoryType::CPU) return nullptr;
  return transfers->stream(memory::provider_for(type), place.device).native();
}

void synchronize(Transfers& transfers) { transfers.synchronize(); }

void settle(Transfers& transfers) noexcept {
  try {
    transfers.synchronize();
  } catch (const std::exception&) {  // the caller of the transfer has received the error, or no caller waits for it
  }
}

}  // namespace detail

}  // namespace hmc
