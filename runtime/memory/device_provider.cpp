#include "runtime/memory/device_provider.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "runtime/base/deadline.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/memory/device_allocation.hpp"
#include "runtime/memory/device_stream.hpp"

namespace hmc::memory {

/// One of the provider's own streams, for one blocking call.
class DeviceProvider::Lease {
 public:
  Lease(const DeviceProvider& provider, int device) noexcept : provider_(provider), device_(device) {
    {
      const std::scoped_lock lock(provider_.mutex_);
      auto& idle = provider_.idle_streams_[static_cast<std::size_t>(device)];
      if (!idle.empty()) {
        stream_ = idle.back();
        idle.pop_back();
        return;
      }
    }
    answer_ = on_device(*provider.vendor_, device, [&] { return provider_.vendor_->create_stream(stream_); });
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (stream_ == nullptr) return;
    if (!broken_) {
      try {
        const std::scoped_lock lock(provider_.mutex_);
        provider_.idle_streams_[static_cast<std::size_t>(device_)].push_back(stream_);
        return;
      } catch (const std::bad_alloc&) {
      }
    }
    (void)on_device(*provider_.vendor_, device_, [&] { return provider_.vendor_->destroy_stream(stream_); });
  }
  /// Queues work and waits for it. Also waits if the start fails, because earlier rows may be in flight.
  template <typename Put> DriverResult run(Put&& put) noexcept {
    if (!answer_.ok()) return answer_;
    return on_device(*provider_.vendor_, device_, [&] {
      const DriverResult started = put(stream_);
      const DriverResult finished = provider_.vendor_->synchronize_stream(stream_);
      // Queued work may still access memory that the caller frees after the error. So wait once more, and don't reuse
      // this stream.
      broken_ = !finished.ok();
      if (broken_) (void)provider_.vendor_->synchronize_stream(stream_);
      return started.ok() ? finished : started;
    });
  }

