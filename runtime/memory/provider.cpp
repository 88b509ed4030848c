#include "runtime/memory/provider.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include <hmc/error.hpp>

#include "runtime/memory/device_provider.hpp"
#include "runtime/memory/host.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/stage.hpp"

namespace hmc::memory {

const char* name_of(Backing backing) noexcept {
  switch (backing) {
    case Backing::best: return "best";
    case Backing::plain: return "plain";
    case Backing::vmm: return "vmm";
    case Backing::stream_ordered: return "stream-ordered";
    case Backing::pinned: return "pinned";
    case Backing::managed: return "managed";
  }
  return "unknown";
}

std::shared_ptr<VmmRange> Provider::reserve(int, std::size_t, std::size_t) const {
  throw Error(Code::unsupported, "reserve", name() + " memory isn't shared by descriptor");
}
std::shared_ptr<Allocation> Provider::import_into(const std::shared_ptr<VmmRange>&, std::size_t, const Exported&,
                                                  int) const {
  throw Error(Code::unsupported, "import", name() + " memory isn't shared by descriptor");
}
std::shared_ptr<const VmmPhysical> Provider::create_physical(int, std::size_t) const {
  throw Error(Code::unsupported, "allocate", why_not(SharingKind::vmm_fd));
}
std::shared_ptr<const VmmPhysical> Provider::import_physical(int, int, std::size_t) const {
  throw Error(Code::unsupported, "import", why_not(SharingKind::vmm_fd));
}
std::shared_ptr<const VmmPhysical> Provider::import_physical(int, const IpcHandle&, std::size_t) const {
  throw Error(Code::unsupported, "import", why_not(SharingKind::fabric));
}
std::shared_ptr<Allocation> Provider::map_physical(std::shared_ptr<const VmmPhysical>, Access) const {
  throw Error(Code::unsupported, "map", why_not(SharingKind::vmm_fd));
}

namespace detail {
std::atomic<bool> devices_present{false};
}

namespace {

const HostProvider& host() {
  static const HostProvider provider;  // stateless
  return provider;
}

/// The device providers of this process. Each library is opened at the first use of its provider, because opening
/// takes up to a second and most ranks use at most one. Never destroyed: memory may be freed after main.
class Registry {
 public:
  using Open = std::unique_ptr<Vendor> (*)();
  static Registry& instance() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  const DeviceProvider& get(std::size_t which) {
    Slot& slot = slots_[which];
    std::call_once(slot.once, [&] {
      slot.owned = std::make_unique<DeviceProvider>(openers[which].open());
      slot.opened.store(slot.owned.get(), std::memory_order_release);  // pairs with opened()'s acquire
      if (slot.owned->why_not().empty()) detail::devices_present.store(true);
    });
    return *slot.owned;
  }
  /// Null unless get() or peek() has opened the library.
  const DeviceProvider* opened(std::size_t which) const noexcept {
    return slots_[which].opened.load(std::memory_order_acquire);  // pairs with get()'s release
  }
  /// Null if the process hasn't loaded the library: then no address of this process belongs to it. `loads`: of Library.
  const DeviceProvider* peek(std::size_t which, unsigned long long loads) noexcept {
    if (const DeviceProvider* const found = opened(which)) return found;
    // OpenCL memory has addresses only if HMC allocated it, which opens the library.
    if (openers[which].type == MemoryType::OPENCL) return nullptr;
    auto& absent_at = slots_[which].absent_at;  // relaxed: `loads` orders nothing
    if (absent_at.load(std::memory_order_relaxed) == loads) return nullptr;
    if (!Library::is_loaded(openers[which].library)) {
      absent_at.store(loads, std::memory_order_relaxed);
      return nullptr;
    }
    try {
      return &get(which);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  struct Opener {
    MemoryType type;
    const LibraryNames& library;
    Open open;
  };
  static constexpr std::array<Opener, 6> openers{{{MemoryType::NVIDIA_GPU, cuda_library, &open_cuda},
                                                  {MemoryType::AMD_GPU, hip_library, &open_hip},
                                                  {MemoryType::MOORE_GPU, musa_library, &open_musa},
                                                  {MemoryType::CAMBRICON_MLU, cnrt_library, &open_cnrt},
                                                  {MemoryType::ASCEND_NPU, acl_library, &open_acl},
                                                  {MemoryType::OPENCL, opencl_library, &open_opencl}}};

 private:
  struct Slot {
    std::once_flag once;
    std::unique_ptr<DeviceProvider> owned;
    std::atomic<const DeviceProvider*> opened{nullptr};
    std::atomic<unsigned long long> absent_at{0};  // the count of loads at which the library wasn't loaded
  };
  std::array<Slot, openers.size()> slots_;
};

MemoryType device_type_of(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::NVIDIA_PINNED:
    case MemoryType::NVIDIA_MANAGED: return MemoryType::NVIDIA_GPU;
    case MemoryType::AMD_PINNED:
    case MemoryType::AMD_MANAGED: return MemoryType::AMD_GPU;
    default: return type;
  }
}

}  // namespace

std::span<const Provider* const> all_providers() {
  static const auto all = [] {
    std::array<const Provider*, Registry::openers.size() + 1> found{&host()};
    for (std::size_t i = 0; i < Registry::openers.size(); ++i) found[i + 1] = &Registry::instance().get(i);
    return found;
  }();
  return all;
}

std::vector<ProviderInfo> list_providers() {
  std::vector<ProviderInfo> list;
  for (const Provider* provider : all_providers()) {
    const std::string why = provider->why_not();
    if (provider == &host()) {
      list.push_back({"host", true, "memfd-backed, device 0"});
    } else if (!why.empty()) {
      list.push_back({provider->name(), false, why});
    } else {
      const LibraryInfo library = provider->library();
      list.push_back({provider->name(), true,
                      fmt::format("{} devices, {}{}{}", provider->devices().size(), library.version,
                                  library.version.empty() ? "" : ", ", library.path)});
    }
  }
  return list;
}

MemoryType resolved(MemoryType type) {
  if (type != MemoryType::DEFAULT) return type;
  static const MemoryType best = [] {
    for (std::size_t i = 0; i < Registry::openers.size(); ++i) {
      const MemoryType each = Registry::openers[i].type;  // the order is documented at MemoryType
      if (each != MemoryType::OPENCL && Registry::instance().get(i).why_not().empty()) return each;
    }
    return MemoryType::CPU;
  }();
  return best;
}

const Provider& provider_for(MemoryType type, const char* operation) {
  type = resolved(type);
  if (type == MemoryType::CPU) return host();
  const MemoryType device_type = device_type_of(type);
  for (std::size_t i = 0; i < Registry::openers.size(); ++i) {
    if (Registry::openers[i].type != device_type) continue;
    const DeviceProvider& provider = Registry::instance().get(i);
    if (provider.why_not().empty()) return provider;
    throw Error(Code::unsupported, operation, fmt::format("no {} memory here: {}", name_of(type), provider.why_not()),
                "hmcinfo devices lists the kinds of memory that this machine has");
  }
  throw Error(Code::unsupported, operation,
              fmt::format("there is no kind of memory with number {}", static_cast<int>(type)));
}

Backing backing_for(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::NVIDIA_PINNED:
    case MemoryType::AMD_PINNED: return Backing::pinned;
    case MemoryType::NVIDIA_MANAGED:
    case MemoryType::AMD_MANAGED: return Backing::managed;
    default: return Backing::best;
  }
}

MemoryType type_of(const Provider& provider, Backing backing) noexcept {
  for (const MemoryType each :
       {MemoryType::NVIDIA_PINNED, MemoryType::NVIDIA_MANAGED, MemoryType::AMD_PINNED, MemoryType::AMD_MANAGED})
    if (device_type_of(each) == provider.type() && backing_for(each) == backing) return each;
  return provider.type();
}

namespace {

/// HMC's own memory is in KnownRanges. For any other address each call queries the drivers, because no driver reports
/// when an address becomes another kind of memory. `find` returns the provider of an opener, or null.
template <typename Find> Owner owner_among(const void* address, Find&& find) noexcept {
  Owner known;
  if (KnownRanges::instance().find(address, known)) return known;
  if (on_this_stack(address)) return {&host(), {}};
  for (std::size_t i = 0; i < Registry::openers.size(); ++i) {
    const DeviceProvider* const provider = find(i);
    if (provider == nullptr) continue;
    const PointerInfo info = provider->query(address);
    if (info.kind != PointerKind::unknown) return {provider, info};
  }
  return {&host(), {}};
}

}  // namespace

Owner owner_of(const void* address) noexcept {
  unsigned long long loads = 0;
  return owner_among(address, [&](std::size_t i) {
    if (loads == 0) loads = Library::loads();
    return Registry::instance().peek(i, loads);
  });
}

Owner known_owner_of(const void* address) noexcept {
  if (!devices_present()) return {&host(), {}};
  return owner_among(address, [](std::size_t i) { return Registry::instance().opened(i); });
}

Owner owner_of(const Allocation& allocation) noexcept {
  if (allocation.provider == &host()) return {&host(), {}};
  return {allocation.provider,
          {allocation.host_accessible ? PointerKind::pinned : PointerKind::device, allocation.device}};
}

void look_for_devices() noexcept {
  const unsigned long long loads = Library::loads();
  for (std::size_t i = 0; i < Registry::openers.size(); ++i) (void)Registry::instance().peek(i, loads);
}

std::shared_ptr<Allocation> adopt_segment(std::shared_ptr<base::Segment> segment, std::size_t offset,
                                          std::size_t bytes) {
  auto allocation = std::make_shared<Allocation>();
  allocation->address = segment->base() + offset;
  allocation->bytes = bytes;
  allocation->provider = &host();
  allocation->backing = Backing::plain;
  allocation->host_accessible = true;
  allocation->segment = std::move(segment);
  allocation->segment_offset = offset;
  const base::Segment& whole = *allocation->segment;
  allocation->known.announce(whole.base(), whole.bytes(), &host(), PointerKind::unknown, -1);
  return allocation;
}

namespace {

/// Copies between two devices that can't access each other, staged through the host in pieces. The source device copies
/// the next piece while the destination device copies the current one.
base::Status through_host(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept {
  try {
    const StageLease stage(*from.provider, from.info.device);
    const std::size_t piece = staged_piece(bytes);
    OutPieces pieces(*stage, source, bytes, piece);
    for (std::size_t done = 0; done < bytes; done += piece) {
      const std::byte* at = nullptr;
      if (const auto status = pieces.next(at); !status.ok()) return status;
      const auto status =
          to.provider->copy_from_host(static_cast<std::byte*>(destination) + done, at, std::min(piece, bytes - done));
      if (!status.ok()) return status;
    }
    return {};
  } catch (const Error& error) {
    return base::Status::failure(error.code(), "no host memory or stream to copy between two devices through");
  } catch (const std::exception&) {
    return base::Status::failure(Code::out_of_memory, "no host memory to copy between two devices through");
  }
}

}  // namespace

base::Status copy_between(void* destination, const void* source, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  return copy_between(destination, owner_of(destination), source, owner_of(source), bytes);
}

base::Status copy_between(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  if (is_host_accessible(to) && is_host_accessible(from))
    return provider_for(MemoryType::CPU).copy_within(destination, source, bytes);
  if (is_host_accessible(from)) return to.provider->copy_from_host(destination, source, bytes);
  if (is_host_accessible(to)) return from.provider->copy_to_host(destination, source, bytes);
  if (to.provider != from.provider) return through_host(destination, to, source, from, bytes);
  if (to.info.device == from.info.device) return to.provider->copy_within(destination, source, bytes);
  const auto status = to.provider->copy({.destination = destination,
                                         .source = source,
                                         .width = bytes,
                                         .direction = Direction::device_to_device,
                                         .destination_device = to.info.device,
                                         .source_device = from.info.device});
  if (status.code != Code::unsupported) return status;
  return through_host(destination, to, source, from, bytes);
}

}  // namespace hmc::memory
