#include "runtime/transport/rdma/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

#include <hmc/error.hpp>

namespace hmc::transport::rdma {

namespace {

std::string text_of(int error) { return std::error_code(error, std::generic_category()).message(); }

/// A usable port, with the values by which ports are compared.
struct Candidate {
  ibv_device* device = nullptr;
  std::string name;
  std::uint8_t port = 0;
  bool atomics = false;
  int rate = 0;
};

/// Widths are 1, 2, 4, 8 for 1x, 4x, 8x, 12x; speeds are bits in ascending order.
int rate_of(const ibv_port_attr& port) noexcept {
  const int lanes = port.active_width == 2 ? 4 : port.active_width == 4 ? 8 : port.active_width == 8 ? 12 : 1;
  return lanes * std::max<int>(1, port.active_speed);
}

/// The library's older entry point fills the members up to `flags`, which are the ones read here.
ibv_port_attr query_port(ibv_context* context, std::uint8_t port) noexcept {
  ibv_port_attr attributes{};
  if (Library::get().ibv_query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) != 0)
    attributes.state = IBV_PORT_NOP;
  return attributes;
}

/// "RoCE v2", "IB/RoCE v1" or empty.
std::string gid_type(const std::string& device, int port, int index) {
  std::ifstream in(fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs/types/{}", device, port, index));
  std::string type;
  std::getline(in, type);
  return type;
}

bool is_zero(const ibv_gid& gid) noexcept {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t byte) { return byte == 0; });
}

/// Higher is better; 0: unusable.
int preference(const ibv_gid& gid, const std::string& type) noexcept {
  static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool ipv4 = std::memcmp(gid.raw, mapped, sizeof mapped) == 0;
  const bool link_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
  return (type == "RoCE v2" ? 10 : 1) + (ipv4 ? 2 : link_local ? 0 : 1);
}

}  // namespace

void throw_errno(const char* what, int error) {
  ErrorDetail detail;
  detail.code = Code::unavailable;
  detail.operation = "verbs";
  detail.sys_errno = error;
  detail.message = fmt::format("{}: {}", what, text_of(error));
  if (error == ENOMEM) detail.hint = "raise the limit of locked memory (ulimit -l)";
  throw Error(std::move(detail));
}

Device::Device(const std::string& wanted, int gid_index, const base::Log& log) {
  const Library& verbs = Library::get();
  const std::size_t colon = wanted.find(':');
  const std::string wanted_name = wanted.substr(0, colon);
  int wanted_port = 0;
  if (colon != std::string::npos) {
    const char* const end = wanted.data() + wanted.size();
    const auto [stop, error] = std::from_chars(wanted.data() + colon + 1, end, wanted_port);
    if (error != std::errc{} || stop != end || wanted_port < 1 || wanted_port > 255)
      throw Error(Code::invalid_config, "verbs", fmt::format("HMC_RDMA_DEVICE={} isn't device:port", wanted));
  }

  int count = 0;
  ibv_device** const list = verbs.ibv_get_device_list(&count);
  if (list == nullptr) throw_errno("no RDMA device", errno);
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owner(
      list, [](ibv_device** devices) { Library::get().ibv_free_device_list(devices); });
  std::vector<Candidate> candidates;
  std::string seen;
  for (int i = 0; i < count; ++i) {
    const std::string name = verbs.ibv_get_device_name(list[i]);
    seen += (seen.empty() ? "" : ", ") + name;
    if (!wanted_name.empty() && name != wanted_name) continue;
    const Owned<ibv_context> context(verbs.ibv_open_device(list[i]));
    ibv_device_attr attributes{};
    if (context == nullptr || verbs.ibv_query_device(context.get(), &attributes) != 0) continue;
    for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
      const ibv_port_attr state = query_port(context.get(), static_cast<std::uint8_t>(port));
      if (state.state != IBV_PORT_ACTIVE || (wanted_port != 0 && port != wanted_port)) continue;
      candidates.push_back(
          {list[i], name, static_cast<std::uint8_t>(port), attributes.atomic_cap != IBV_ATOMIC_NONE, rate_of(state)});
    }
  }
  if (candidates.empty()) {
    throw Error(Code::unavailable, "verbs",
                count == 0       ? std::string("this machine has no RDMA device")
                : wanted.empty() ? fmt::format("no RDMA device has an active port ({})", seen)
                                 : fmt::format("HMC_RDMA_DEVICE={}: no such active port (devices: {})", wanted, seen));
  }
  const Candidate& best =
      *std::min_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        if (a.atomics != b.atomics) return a.atomics;
        if (a.rate != b.rate) return a.rate > b.rate;
        return a.name != b.name ? a.name < b.name : a.port < b.port;
      });

  name_ = best.name;
  port_ = best.port;
  context_.reset(verbs.ibv_open_device(best.device));
  if (context_ == nullptr) throw_errno(("can't open " + name_).c_str(), errno);
  if (const int error = verbs.ibv_query_device(context_.get(), &attributes_); error != 0)
    throw_errno(("can't query " + name_).c_str(), error);
  port_attributes_ = query_port(context_.get(), port_);
  choose_gid(gid_index);
  pd_.reset(verbs.ibv_alloc_pd(context_.get()));
  if (pd_ == nullptr) throw_errno("no protection domain", errno);
  log.info("verbs: {} of {} active ports: {}", description_, candidates.size(),
           wanted.empty() ? "the best by atomics and rate" : "by HMC_RDMA_DEVICE");
}

