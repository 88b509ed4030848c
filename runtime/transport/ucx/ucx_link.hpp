// UcxLink: sends messages as UCX active messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/ucx/worker.hpp"

namespace hmc::transport::ucx {

class RemoteMemory;

/// Each message is one fragment on one lane, so messages arrive in the order of sending. UCX's in-order tag matching
/// relies on the same order.
class UcxLink final : public am::ByteLink {
 public:
  /// The arguments are those of Worker.
  UcxLink(int job_size, const std::string& transports, base::Log log);
  ~UcxLink() override;

  const Traits& traits() const noexcept override;
  std::string describe() const override;
  std::string describe(int rank) const override;
  void serve(am::LinkUser& user, int rank, int ranks) override;
  base::Bytes address() const override { return worker_->address(); }
  int event_fd() const override { return worker_->event_fd(); }
  base::Status connect(int rank, base::ByteView address) noexcept override;
  base::Status send(am::Sending& record) noexcept override;
  int progress() noexcept override { return static_cast<int>(worker_->progress()); }
  bool arm() noexcept override { return worker_->arm(); }
  void disconnect(int rank, bool at_once) noexcept override;
  std::size_t ending() noexcept override;
  void leave(bool all_left) noexcept override;

  // ---- for UcxWire
  /// Null: all verbs are messages. Constant until leave().
  RemoteMemory* memory() noexcept { return memory_.get(); }
  /// The connection to one rank, and the argument of UCX's callbacks.
  struct Peer {
    UcxLink* link = nullptr;
    int rank = -1;
    ucp_ep_h endpoint = nullptr;
    std::vector<ucp_rkey_h> keys;  ///< of the rank's memory; null: closed. Destroyed before the endpoint
    std::uint64_t moved = 0;       ///< one-sided puts and gets
    std::uint64_t flushed = 0;     ///< the first `flushed` of them are complete, the puts visible at the peer
  };
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  /// For requests whose user_data is a Sending, and whose Sending::context is the Peer.
  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  base::Status status_of(ucs_status_t status, int rank) const noexcept;

 private:
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) noexcept;
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) noexcept;

  std::unique_ptr<Worker> worker_;
  base::Log log_;
  std::unique_ptr<RemoteMemory> memory_;  // null: verbs are messages
  std::string why_messages_;              // the reason
  am::LinkUser* user_ = nullptr;
  std::vector<Peer> peers_;     // by rank; never resized after serve(): UCX holds pointers to the entries
  std::vector<void*> closing_;  // close requests in progress
};

}  // namespace hmc::transport::ucx
