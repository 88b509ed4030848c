#include "runtime/memory/share_book.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"

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

}  // namespace hmc::memory
