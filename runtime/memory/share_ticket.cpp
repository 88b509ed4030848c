// ShareTicket: the bytes that describe shared memory to another process.
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/memory/device_sharing.hpp"

namespace hmc::memory {

namespace {

constexpr std::uint32_t magic = 0x484d4358;  // "HMCX"

}  // namespace

const char* name_of(SharingKind kind) noexcept {
  switch (kind) {
    case SharingKind::same_process: return "same process";
    case SharingKind::vmm_fd: return "vmm fd";
    case SharingKind::fabric: return "fabric handle";
    case SharingKind::ipc: return "ipc handle";
  }
  return "unknown";
}

base::Bytes ShareTicket::encode() const {
  base::ByteWriter out;
  out.number(magic).number(static_cast<std::uint8_t>(kind)).number(type);
  out.number(process[0]).number(process[1]).number(serial).number(bytes).number(mapped).number(offset);
  out.raw(handle.bytes);
  return out.take();
}

ShareTicket ShareTicket::decode(base::ByteView bytes) {
  base::ByteReader in(bytes);
  ShareTicket ticket;
  const auto found = in.number<std::uint32_t>();
  const auto kind = in.number<std::uint8_t>();
  ticket.kind = static_cast<SharingKind>(kind);
  ticket.type = in.number<MemoryType>();
  for (std::uint64_t& word : ticket.process) word = in.number<std::uint64_t>();
  for (std::uint64_t* field : {&ticket.serial, &ticket.bytes, &ticket.mapped, &ticket.offset})
    *field = in.number<std::uint64_t>();
  const base::ByteView handle = in.raw(sizeof ticket.handle.bytes);
  if (!in.complete() || found != magic || kind > static_cast<std::uint8_t>(SharingKind::ipc))
    throw Error(Code::invalid_argument, "import", "these bytes don't describe shared memory");
  std::memcpy(ticket.handle.bytes, handle.data(), handle.size());
  return ticket;
}

std::string ShareTicket::key() const {
  base::ByteWriter out;
  out.number(static_cast<std::uint8_t>(kind)).number(process[0]).number(process[1]);
  // One IPC handle opens the vendor's whole allocation, which may contain several allocations of a user.
  if (kind == SharingKind::ipc)
    out.raw(handle.bytes);
  else
    out.number(serial);
  return std::string(base::as_text(out.view()));
}

}  // namespace hmc::memory
