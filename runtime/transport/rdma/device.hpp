// Device: the RDMA device, port and GID of one rank, and the library's objects with their owners.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/log.hpp"
#include "runtime/transport/rdma/library.hpp"

namespace hmc::transport::rdma {

/// Owners of the library's objects. A failed destruction is ignored: it only occurs if an object that uses it still
/// exists.
struct Destroy {
  void operator()(ibv_context* it) const noexcept { Library::get().ibv_close_device(it); }
  void operator()(ibv_pd* it) const noexcept { Library::get().ibv_dealloc_pd(it); }
  void operator()(ibv_mr* it) const noexcept { Library::get().ibv_dereg_mr(it); }
  void operator()(ibv_cq* it) const noexcept { Library::get().ibv_destroy_cq(it); }
  void operator()(ibv_qp* it) const noexcept { Library::get().ibv_destroy_qp(it); }
  void operator()(ibv_ah* it) const noexcept { Library::get().ibv_destroy_ah(it); }
  void operator()(ibv_comp_channel* it) const noexcept { Library::get().ibv_destroy_comp_channel(it); }
};
template <typename T> using Owned = std::unique_ptr<T, Destroy>;

/// Throws Error{unavailable} with errno's text.
[[noreturn]] void throw_errno(const char* what, int error);

/// An opened device with an active port. Immutable after construction.
class Device {
 public:
  /// `wanted`: "device" or "device:port"; empty: of the devices with an active port, one with atomics before one
  /// without, then the highest rate, then the first by name. `gid_index` < 0: RoCE v2 before v1, IPv4 before IPv6, and
  /// a link-local address last. Logs the choice. Throws Error{unavailable}.
  Device(const std::string& wanted, int gid_index, const base::Log& log);

  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* pd() const noexcept { return pd_.get(); }
  std::uint8_t port() const noexcept { return port_; }
  std::uint8_t gid_index() const noexcept { return gid_index_; }
  const ibv_gid& gid() const noexcept { return gid_; }
  const ibv_port_attr& port_attributes() const noexcept { return port_attributes_; }
  const ibv_device_attr& attributes() const noexcept { return attributes_; }
  bool has_atomics() const noexcept { return attributes_.atomic_cap != IBV_ATOMIC_NONE; }
  /// For messages: "rxe0 port 1, GID 1 (RoCE v2)".
  const std::string& description() const noexcept { return description_; }

  /// The address of `gid`/`lid` as seen from this port.
  ibv_ah_attr route(const ibv_gid& gid, std::uint16_t lid) const noexcept;
  /// Null with errno if the memory can't be registered. Covers whole 8-byte words, as atomics on 4-byte words need.
  Owned<ibv_mr> register_memory(const void* address, std::size_t bytes, int access) const noexcept;
  /// The reason why the memory of accelerators isn't registered with this device (dma-buf): the library, then the
  /// kernel's driver of the device, then this build.
  std::string why_no_device_memory() const;

 private:
  void choose_gid(int wanted);

  Owned<ibv_context> context_;
  Owned<ibv_pd> pd_;
  std::string name_;
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
  ibv_gid gid_{};
  ibv_port_attr port_attributes_{};
  ibv_device_attr attributes_{};
  std::string description_;
};

}  // namespace hmc::transport::rdma