 private:
  const DeviceProvider& provider_;
  int device_;
  void* stream_ = nullptr;
  bool broken_ = false;
  DriverResult answer_;
};

DeviceProvider::DeviceProvider(std::unique_ptr<Vendor> vendor)
    : vendor_(std::move(vendor)),
      failures_(*vendor_),
      kernels_(vendor_->kernels() != nullptr ? std::make_unique<Kernels>(*vendor_, failures_) : nullptr),
      idle_streams_(static_cast<std::size_t>(vendor_->device_count())),
      gates_trials_(std::make_unique<Trial[]>(idle_streams_.size())) {}

DeviceProvider::~DeviceProvider() {
  idle_stages_.clear();  // first: each stage returns its block to idle_blocks_
  idle_blocks_.clear();
  for (std::size_t device = 0; device < idle_streams_.size(); ++device)
    for (void* stream : idle_streams_[device])
      (void)on_device(*vendor_, static_cast<int>(device), [&] { return vendor_->destroy_stream(stream); });
}

std::vector<DeviceInfo> DeviceProvider::devices() const {
  std::vector<DeviceInfo> found;
  for (int i = 0; i < vendor_->device_count(); ++i)
    found.push_back({i, vendor_->device_name(i), vendor_->device_bytes(i)});
  return found;
}

void DeviceProvider::check_device(int device, const char* operation) const {
  if (!why_not().empty()) throw Error(Code::unsupported, operation, fmt::format("{}: {}", name(), why_not()));
  if (device < 0 || device >= vendor_->device_count())
    throw Error(Code::invalid_argument, operation,
                fmt::format("{} has devices 0 to {}, not {}", name(), vendor_->device_count() - 1, device));
}

// ---- allocation

std::string DeviceProvider::why_not(Backing backing) const {
  if (!why_not().empty()) return why_not();
  if (backing == Backing::best) return {};
  if (backing == Backing::vmm) {
    (void)why_not(SharingKind::fabric);  // runs the fabric trial: if both kinds work, make() creates memory for both
    return why_not(SharingKind::vmm_fd);
  }
  return vendor_->has(backing) ? "" : fmt::format("{} has no {} memory", name(), name_of(backing));
}

std::shared_ptr<Allocation> DeviceProvider::make(int device, std::size_t bytes, Backing backing) const {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  std::shared_ptr<OwnAllocation> made;
  if (backing == Backing::vmm)
    made = base::make_owned<VmmAllocation>(VmmMapping::map(create_physical(device, size)), device, bytes);
  else
    made = base::make_owned<PlainAllocation>(*vendor_, failures_, device, size, backing);
  made->bytes = bytes;
  made->provider = this;
  made->serial = book_.next_serial();
  announce(*made);
  return made;
}

void DeviceProvider::announce(Allocation& allocation) const noexcept {
  const PointerKind kind = allocation.backing == Backing::pinned    ? PointerKind::pinned
                           : allocation.backing == Backing::managed ? PointerKind::managed
                                                                    : PointerKind::device;
  allocation.known.announce(allocation.address, allocation.bytes, this, kind, allocation.device);
}

std::shared_ptr<Allocation> DeviceProvider::allocate(int device, std::size_t bytes, Backing backing) const {
  check_device(device, "allocate");
  // Only plain memory has IPC handles, and only vmm memory has descriptors, so HMC_DEVICE_SHARING determines the
  // backing. By default only CUDA uses vmm: HIP's IPC handles work in every version, and its virtual memory only in
  // some.
  const std::string forced = base::Env::device_sharing();
  const bool prefers_vmm = type() == MemoryType::NVIDIA_GPU ? forced != "ipc" : forced == "vmm";
  if (backing == Backing::best)
    backing = prefers_vmm && why_not(SharingKind::vmm_fd).empty() ? Backing::vmm : Backing::plain;
  if (const std::string why = why_not(backing); !why.empty()) throw Error(Code::unsupported, "allocate", why);
  auto allocation = make(device, bytes, backing);
  Lease lease(*this, device);
  const DriverResult zeroed = lease.run(
      [&](void* stream) { return vendor_->fill(allocation->address, 0, std::max<std::size_t>(bytes, 1), stream); });
  failures_.check(zeroed, "allocate");
  return allocation;
}

std::shared_ptr<Allocation> DeviceProvider::own(void* address, int device, Backing backing) const {
  check_device(device, "own");
  if (backing == Backing::best) backing = Backing::plain;
  if (const std::string why = why_not(backing); !why.empty()) throw Error(Code::unsupported, "own", why);
  auto owned = std::make_shared<PlainAllocation>(*vendor_, device, address, backing);
  owned->provider = this;
  return owned;
}

std::shared_ptr<Allocation> DeviceProvider::borrow(void* address, std::size_t bytes, int device) const {
  check_device(device, "borrow");
  auto borrowed = std::make_shared<BorrowedAllocation>();
  borrowed->address = static_cast<std::byte*>(address);
  borrowed->bytes = bytes;
  borrowed->device = device;
  borrowed->provider = this;
  borrowed->backing = Backing::plain;
  borrowed->serial = book_.next_serial();
  return borrowed;
}

// ---- streams

std::unique_ptr<Stream> DeviceProvider::make_stream(int device) const {
  check_device(device, "make_stream");
  return std::make_unique<DeviceStream>(*vendor_, failures_, device);
}
std::unique_ptr<Stream> DeviceProvider::borrow_stream(int device, void* native) const {
  check_device(device, "borrow_stream");
  return std::make_unique<DeviceStream>(*vendor_, failures_, device, native);
}
std::unique_ptr<Event> DeviceProvider::make_event(int device) const {
  check_device(device, "make_event");
  return std::make_unique<DeviceEvent>(*vendor_, failures_, device);
}

// ---- copies

DriverResult DeviceProvider::put_rows(const Transfer& transfer, void* stream) const noexcept {
  Transfer row = transfer;
  row.height = 1;
  for (std::size_t i = 0; i < transfer.height; ++i) {
    row.destination = static_cast<std::byte*>(transfer.destination) + i * transfer.destination_pitch;
    row.source = static_cast<const std::byte*>(transfer.source) + i * transfer.source_pitch;
    if (const DriverResult result = vendor_->copy(row, stream); !result.ok()) return result;
  }
  return {};
}

DriverResult DeviceProvider::put(const Transfer& transfer, void* stream) const noexcept {
  if (transfer.width == 0 || transfer.height == 0) return {};
  if (transfer.height == 1) return vendor_->copy(transfer, stream);
  if (transfer.source_device != transfer.destination_device) return put_rows(transfer, stream);
  const DriverResult result = vendor_->copy_2d(transfer, stream);
  return result.code == DriverResult::missing ? put_rows(transfer, stream) : result;
}

base::Status DeviceProvider::copy_async(const Transfer& transfer, Stream& stream) const noexcept {
  return failures_.to_status(on_device(*vendor_, stream.device(), [&] { return put(transfer, stream.native()); }));
}

int DeviceProvider::device_of(const void* address) const noexcept {
  const int device = vendor_->query(address).device;
  return device >= 0 && device < vendor_->device_count() ? device : 0;
}

base::Status DeviceProvider::copy(const Transfer& transfer) const noexcept {
  if (transfer.width == 0 || transfer.height == 0) return {};
  const bool reads = transfer.direction == Direction::device_to_host;
  int device = reads ? transfer.source_device : transfer.destination_device;
  if (device < 0) device = device_of(reads ? transfer.source : transfer.destination);
  Lease lease(*this, device);
  return failures_.to_status(lease.run([&](void* stream) { return put(transfer, stream); }));
}

base::Status DeviceProvider::copy_within(void* destination, const void* source, std::size_t bytes) const noexcept {
  if (bytes == 0 || destination == source) return {};
  const auto to = reinterpret_cast<std::uintptr_t>(destination), from = reinterpret_cast<std::uintptr_t>(source);
  const bool overlap = to < from + bytes && from < to + bytes;
  if (!overlap) return copy({destination, source, bytes, Direction::device_to_device});
  // No vendor specifies copies between overlapping ranges: copy through temporary memory.
  try {
    const auto between = make(device_of(destination), bytes, Backing::plain);
    if (const auto status = copy({between->address, source, bytes, Direction::device_to_device}); !status.ok())
      return status;
    return copy({destination, between->address, bytes, Direction::device_to_device});
  } catch (const Error& error) {
    return base::Status::failure(error.code(), "no device memory to copy overlapping ranges");
  } catch (const std::exception&) {
    return base::Status::failure(Code::out_of_memory, "no memory to copy overlapping ranges");
  }
}

PointerInfo DeviceProvider::query(const void* address) const noexcept {
  if (!vendor_->why_not().empty() || address == nullptr) return {};
  return vendor_->query(address);
}

namespace {

constexpr std::size_t smallest_block = std::size_t{64} << 10;

/// Rounds up so that similar sizes share a block. At most an eighth of a large block is wasted.
std::size_t block_size(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4) throw Error(Code::out_of_memory, "copy", fmt::format("no host memory of {} bytes", bytes));
  const std::size_t step = std::max(smallest_block, std::bit_floor(bytes) / 8);
  return std::max((bytes + step - 1) / step * step, smallest_block);
}

}  // namespace

