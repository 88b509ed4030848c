// Sharing of device memory between processes, for every vendor that supports it.
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/fork.hpp"
#include "runtime/memory/device_allocation.hpp"
#include "runtime/memory/device_provider.hpp"
#include "runtime/memory/device_sharing.hpp"

namespace hmc::memory {

ShareBook::ShareBook() {
  if (::getrandom(random_.data(), sizeof random_, 0) != static_cast<ssize_t>(sizeof random_))
    throw Error(Code::error, "getrandom", std::strerror(errno));
}

// Includes the pid: a forked child is another process, and doesn't own the parent's exports.
std::array<std::uint64_t, 2> ShareBook::process() const noexcept {
  return {random_[0], random_[1] ^ static_cast<std::uint64_t>(::getpid())};
}

std::uint64_t ShareBook::next_serial() noexcept {
  const std::scoped_lock lock(mutex_);
  return ++serial_;
}

void ShareBook::gave(std::uint64_t serial, const std::shared_ptr<Allocation>& allocation) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(given_, [](const auto& each) { return each.second.expired(); });
  given_[serial] = allocation;
}

std::shared_ptr<Allocation> ShareBook::own(const ShareTicket& ticket) {
  if (ticket.process != process()) return nullptr;
  const std::scoped_lock lock(mutex_);
  const auto found = given_.find(ticket.serial);
  return found == given_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Opened> ShareBook::open(const std::string& key,
                                        const std::function<std::unique_ptr<Opened>()>& opener) {
  std::unique_lock lock(table_->mutex);
  auto found = table_->entries.find(key);
  if (found == table_->entries.end()) found = table_->entries.emplace(key, Entry{}).first;
  if (found->second.opened == nullptr) {
    try {
      found->second.opened = opener();
    } catch (...) {
      table_->entries.erase(found);
      throw;
    }
  }
  // An explicit use count: a weak_ptr expires before its object is closed, so a concurrent open() would open a handle
  // that is still open.
  const auto leave = [table = table_, key](Opened*) {
    const std::scoped_lock leaving(table->mutex);
    const auto entry = table->entries.find(key);
    if (--entry->second.holders == 0) table->entries.erase(entry);
  };
  ++found->second.holders;
  Opened* const opened = found->second.opened.get();
  lock.unlock();
  return {opened, leave};
}

std::string DeviceProvider::why_not(SharingKind kind) const {
  if (!why_not().empty()) return why_not();
  const auto tried = [](Trial& trial, auto&& attempt) {
    std::call_once(trial.once, [&] { trial.why_not = attempt(); });
    return trial.why_not;
  };
  switch (kind) {
    case SharingKind::same_process: return {};
    case SharingKind::vmm_fd:
      if (vendor_->vmm() == nullptr) return vendor_->why_no_vmm();
      return tried(vmm_trial_, [&] { return try_vmm(); });
    case SharingKind::fabric:
      if (vendor_->vmm() == nullptr) return vendor_->why_no_vmm();
      return tried(fabric_trial_, [&] { return try_fabric(); });
    case SharingKind::ipc:
      if (vendor_->ipc() == nullptr) return fmt::format("HMC doesn't use {}'s handles between processes", name());
      return tried(ipc_trial_, [&] { return try_ipc(); });
  }
  return "no such kind";
}

namespace {

constexpr std::uint64_t trial_word = 0x1122334455667788;

/// Returns an empty text if a word that is written through one mapping can be read through the other.
std::string same_memory(const DeviceProvider& provider, void* written, void* read) {
  std::uint64_t back = 0;
  if (const auto status = provider.copy_from_host(written, &trial_word, sizeof trial_word); !status.ok())
    return status.what;
  if (const auto status = provider.copy_to_host(&back, read, sizeof back); !status.ok()) return status.what;
  return back == trial_word ? "" : "what was written through one mapping isn't seen through another";
}

}  // namespace

// Tests the whole path in one process: create, export, import, map.
std::string DeviceProvider::try_vmm() const {
  if (std::string why = vendor_->vmm()->why_not(0); !why.empty()) return why;
  try {
    const auto memory = VmmMapping::map(VmmPhysical::create(*vendor_, failures_, 0, 1, false));
    const base::UniqueFd fd = memory->physical()->export_fd();
    const auto again = VmmMapping::map(VmmPhysical::import(*vendor_, failures_, 0, fd.get(), 1));
    return same_memory(*this, memory->address(), again->address());
  } catch (const Error& error) {
    return error.detail().message;
  }
}

// A trial is needed: a device may report fabric handles that the system doesn't permit this process to use.
std::string DeviceProvider::try_fabric() const {
  if (std::string why = vendor_->vmm()->why_no_fabric(0); !why.empty()) return why;
  try {
    const auto memory = VmmMapping::map(VmmPhysical::create(*vendor_, failures_, 0, 1, true));
    const IpcHandle handle = memory->physical()->export_fabric();
    const auto again = VmmMapping::map(VmmPhysical::import(*vendor_, failures_, 0, handle, 1));
    return same_memory(*this, memory->address(), again->address());
  } catch (const Error& error) {
    return error.detail().message;
  }
}

// Only another process can open a handle. So this only tests that a handle can be obtained. The open is tested when a
// pair of ranks connects.
std::string DeviceProvider::try_ipc() const {
  try {
    const auto memory = make(0, 1, Backing::plain);
    IpcHandle handle;
    void* start = nullptr;
    std::size_t bytes = 0;
    failures_.check(on_device(*vendor_, 0, [&] { return vendor_->ipc()->get(handle, memory->address); }), "share");
    failures_.check(on_device(*vendor_, 0, [&] { return vendor_->ipc()->range(start, bytes, memory->address); }),
                    "share");
    return {};
  } catch (const Error& error) {
    return error.detail().message;
  }
}

Exported DeviceProvider::share(const std::shared_ptr<Allocation>& allocation, SharingKind kind) const {
  const auto own = std::dynamic_pointer_cast<OwnAllocation>(allocation);
  if (own == nullptr || own->provider != this)
    throw Error(Code::invalid_argument, "share", "this memory was imported; only its owner can share it");
  if (const std::string why = why_not(kind); !why.empty()) throw Error(Code::unsupported, "share", why);

  Exported exported;
  ShareTicket ticket;
  ticket.kind = kind;
  ticket.type = type();
  ticket.process = book_.process();
  ticket.serial = own->serial;
  ticket.bytes = own->bytes;
  const auto physical = own->physical();
  if ((kind == SharingKind::vmm_fd || kind == SharingKind::fabric) && physical == nullptr)
    throw Error(Code::unsupported, "share", "this memory wasn't allocated to be shared by descriptor or fabric");
  if (kind == SharingKind::vmm_fd) {
    exported.fd = physical->export_fd();
    ticket.mapped = physical->bytes();
  } else if (kind == SharingKind::fabric) {
    ticket.handle = physical->export_fabric();
    ticket.mapped = physical->bytes();
  } else if (kind == SharingKind::ipc) {
    if (own->backing != Backing::plain)
      throw Error(Code::unsupported, "share", fmt::format("{} memory has no handle", name_of(own->backing)));
    void* start = nullptr;
    std::size_t bytes = 0;
    const auto& calls = *vendor_->ipc();
    failures_.check(on_device(*vendor_, own->device, [&] { return calls.get(ticket.handle, own->address); }), "share");
    failures_.check(on_device(*vendor_, own->device, [&] { return calls.range(start, bytes, own->address); }), "share");
    ticket.offset = static_cast<std::uint64_t>(own->address - static_cast<std::byte*>(start));
  }
  book_.gave(own->serial, allocation);
  exported.bytes = ticket.encode();
  return exported;
}

std::shared_ptr<Allocation> DeviceProvider::import(Exported exported, int device) const {
  check_device(device, "import");
  const ShareTicket ticket = ShareTicket::decode(exported.bytes);
  if (ticket.type != type())
    throw Error(Code::invalid_argument, "import", fmt::format("this is {} memory", name_of(ticket.type)));
  if (auto own = book_.own(ticket)) return own;
  if (ticket.kind == SharingKind::same_process)
    throw Error(Code::unsupported, "import", "this memory is another process's, or was freed");
  if (const std::string why = why_not(ticket.kind); !why.empty()) throw Error(Code::unsupported, "import", why);
  if (ticket.kind == SharingKind::vmm_fd && !exported.fd)
    throw Error(Code::invalid_argument, "import", "the descriptor is missing");

  // Each device of this process has its own mapping.
  const std::string key = ticket.key() + static_cast<char>(device);
  auto opened = book_.open(key, [&]() -> std::unique_ptr<Opened> {
    if (ticket.kind == SharingKind::ipc) return std::make_unique<OpenedIpc>(*vendor_, failures_, device, ticket.handle);
    if (ticket.kind == SharingKind::fabric)
      return std::make_unique<OpenedVmm>(
          VmmMapping::map(VmmPhysical::import(*vendor_, failures_, device, ticket.handle, ticket.mapped)));
    return std::make_unique<OpenedVmm>(
        VmmMapping::map(VmmPhysical::import(*vendor_, failures_, device, exported.fd.get(), ticket.mapped)));
  });
  auto imported = base::make_owned<ImportedAllocation>(opened);
  imported->address = opened->start + ticket.offset;
  imported->bytes = ticket.bytes;
  imported->device = device;
  imported->provider = this;
  imported->backing = ticket.kind == SharingKind::ipc ? Backing::plain : Backing::vmm;
  announce(*imported);
  return imported;
}

// ---- <hmc/vmm.hpp>

std::shared_ptr<const VmmPhysical> DeviceProvider::create_physical(int device, std::size_t bytes) const {
  check_device(device, "allocate");
  if (const std::string why = why_not(Backing::vmm); !why.empty()) throw Error(Code::unsupported, "allocate", why);
  return VmmPhysical::create(*vendor_, failures_, device, bytes, why_not(SharingKind::fabric).empty());
}

std::shared_ptr<const VmmPhysical> DeviceProvider::import_physical(int device, int fd, std::size_t bytes) const {
  check_device(device, "import");
  if (const std::string why = why_not(SharingKind::vmm_fd); !why.empty()) throw Error(Code::unsupported, "import", why);
  auto physical = VmmPhysical::import(*vendor_, failures_, device, fd, bytes);
  (void)VmmMapping::map(physical);  // drivers find a wrong size or device only when they map the memory
  return physical;
}

std::shared_ptr<const VmmPhysical> DeviceProvider::import_physical(int device, const IpcHandle& handle,
                                                                   std::size_t bytes) const {
  check_device(device, "import");
  if (const std::string why = why_not(SharingKind::fabric); !why.empty()) throw Error(Code::unsupported, "import", why);
  auto physical = VmmPhysical::import(*vendor_, failures_, device, handle, bytes);
  (void)VmmMapping::map(physical);
  return physical;
}

std::shared_ptr<Allocation> DeviceProvider::map_physical(std::shared_ptr<const VmmPhysical> physical,
                                                         Access access) const {
  const int device = physical->device();
  const std::size_t bytes = physical->bytes();
  auto mapped = base::make_owned<VmmAllocation>(VmmMapping::map(std::move(physical), {}, access), device, bytes);
  mapped->provider = this;
  mapped->serial = book_.next_serial();
  announce(*mapped);
  return mapped;
}

// ---- one reserved address range for the parts of several ranks

std::shared_ptr<VmmRange> DeviceProvider::reserve(int device, std::size_t places, std::size_t bytes) const {
  check_device(device, "reserve");
  if (const std::string why = why_not(SharingKind::vmm_fd); !why.empty())
    throw Error(Code::unsupported, "reserve", why);
  return VmmRange::reserve(*vendor_, failures_, device, places, bytes);
}

std::shared_ptr<Allocation> DeviceProvider::import_into(const std::shared_ptr<VmmRange>& range, std::size_t place,
                                                        const Exported& exported, int device) const {
  check_device(device, "import");
  const ShareTicket ticket = ShareTicket::decode(exported.bytes);
  if (ticket.type != type() || ticket.kind != SharingKind::vmm_fd || range == nullptr)
    throw Error(Code::invalid_argument, "import", "only memory shared by descriptor goes into a range");
  std::shared_ptr<PlacedAllocation> placed;
  if (const auto own = book_.own(ticket)) {
    const auto* const made_here = dynamic_cast<const OwnAllocation*>(own.get());
    if (made_here == nullptr || made_here->physical() == nullptr)
      throw Error(Code::invalid_argument, "import", "this memory wasn't allocated to be mapped anew");
    placed = base::make_owned<PlacedAllocation>(VmmMapping::map(made_here->physical(), {range, place}), own);
    device = own->device;
  } else {
    if (!exported.fd) throw Error(Code::invalid_argument, "import", "the descriptor is missing");
    placed = base::make_owned<PlacedAllocation>(
        VmmMapping::map(VmmPhysical::import(*vendor_, failures_, device, exported.fd.get(), ticket.mapped),
                        {range, place}),
        nullptr);
  }
  placed->bytes = ticket.bytes;
  placed->device = device;
  placed->provider = this;
  announce(*placed);
  return placed;
}

}  // namespace hmc::memory