void Device::choose_gid(int wanted) {
  int best = 0;
  for (int index = 0; index < port_attributes_.gid_tbl_len; ++index) {
    ibv_gid gid{};
    if (wanted >= 0 && index != wanted) continue;
    if (Library::get().ibv_query_gid(context_.get(), port_, index, &gid) != 0 || is_zero(gid)) continue;
    const std::string type = gid_type(name_, port_, index);
    if (preference(gid, type) <= best) continue;
    best = preference(gid, type);
    gid_ = gid;
    gid_index_ = static_cast<std::uint8_t>(index);
    description_ = fmt::format("{} port {}, GID {} ({}, {:02x})", name_, port_, index,
                               type.empty() ? "type unknown" : type, fmt::join(gid.raw, ""));
  }
  if (best == 0)
    throw Error(Code::unavailable, "verbs",
                wanted >= 0 ? fmt::format("HMC_RDMA_GID={}: {} port {} has no such GID", wanted, name_, port_)
                            : fmt::format("{} port {} has no GID", name_, port_));
}

ibv_ah_attr Device::route(const ibv_gid& gid, std::uint16_t lid) const noexcept {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.grh.dgid = gid;
  route.grh.sgid_index = gid_index_;
  route.grh.hop_limit = 64;
  route.dlid = lid;
  route.port_num = port_;
  return route;
}

Owned<ibv_mr> Device::register_memory(const void* address, std::size_t bytes, int access) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{7};
  const auto end = (reinterpret_cast<std::uintptr_t>(address) + bytes + 7) & ~std::uintptr_t{7};
  return Owned<ibv_mr>(Library::get().ibv_reg_mr(pd_.get(), reinterpret_cast<void*>(begin), end - begin, access));
}

std::string Device::why_no_device_memory() const {
  const auto register_dmabuf = Library::get().ibv_reg_dmabuf_mr;
  if (register_dmabuf == nullptr) return "this libibverbs has no ibv_reg_dmabuf_mr";
  // A driver with dma-buf looks at the descriptor, which is invalid (EBADF).
  errno = 0;
  const Owned<ibv_mr> none(register_dmabuf(pd_.get(), 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  if (none == nullptr && errno != EBADF)
    return fmt::format("the driver of {} can't register dma-buf memory ({})", name_, text_of(errno));
  return "no memory provider of this build exports dma-buf descriptors";
}

}  // namespace hmc::transport::rdma