std::unique_ptr<Stage> DeviceProvider::take_stage(int device) const {
  check_device(device, "copy");
  {
    const std::scoped_lock lock(staging_mutex_);
    const auto found = std::find_if(idle_stages_.begin(), idle_stages_.end(),
                                    [&](const auto& stage) { return stage->device() == device; });
    if (found != idle_stages_.end()) {
      auto stage = std::move(*found);
      idle_stages_.erase(found);
      return stage;
    }
  }
  return std::make_unique<Stage>(*this, device);
}

void DeviceProvider::give_back(std::unique_ptr<Stage> stage) const noexcept {
  try {
    const std::scoped_lock lock(staging_mutex_);
    idle_stages_.push_back(std::move(stage));
  } catch (const std::bad_alloc&) {
    // The stage is destroyed.
  }
}

HostBlock DeviceProvider::take_block(int device, std::size_t bytes) const {
  {
    const std::scoped_lock lock(staging_mutex_);
    auto best = idle_blocks_.end();
    for (auto each = idle_blocks_.begin(); each != idle_blocks_.end(); ++each)
      if (each->bytes >= bytes && (best == idle_blocks_.end() || each->bytes < best->bytes)) best = each;
    if (best != idle_blocks_.end()) {
      HostBlock block = std::move(*best);
      idle_blocks_.erase(best);
      kept_bytes_ -= block.bytes;
      return block;
    }
  }
  HostBlock block;
  block.bytes = block_size(bytes);
  block.why_pageable = why_not(Backing::pinned);
  if (block.why_pageable.empty()) {
    try {
      block.pinned = make(device, block.bytes, Backing::pinned);
      block.data = block.pinned->address;
      return block;
    } catch (const Error& error) {
      block.why_pageable = error.detail().message;
    }
  }
  block.pageable.reset(new (std::nothrow) std::byte[block.bytes]);
  block.data = block.pageable.get();
  if (block.data == nullptr)
    throw Error(Code::out_of_memory, "copy",
                fmt::format("no host memory of {} bytes: {}", block.bytes, block.why_pageable));
  return block;
}

