#include "runtime/device/device_part.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <hmc/error.hpp>

namespace hmc::device {

namespace {

/// Interval at which a waiting rank reads its word even without a write by a verb: kernels' stores aren't counted.
constexpr std::int64_t look_again_ns = 1'000'000;

void require(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "Window::create", status.what == nullptr ? "copy" : status.what);
}

}  // namespace

DeviceOffer DeviceOffer::decode(base::ByteView bytes, int rank) {
  auto offer = base::decode<DeviceOffer>(bytes);
  if (!offer || offer->probe_bytes > sizeof offer->probe)
    throw Error(Code::refused, "Window::create", fmt::format("rank {} sent a malformed offer of its memory", rank));
  return *std::move(offer);
}

DevicePart::DevicePart(const rma::Fabric& fabric, std::shared_ptr<memory::Allocation> allocation)
    : fabric_(fabric), memory_(std::move(allocation)) {
  const ControlShape shape(fabric.size);
  control_ = base::Segment::create(shape.bytes());
  control_->populate(0, shape.bytes());
  const auto& own = memory_.allocation();
  offer_.type = own->provider->type();
  offer_.device = own->device;
  for (const memory::SharingKind kind : memory::sharing_kinds) {
    DeviceOffer::Ticket mine;
    mine.kind = kind;
    try {
      memory::Exported exported = own->provider->share(own, kind);
      mine.ticket = std::move(exported.bytes);
      if (exported.fd) descriptor_ = std::move(exported.fd);
    } catch (const Error& error) {
      mine.why_not = error.detail().message;
    }
    offer_.tickets.push_back(std::move(mine));
  }
  // Lend the first bytes to the probe.
  offer_.probe_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(sizeof offer_.probe, memory_.bytes()));
  if (::getrandom(&offer_.probe, sizeof offer_.probe, 0) != static_cast<ssize_t>(sizeof offer_.probe))
    throw Error(Code::error, "getrandom", std::strerror(errno));
  if (offer_.probe_bytes == 0) return;
  require(memory_.read_to_host(0, lent_.data(), offer_.probe_bytes));
  is_lent_ = true;
  require(memory_.write_from_host(0, &offer_.probe, offer_.probe_bytes));
}

DevicePart::~DevicePart() {
  agent_.reset();
  if (is_lent_) (void)memory_.write_from_host(0, lent_.data(), offer_.probe_bytes);
}

void DevicePart::give_back() {
  descriptor_.reset();
  if (!is_lent_) return;
  require(memory_.write_from_host(0, lent_.data(), offer_.probe_bytes));
  is_lent_ = false;
}

std::string DevicePart::start_agent(bool by_far) {
  const ControlShape shape(fabric_.size);
  std::string through = "pinned host memory";
  try {
    std::byte* const buffers = control() + shape.buffer(0, 0);
    pinned_ = memory_.allocation()->provider->pin(offer_.device, buffers, shape.bytes() - shape.buffer(0, 0));
  } catch (const Error& error) {
    through = "pageable host memory: " + error.detail().message;
  }
  agent_.emplace(fabric_, memory_, control(), by_far);
  fabric_.log.info("an agent copies for some ranks, through {}", through);
  return "peers' data is staged in " + through;
}

transport::Region DevicePart::control_region() const {
  return {control_->base(), ControlShape(fabric_.size).bytes(), MemoryType::CPU, control_, 0};
}

bool DevicePart::look(DeviceWatch& watch, std::uint64_t offset, std::uint64_t& word,
                      base::Status& status) const noexcept {
  ControlHead& head = head_of(control());
  // Load the count before the word. A write after the read of the word then increases the count beyond `changed`.
  // Acquire: pairs with the release in note_change().
  const std::uint64_t changed = head.changed.load(std::memory_order_acquire);
  const std::int64_t now = base::now_ns();
  if (changed == watch.changed && now < watch.again_ns) return false;
  if (!try_lock(head, static_cast<std::uint64_t>(fabric_.rank) + 1)) return false;
  status = memory_.read_to_host(offset, &word, sizeof word);
  unlock(head);
  watch = {changed, now + look_again_ns};
  return true;
}

}  // namespace hmc::device
