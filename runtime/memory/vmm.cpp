// PhysicalMemory and Mapping, over VmmPhysical and VmmMapping.
#include <hmc/vmm.hpp>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <hmc/copy.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/fd_passing.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/memory/device_allocation.hpp"
#include "runtime/memory/device_sharing.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/provider.hpp"

namespace hmc {

using memory::ShareTicket;
using memory::VmmPhysical;

// ---- Mapping

Mapping::Mapping() noexcept = default;
Mapping::Mapping(std::shared_ptr<memory::Allocation> allocation, Access access) noexcept
    : allocation_(std::move(allocation)), access_(access) {}
Mapping::Mapping(Mapping&&) noexcept = default;
Mapping& Mapping::operator=(Mapping&&) noexcept = default;
Mapping::~Mapping() = default;

void* Mapping::data() const noexcept { return allocation_ == nullptr ? nullptr : allocation_->address; }
std::size_t Mapping::size() const noexcept { return allocation_ == nullptr ? 0 : allocation_->bytes; }
void Mapping::unmap() noexcept { allocation_.reset(); }

namespace {

/// The address of a copy's part of the mapping. Throws Error.
std::byte* part_of(const memory::Allocation* mapped, const char* operation, std::size_t offset, const void* other,
                   std::size_t bytes) {
  if (mapped == nullptr) throw Error(Code::closed, operation, "the mapping is empty");
  if (offset > mapped->bytes || bytes > mapped->bytes - offset)
    throw Error(Code::out_of_range, operation,
                fmt::format("{} bytes at offset {} exceed the mapping's {}", bytes, offset, mapped->bytes));
  if (other == nullptr && bytes > 0)
    throw Error(Code::invalid_argument, operation, "the other memory's address is null");
  return mapped->address + offset;
}

void copy_bytes(const char* operation, void* destination, const void* source, std::size_t bytes) {
  if (const base::Status status = memory::copy_between(destination, source, bytes); !status.ok())
    throw Error(status.code, operation, status.what);
}

}  // namespace

void Mapping::write(std::size_t offset, const void* source, std::size_t bytes) {
  std::byte* const at = part_of(allocation_.get(), "Mapping::write", offset, source, bytes);
  if (access_ == Access::read) throw Error(Code::invalid_argument, "Mapping::write", "the mapping permits only reads");
  copy_bytes("Mapping::write", at, source, bytes);
}

void Mapping::read(std::size_t offset, void* destination, std::size_t bytes) const {
  const std::byte* const at = part_of(allocation_.get(), "Mapping::read", offset, destination, bytes);
  copy_bytes("Mapping::read", destination, at, bytes);
}

ConnBuffer Mapping::conn_buffer() const {
  if (allocation_ == nullptr) throw Error(Code::closed, "Mapping::conn_buffer", "the mapping is empty");
  if (access_ == Access::read)
    throw Error(Code::invalid_argument, "Mapping::conn_buffer", "the mapping permits only reads");
  return ConnBuffer(allocation_);
}

// ---- PhysicalMemory

PhysicalMemory::PhysicalMemory() noexcept = default;
PhysicalMemory::PhysicalMemory(const memory::Provider& provider, std::shared_ptr<const VmmPhysical> physical) noexcept
    : provider_(&provider), physical_(std::move(physical)) {}
PhysicalMemory::PhysicalMemory(PhysicalMemory&&) noexcept = default;
PhysicalMemory& PhysicalMemory::operator=(PhysicalMemory&&) noexcept = default;
PhysicalMemory::~PhysicalMemory() = default;

std::size_t PhysicalMemory::size() const noexcept { return physical_ == nullptr ? 0 : physical_->bytes(); }
int PhysicalMemory::device() const noexcept { return physical_ == nullptr ? -1 : physical_->device(); }
MemoryType PhysicalMemory::type() const noexcept {
  return physical_ == nullptr ? MemoryType::DEFAULT : provider_->type();
}
void PhysicalMemory::close() noexcept { physical_.reset(); }

namespace {

const memory::Provider& provider_of(MemoryType type, const char* operation) {
  const memory::Provider& provider = memory::provider_for(type, operation);
  if (memory::resolved(type) != provider.type())
    throw Error(Code::unsupported, operation, fmt::format("{} memory has no handles", name_of(type)));
  return provider;
}

}  // namespace

const VmmPhysical& PhysicalMemory::physical(const char* operation) const {
  if (physical_ == nullptr) throw Error(Code::closed, operation, "the memory was closed");
  return *physical_;
}

PhysicalMemory PhysicalMemory::create(std::size_t bytes, int device, MemoryType type) {
  const memory::Provider& provider = provider_of(type, "PhysicalMemory::create");
  return {provider, provider.create_physical(device, bytes)};
}

PhysicalMemory PhysicalMemory::import_fd(int fd, std::size_t bytes, int device, MemoryType type) {
  const memory::Provider& provider = provider_of(type, "PhysicalMemory::import_fd");
  return {provider, provider.import_physical(device, fd, bytes)};
}

PhysicalMemory PhysicalMemory::import_fabric(const FabricHandle& handle, std::size_t bytes, int device,
                                             MemoryType type) {
  const memory::Provider& provider = provider_of(type, "PhysicalMemory::import_fabric");
  memory::IpcHandle native;
  static_assert(sizeof native.bytes == sizeof handle.bytes);
  std::memcpy(native.bytes, handle.bytes.data(), sizeof native.bytes);
  return {provider, provider.import_physical(device, native, bytes)};
}

int PhysicalMemory::export_fd() const { return physical("PhysicalMemory::export_fd").export_fd().release(); }

FabricHandle PhysicalMemory::export_fabric() const {
  const VmmPhysical& physical = this->physical("PhysicalMemory::export_fabric");
  if (const std::string why = provider_->why_not(memory::SharingKind::fabric); !why.empty())
    throw Error(Code::unsupported, "PhysicalMemory::export_fabric", why);
  const memory::IpcHandle native = physical.export_fabric();
  FabricHandle handle;
  std::memcpy(handle.bytes.data(), native.bytes, sizeof native.bytes);
  return handle;
}

Mapping PhysicalMemory::map(Access access) const {
  (void)physical("PhysicalMemory::map");
  return {provider_->map_physical(physical_, access), access};
}

// ---- the message of a Unix socket: a ShareTicket and a descriptor

namespace {

/// Waits until the socket may be ready. Throws Error at the deadline and at an interrupt of the program.
void wait_for(int socket, short events, base::Deadline deadline, const char* operation) {
  if (deadline.expired()) throw Error(Code::timeout, operation, "the other process hasn't answered in time");
  pollfd ready{socket, events, 0};
  const int slice = static_cast<int>(base::interrupt_interval_ns / 1'000'000);
  const int found = ::poll(&ready, 1, std::min(deadline.left_ms(), slice));
  if ((found < 0 && errno != EINTR) || (ready.revents & POLLNVAL) != 0)
    throw Error(Code::invalid_argument, operation, fmt::format("can't wait for descriptor {}", socket));
  if (base::is_interrupted()) throw Error(Code::timeout, operation, "the program interrupted the wait");
}

base::Deadline deadline_of(Timeout timeout, const char* operation) {
  base::require_timeout(timeout, operation);
  return base::Deadline::after(timeout == job_timeout ? base::Env::from_process().timeout : timeout);
}

[[noreturn]] void throw_io(const char* operation, const base::IoResult& result) {
  if (result.io == base::Io::ended || result.error == EPIPE || result.error == ECONNRESET)
    throw Error(Code::peer_failed, operation, "the other process has closed the socket");
  const bool is_wrong = result.error == ENOTSOCK || result.error == EBADF || result.error == ENOTCONN ||
                        result.error == EDESTADDRREQ || result.error == EINVAL || result.error == EOPNOTSUPP;
  throw Error(is_wrong ? Code::invalid_argument : Code::error, operation,
              fmt::format("the socket refuses the message: {}", std::strerror(result.error)));
}

}  // namespace

void PhysicalMemory::send(int socket, Timeout timeout) const {
  constexpr const char* operation = "PhysicalMemory::send";
  const base::Deadline deadline = deadline_of(timeout, operation);
  const base::UniqueFd descriptor = physical(operation).export_fd();
  ShareTicket ticket;
  ticket.kind = memory::SharingKind::vmm_fd;
  ticket.type = type();
  ticket.bytes = ticket.mapped = size();
  const base::Bytes message = ticket.encode();
  std::vector<int> fds{descriptor.get()};
  for (base::ByteView rest = message; !rest.empty();) {
    const base::IoResult sent = base::send_some(socket, rest, fds);
    if (sent.io == base::Io::failed) throw_io(operation, sent);
    if (sent.io == base::Io::would_block) {
      // poll doesn't report when the kernel accepts descriptors and buffers again.
      if (sent.error != EAGAIN && sent.error != EINTR) (void)::poll(nullptr, 0, 1);
      wait_for(socket, POLLOUT, deadline, operation);
      continue;
    }
    fds.clear();  // went with the first byte
    rest = rest.subspan(sent.bytes);
  }
}

PhysicalMemory PhysicalMemory::receive(int socket, int device, Timeout timeout) {
  constexpr const char* operation = "PhysicalMemory::receive";
  const base::Deadline deadline = deadline_of(timeout, operation);
  base::Bytes message(ShareTicket{}.encode().size());
  std::vector<base::UniqueFd> fds;
  for (std::span<std::byte> rest = message; !rest.empty();) {
    const base::IoResult got = base::receive_some(socket, rest, fds);
    if (got.io == base::Io::failed || got.io == base::Io::ended) throw_io(operation, got);
    if (fds.size() > 1)  // a stranger's descriptors mustn't fill this process's table
      throw Error(Code::invalid_argument, operation, "the message has more than one descriptor");
    if (got.io == base::Io::would_block) {
      wait_for(socket, POLLIN, deadline, operation);
      continue;
    }
    rest = rest.subspan(got.bytes);
  }
  const ShareTicket ticket = ShareTicket::decode(message);
  if (ticket.kind != memory::SharingKind::vmm_fd || fds.size() != 1)
    throw Error(Code::invalid_argument, operation,
                fmt::format("a {} with {} descriptors isn't a message of PhysicalMemory::send", name_of(ticket.kind),
                            fds.size()));
  if (ticket.type == MemoryType::DEFAULT)
    throw Error(Code::invalid_argument, operation, "the message doesn't name the type of the memory");
  return import_fd(fds.front().get(), ticket.mapped, device, ticket.type);
}

}  // namespace hmc
