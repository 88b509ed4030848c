#include "runtime/pool/own_parts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <hmc/error.hpp>

#include "runtime/base/env.hpp"

namespace hmc::pool {

namespace {

base::UniqueFd duplicate(int fd) {
  base::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy)
    throw Error(Code::error, "Pool", fmt::format("a descriptor can't be duplicated: {}", std::strerror(errno)));
  return copy;
}

constexpr std::size_t most_staging_bytes = std::size_t{64} << 20;
constexpr std::size_t largest_half = std::size_t{1} << 20, smallest_half = std::size_t{32} << 10;

/// A word that a peer reads to prove that it can read this process's memory.
struct Nonce {
  std::uint64_t value = static_cast<std::uint64_t>(::getpid()) * 0x9e3779b97f4a7c15U + 0x6f6f6c;
};
const Nonce nonce;

}  // namespace

std::size_t OwnParts::half_of_a_place(int most_members) noexcept {
  const std::size_t half = most_staging_bytes / 2 / static_cast<std::size_t>(most_members);
  return std::clamp(half, smallest_half, largest_half) / 4096 * 4096;
}

OwnParts::OwnParts(const PoolOptions& options) {
  if (options.host_fd >= 0 && options.host_bytes > 0) {  // no staging memory can follow it
    auto segment = base::Segment::map(duplicate(options.host_fd), options.host_bytes);
    segment->populate(0, options.host_bytes);
    exposed_ = host_ = memory::adopt_segment(std::move(segment), 0, options.host_bytes);
  } else if (options.host_bytes > 0 || options.device_bytes > 0) {
    if (options.device_bytes > 0) staging_ = base::round_up(options.host_bytes + 1, 4096);
    const std::size_t places =
        2 * half_of_a_place(options.most_members) * static_cast<std::size_t>(options.most_members);
    const std::size_t bytes = staging_ > 0 ? staging_ + places : options.host_bytes;
    const auto segment = base::Segment::create(bytes);
    if (options.host_bytes > 0)
      segment->populate(0, options.host_bytes);  // the staging memory: at its first use, or by a wire that pins it
    if (options.host_bytes > 0) host_ = memory::adopt_segment(segment, 0, options.host_bytes);
    exposed_ = staging_ > 0 ? memory::adopt_segment(segment, 0, bytes) : host_;
  }
  if (options.device_bytes == 0) return;
  device_type_ = memory::resolved(options.device_type);
  device_ = memory::provider_for(device_type_)
                .allocate(options.device, options.device_bytes, memory::backing_for(options.device_type));
}

Shared OwnParts::share() const {
  Shared mine;
  base::ByteWriter out;
  out.number(static_cast<std::uint8_t>(host_ != nullptr ? 1 : 0));
  if (host_ != nullptr) mine.fds.push_back(duplicate(host_->segment->fd()));
  out.number(host_ != nullptr ? host_->segment->file_offset() + host_->segment_offset : std::uint64_t{0});
  out.number(static_cast<std::int32_t>(::getpid()));
  out.number(host_ != nullptr ? reinterpret_cast<std::uint64_t>(host_->address) : 0);
  out.number(reinterpret_cast<std::uint64_t>(&nonce.value)).number(nonce.value);
  std::vector<std::pair<base::Bytes, bool>> tickets;
  std::string why;
  if (device_ != nullptr && device_->segment != nullptr) {  // there is no accelerator
    mine.fds.push_back(duplicate(device_->segment->fd()));
    tickets.emplace_back(base::ByteWriter().number(std::uint64_t{device_->segment_offset}).take(), true);
  } else if (device_ != nullptr) {
    for (const memory::SharingKind kind : memory::sharing_kinds) {
      try {
        memory::Exported exported = device_->provider->share(device_, kind);
        tickets.emplace_back(std::move(exported.bytes), static_cast<bool>(exported.fd));
        if (exported.fd) mine.fds.push_back(std::move(exported.fd));
      } catch (const Error& error) {
        why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", memory::name_of(kind), error.detail().message);
      }
    }
  }
  out.number(static_cast<std::uint32_t>(tickets.size()));
  for (const auto& [bytes, has_fd] : tickets) out.number(static_cast<std::uint8_t>(has_fd ? 1 : 0)).blob(bytes);
  mine.bytes = out.text(why).take();
  return mine;
}

namespace {

std::shared_ptr<memory::Allocation> import_device(memory::Exported exported, const SharedParts::Expected& expected) {
  if (expected.device_type == MemoryType::CPU) {
    const auto offset = base::ByteReader(exported.bytes).number<std::uint64_t>();
    return memory::adopt_segment(base::Segment::map(std::move(exported.fd), expected.device_bytes, offset), 0,
                                 expected.device_bytes);
  }
  const memory::Provider& provider = memory::provider_for(expected.device_type);
  // This process may number devices differently. A number that doesn't exist here is replaced by device 0.
  const int count = static_cast<int>(provider.devices().size());
  return provider.import(std::move(exported), expected.device < count ? expected.device : 0);
}

}  // namespace

SharedParts SharedParts::open(Shared theirs, const Expected& expected) {
  base::ByteReader in(theirs.bytes);
  SharedParts parts;
  std::size_t next_fd = 0;
  const auto take_fd = [&] {
    if (next_fd >= theirs.fds.size()) throw Error(Code::refused, "Pool::join", "a member sent too few descriptors");
    return std::move(theirs.fds[next_fd++]);
  };
  if (in.number<std::uint8_t>() != 0) parts.host = take_fd();
  parts.host_offset = in.number<std::uint64_t>();
  parts.process = in.number<std::int32_t>();
  parts.host_address = in.number<std::uint64_t>();
  parts.nonce_address = in.number<std::uint64_t>();
  parts.nonce = in.number<std::uint64_t>();
  struct stat info {};
  if (parts.host &&
      (::fstat(parts.host.get(), &info) != 0 || expected.host_bytes > static_cast<std::uint64_t>(info.st_size) ||
       parts.host_offset > static_cast<std::uint64_t>(info.st_size) - expected.host_bytes))
    throw Error(Code::refused, "Pool::join", "a member's shared memory is smaller than its part");
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const bool has_fd = in.number<std::uint8_t>() != 0;
    const base::ByteView ticket = in.blob();
    memory::Exported exported{{ticket.begin(), ticket.end()}, has_fd ? take_fd() : base::UniqueFd()};
    if (parts.device != nullptr) continue;
    try {
      parts.device = import_device(std::move(exported), expected);
      parts.device_why = "mapped in this process";
    } catch (const Error& error) {
      parts.device_why += fmt::format("{}{}", parts.device_why.empty() ? "" : "; ", error.detail().message);
    }
  }
  const std::string why = in.text();
  if (!in.complete()) throw Error(Code::refused, "Pool::join", "a member's shared memory can't be read");
  if (parts.device == nullptr) parts.device_why += (parts.device_why.empty() ? "" : "; ") + why;
  return parts;
}

}  // namespace hmc::pool