void DeviceProvider::give_back(HostBlock block) const noexcept {
  if (block.data == nullptr) return;
  try {
    std::vector<HostBlock> replaced;  // freed without the lock
    const std::scoped_lock lock(staging_mutex_);
    // A block that couldn't be pinned is freed, so that the next take_block() tries again to pin.
    if (block.pinned == nullptr && why_not(Backing::pinned).empty()) return;
    const std::size_t bytes = block.bytes;
    if (bytes > kept_bytes_max) return;
    replaced.reserve(idle_blocks_.size());
    auto kept = idle_blocks_.begin();  // the ones before have been idle for longest
    for (; kept_bytes_ + bytes > kept_bytes_max; ++kept) kept_bytes_ -= kept->bytes;
    std::move(idle_blocks_.begin(), kept, std::back_inserter(replaced));
    idle_blocks_.erase(idle_blocks_.begin(), kept);
    idle_blocks_.push_back(std::move(block));
    kept_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // The block is freed.
  }
}

std::shared_ptr<void> DeviceProvider::pin(int device, void* address, std::size_t bytes) const {
  check_device(device, "pin");
  failures_.check(on_device(*vendor_, device, [&] { return vendor_->pin(address, bytes); }), "pin");
  return {address,
          [this, device](void* pinned) { (void)on_device(*vendor_, device, [&] { return vendor_->unpin(pinned); }); }};
}

using base::Status;

namespace {

/// A stream with a gate, an event before the gate and an event after it.
struct Stopped {
  Stopped(const Provider& provider, int device)
      : stream(provider.make_stream(device)),
        before(provider.make_event(device)),
        behind(provider.make_event(device)) {}
  Status stop(std::unique_ptr<Gate>& gate) noexcept {
    Status status = before->record(*stream);
    if (status.ok()) status = stream->stop(gate);
    return status.ok() ? behind->record(*stream) : status;
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> before, behind;
};

Status passes(Event& event, std::chrono::milliseconds within) noexcept {
  const auto limit = base::Deadline::after(within);
  for (;;) {
    const Status status = event.query();
    if (status.code != Code::in_progress || limit.expired()) return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

std::string DeviceProvider::why_no_gates(int device) const {
  if (std::string why = vendor_->gates().why_not(); !why.empty()) return why;
  Trial& trial = gates_trials_[static_cast<std::size_t>(device)];
  std::call_once(trial.once, [&] { trial.why_not = try_gates(device); });
  return trial.why_not;
}

/// Blocks several streams and opens the last gate first. If one thread of the library serves all streams, it is blocked
/// in an earlier gate, so the last stream can't continue.
std::string DeviceProvider::try_gates(int device) const {
  using namespace std::chrono_literals;
  constexpr std::size_t streams = 4;
  try {
    std::vector<Stopped> stopped;
    std::unique_ptr<Gate> gates[streams];  // destroyed, and so opened, before the streams: their destructors wait
    for (std::size_t i = 0; i < streams; ++i) {
      stopped.emplace_back(*this, device);
      Status status = stopped[i].stop(gates[i]);
      if (status.ok()) status = passes(*stopped[i].before, 2s);
      if (!status.ok()) return status.code == Code::in_progress ? "a stream holds up another" : status.what;
      std::this_thread::sleep_for(1ms);  // this stream reaches its gate before the next stream starts
    }
    for (std::size_t i = streams; i-- > 0;) {
      if (stopped[i].behind->query().code != Code::in_progress) return "its streams don't stop for the host";
      gates[i]->open();
      const Status status = passes(*stopped[i].behind, 2s);
      if (status.code == Code::in_progress)
        return i > 0 ? "a stream that stops for the host holds up others" : "a stream that has stopped doesn't go on";
      if (!status.ok()) return status.what;
    }
    return {};
  } catch (const Error& error) {
    return error.detail().message;
  }
}

}  // namespace hmc::memory
