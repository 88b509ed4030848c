#include "runtime/device/host_copies.hpp"

#include <exception>
#include <utility>

#include <hmc/error.hpp>

namespace hmc::device {

namespace {

bool lies_in(const void* inner, std::size_t inner_bytes, const void* outer, std::size_t outer_bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(inner), start = reinterpret_cast<std::uintptr_t>(outer);
  return at >= start && at - start <= outer_bytes && inner_bytes <= outer_bytes - (at - start);
}

std::ptrdiff_t distance(const void* from, const void* to) noexcept {
  return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
}

void let_go(const memory::Owner& owner, memory::HostBlock& block) noexcept {
  if (block.data != nullptr) owner.provider->give_back(std::move(block));
}

}  // namespace

HostCopies::HostCopies(const rma::Fabric& fabric, const char* operation, const void* in, std::size_t in_bytes,
                       void* out, std::size_t out_bytes, Output output)
    : fabric_(fabric), operation_(operation), in_(in), out_(out), user_out_(out), out_bytes_(out_bytes) {
  try {
    place(in, in_bytes, out, out_bytes, output);
  } catch (...) {
    let_go(in_copy_.owner, in_copy_.block);
    let_go(out_copy_.owner, out_copy_.block);
    throw;
  }
}

HostCopies::~HostCopies() {
  let_go(in_copy_.owner, in_copy_.block);
  let_go(out_copy_.owner, out_copy_.block);
}

void HostCopies::place(const void* in, std::size_t in_bytes, void* out, std::size_t out_bytes, Output output) {
  in_copy_.owner = memory::known_owner_of(in);
  out_copy_.owner = memory::known_owner_of(out);
  const bool in_away = !memory::is_host_accessible(in_copy_.owner),
             out_away = !memory::is_host_accessible(out_copy_.owner);
  if (in_away && in_bytes == 0) in_ = &nothing_;
  if (out_away && out_bytes == 0) out_ = &nothing_;
  const bool copies_in = in_away && in_bytes > 0, copies_out = out_away && out_bytes > 0;
  if (copies_out && output != Output::unchanged) gives_back_ = out_copy_.owner.provider;
  if (copies_in && copies_out && !lies_in(in, in_bytes, out, out_bytes) && lies_in(out, out_bytes, in, in_bytes)) {
    std::byte* const copy = room(in_copy_, in_bytes);
    takes(copy, in, in_bytes, in_copy_);
    in_ = copy;
    out_ = copy + distance(in, out);
    return;
  }
  if (copies_out) {
    std::byte* const copy = room(out_copy_, out_bytes);
    out_ = copy;
    if (output == Output::parts) takes(copy, out, out_bytes, out_copy_);
    if (copies_in && lies_in(in, in_bytes, out, out_bytes)) {
      in_ = copy + distance(out, in);
      if (output != Output::parts) takes(copy + distance(out, in), in, in_bytes, out_copy_);
      return;
    }
  }
  if (!copies_in) return;
  std::byte* const copy = room(in_copy_, in_bytes);
  takes(copy, in, in_bytes, in_copy_);
  in_ = copy;
}

std::byte* HostCopies::room(Copy& copy, std::size_t bytes) const {
  try {
    copy.block = copy.owner.provider->take_block(copy.owner.info.device, bytes);
    return copy.block.data;
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = operation_;
    detail.rank = fabric_.rank;
    throw Error(std::move(detail));
  } catch (const std::exception&) {
    throw_status(fabric_, base::Status::failure(Code::out_of_memory, "no host memory to stage a device's buffer"),
                 {operation_, -1, 0, bytes, true});
  }
}

base::Status HostCopies::take() const noexcept {
  for (std::size_t i = 0; i < taken_count_; ++i) {
    const Taken& each = taken_[i];
    const base::Status status = each.of->owner.provider->copy({.destination = each.to,
                                                               .source = each.from,
                                                               .width = each.bytes,
                                                               .direction = memory::Direction::device_to_host,
                                                               .source_device = each.of->owner.info.device});
    if (!status.ok()) return status;
  }
  return {};
}

base::Status HostCopies::finish() const noexcept {
  if (gives_back_ == nullptr) return {};
  return gives_back_->copy({.destination = user_out_,
                            .source = out_,
                            .width = out_bytes_,
                            .direction = memory::Direction::host_to_device,
                            .destination_device = out_copy_.owner.info.device});
}

}  // namespace hmc::device
