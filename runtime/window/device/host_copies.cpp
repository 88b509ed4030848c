#include "runtime/window/device/host_copies.hpp"

#include <new>

namespace hmc::window {

namespace {

bool lies_in(const void* inner, std::size_t inner_bytes, const void* outer, std::size_t outer_bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(inner), start = reinterpret_cast<std::uintptr_t>(outer);
  return at >= start && at - start <= outer_bytes && inner_bytes <= outer_bytes - (at - start);
}

std::ptrdiff_t distance(const void* from, const void* to) noexcept {
  return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
}

}  // namespace

HostCopies::HostCopies(const Fabric& fabric, const char* operation, const void* in, std::size_t in_bytes, void* out,
                       std::size_t out_bytes)
    : fabric_(fabric), operation_(operation), in_(in), out_(out), user_out_(out), out_bytes_(out_bytes) {
  const bool copies_in = in_bytes > 0 && !memory::host_reaches(in);
  const bool copies_out = out_bytes > 0 && !memory::host_reaches(out);
  gives_back_ = copies_out;
  if (copies_in && copies_out && lies_in(in, in_bytes, out, out_bytes)) {
    take(out_copy_, out, out_bytes);
    out_ = out_copy_.data();
    in_ = out_copy_.data() + distance(out, in);
  } else if (copies_in && copies_out && lies_in(out, out_bytes, in, in_bytes)) {
    take(in_copy_, in, in_bytes);
    in_ = in_copy_.data();
    out_ = in_copy_.data() + distance(in, out);
  } else {
    if (copies_in) take(in_copy_, in, in_bytes);
    // With what lies there: a collective may leave parts of its output alone.
    if (copies_out) take(out_copy_, out, out_bytes);
    if (copies_in) in_ = in_copy_.data();
    if (copies_out) out_ = out_copy_.data();
  }
}

void HostCopies::take(std::vector<std::byte>& copy, const void* from, std::size_t bytes) const {
  try {
    copy.resize(bytes);
  } catch (const std::bad_alloc&) {
    require(fabric_, base::Status::failure(Code::out_of_memory, "no host memory to stage a device's buffer"),
            {operation_, -1, 0, bytes, true});
  }
  const memory::Owner host{&memory::provider_for(MemoryType::CPU), {}};
  require(fabric_, memory::copy_between(copy.data(), host, from, memory::known_owner_of(from), bytes), {operation_});
}

void HostCopies::finish() const {
  if (!gives_back_) return;
  const memory::Owner host{&memory::provider_for(MemoryType::CPU), {}};
  require(fabric_, memory::copy_between(user_out_, memory::known_owner_of(user_out_), out_, host, out_bytes_),
          {operation_});
}

}  // namespace hmc::window
