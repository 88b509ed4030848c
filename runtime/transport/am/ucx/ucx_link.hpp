// UcxLink: sends messages as UCX active messages.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/ucx/worker.hpp"

namespace hmc::transport::ucx {

/// Each message is one fragment on one lane, so messages arrive in the order of sending. UCX's in-order tag matching
/// relies on the same order.
class UcxLink final : public am::ByteLink {
 public:
  /// The arguments are those of Worker.
  UcxLink(int job_size, const std::string& transports, base::Log log) : worker_(job_size, transports), log_(log) {}

  const Traits& traits() const noexcept override;
  std::string describe() const override;
  std::string describe(int rank) const override;
  void serve(am::LinkUser& user, int rank, int ranks) override;
  base::Bytes address() const override { return worker_.address(); }
  int event_fd() const override { return worker_.event_fd(); }
  base::Status connect(int rank, base::ByteView address) noexcept override;
  base::Status send(am::Sending& record) noexcept override;
  int progress() noexcept override { return static_cast<int>(worker_.progress()); }
  bool arm() noexcept override { return worker_.arm(); }
  void disconnect(int rank, bool at_once) noexcept override;
  std::size_t ending() noexcept override;
  void leave(bool all_left) noexcept override;

 private:
  /// The argument of UCX's callbacks.
  struct Way {
    UcxLink* link = nullptr;
    int rank = -1;
    ucp_ep_h endpoint = nullptr;
  };
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) noexcept;
  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) noexcept;
  base::Status status_of(ucs_status_t status, int rank) const noexcept;

  Worker worker_;
  base::Log log_;
  am::LinkUser* user_ = nullptr;
  std::vector<Way> ways_;       // by rank; never resized after serve(): UCX holds pointers to the entries
  std::vector<void*> closing_;  // close requests in progress
};

}  // namespace hmc::transport::ucx
