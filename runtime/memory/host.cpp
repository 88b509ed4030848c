#include "runtime/memory/host.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/memory/stage.hpp"

namespace hmc::memory {

namespace {

class HostStream final : public Stream {
 public:
  int device() const noexcept override { return 0; }
  void* native() const noexcept override { return nullptr; }
  base::Status synchronize() noexcept override { return {}; }
  base::Status query() noexcept override { return {}; }
  base::Status wait(Event& event) noexcept override { return event.synchronize(); }
  base::Status stop(std::unique_ptr<Gate>&) noexcept override {
    return base::Status::failure(Code::unsupported, "host streams have no gates");
  }
};

class HostEvent final : public Event {
 public:
  base::Status record(Stream& stream) noexcept override { return stream.synchronize(); }
  base::Status synchronize() noexcept override { return {}; }
  base::Status query() noexcept override { return {}; }
  void* native() const noexcept override { return nullptr; }
};

void check_device(int device) {
  if (device != 0)
    throw Error(Code::invalid_argument, "host memory", fmt::format("host memory has device 0 only, not {}", device));
}

/// Binds pages before they are populated. Uses the numeric constants of mbind(2), because its header is part of
/// libnuma.
void bind_to_node(std::byte* address, std::size_t bytes, int node) {
#ifdef SYS_mbind
  constexpr int bind = 2;
  constexpr int bits = 1024;
  unsigned long mask[static_cast<std::size_t>(bits) / (8 * sizeof(unsigned long))] = {};
  if (node < bits) {
    const auto at = static_cast<std::size_t>(node);
    mask[at / (8 * sizeof(unsigned long))] |= 1UL << (at % (8 * sizeof(unsigned long)));
    if (::syscall(SYS_mbind, address, bytes, bind, mask, bits, 0) == 0) return;
  }
  throw Error(
      Code::invalid_argument, "allocate",
      fmt::format("memory can't be bound to NUMA node {}: {}", node, std::strerror(node < bits ? errno : EINVAL)));
#else
  (void)address, (void)bytes;
  throw Error(Code::unsupported, "allocate", fmt::format("this system can't bind memory to NUMA node {}", node));
#endif
}

}  // namespace

std::vector<DeviceInfo> HostProvider::devices() const { return {{0, "host memory", 0}}; }

std::string HostProvider::why_not(Backing backing) const {
  if (backing == Backing::best || backing == Backing::plain) return {};
  return fmt::format("host has no {} memory; a device's provider does", name_of(backing));
}

/// Programs pass the device of their accelerator also for host memory, so the number is ignored.
std::shared_ptr<Allocation> HostProvider::allocate(int, std::size_t bytes, Backing backing) const {
  if (const std::string why = why_not(backing); !why.empty()) throw Error(Code::unsupported, "allocate", why);
  return allocate_at(bytes, {});
}

std::shared_ptr<Allocation> HostProvider::allocate_at(std::size_t bytes, const HostPlacement& placement) const {
  auto segment = base::Segment::create(bytes);
  if (placement.numa_node >= 0) bind_to_node(segment->base(), segment->bytes(), placement.numa_node);
  // Segment::create requests huge pages by default; the system decides whether shared memory gets them.
  if (placement.pages == HostPlacement::Pages::small)
    (void)::madvise(segment->base(), segment->bytes(), MADV_NOHUGEPAGE);
  segment->populate(0, bytes);
  return adopt_segment(std::move(segment), 0, bytes);
}

std::shared_ptr<Allocation> HostProvider::own(void*, int, Backing) const {
  throw Error(Code::unsupported, "own", "the host's memory comes from segments");
}

std::shared_ptr<Allocation> HostProvider::borrow(void* address, std::size_t bytes, int device) const {
  check_device(device);
  auto borrowed = std::make_shared<Allocation>();
  borrowed->address = static_cast<std::byte*>(address);
  borrowed->bytes = bytes;
  borrowed->provider = this;
  borrowed->backing = Backing::plain;
  borrowed->host_accessible = true;
  return borrowed;
}

std::unique_ptr<Stream> HostProvider::make_stream(int device) const {
  check_device(device);
  return std::make_unique<HostStream>();
}
std::unique_ptr<Stream> HostProvider::borrow_stream(int device, void*) const { return make_stream(device); }
std::unique_ptr<Event> HostProvider::make_event(int device) const {
  check_device(device);
  return std::make_unique<HostEvent>();
}

base::Status HostProvider::copy(const Transfer& transfer) const noexcept {
  if (transfer.width == 0) return {};
  for (std::size_t row = 0; row < transfer.height; ++row)
    std::memmove(static_cast<std::byte*>(transfer.destination) + row * transfer.destination_pitch,
                 static_cast<const std::byte*>(transfer.source) + row * transfer.source_pitch, transfer.width);
  return {};
}
base::Status HostProvider::copy_async(const Transfer& transfer, Stream& stream) const noexcept {
  (void)stream;
  return copy(transfer);
}
base::Status HostProvider::copy_within(void* destination, const void* source, std::size_t bytes) const noexcept {
  return copy({destination, source, bytes});
}

// An address that no device provider recognizes is host memory, so no lookup is needed.
PointerInfo HostProvider::query(const void*) const noexcept { return {}; }

std::unique_ptr<Stage> HostProvider::take_stage(int) const {
  throw Error(Code::unsupported, "copy", "host memory needs no staging");
}
void HostProvider::give_back(std::unique_ptr<Stage>) const noexcept {}
HostBlock HostProvider::take_block(int, std::size_t) const {
  throw Error(Code::unsupported, "copy", "host memory needs no staging");
}
void HostProvider::give_back(HostBlock) const noexcept {}
std::shared_ptr<void> HostProvider::pin(int, void*, std::size_t) const {
  throw Error(Code::unsupported, "pin", "the host has no driver that pins memory");
}

std::string HostProvider::why_not(SharingKind kind) const {
  return kind == SharingKind::same_process ? "" : "host memory is shared as segments";
}
Exported HostProvider::share(const std::shared_ptr<Allocation>&, SharingKind) const {
  throw Error(Code::unsupported, "share", "other processes can't map host memory that HMC didn't allocate");
}
std::shared_ptr<Allocation> HostProvider::import(Exported, int) const {
  throw Error(Code::unsupported, "import", "host memory is shared as segments");
}

}  // namespace hmc::memory
