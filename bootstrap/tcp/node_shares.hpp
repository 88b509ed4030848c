// NodeShares: the segment exchanges in progress on one node.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bootstrap/tcp/protocol.hpp"
#include "runtime/control/connection.hpp"

namespace hmc::bootstrap {

/// State only, no sockets. A seat is a position in the node's list of members.
class NodeShares {
 public:
  explicit NodeShares(std::size_t members) : members_(members) {}

  /// True if an offer is valid: the local_indexes exist, include the sender's, and equal those of the round's other
  /// offers.
  bool admits(std::size_t seat, const ShareOffer& offer) const;
  /// Only for admitted offers. Returns true when all local_indexes have offered: the caller then calls answer() for
  /// each of local_indexes(), and finish().
  bool offer(std::size_t seat, const ShareOffer& offer, control::SharedFd fd);
  /// A part of an answer: one message carries a limited number of descriptors.
  struct Part {
    ShareResult message;
    std::vector<control::SharedFd> fds;
  };
  std::vector<Part> answer(std::uint64_t round, std::size_t seat) const;
  const std::vector<std::uint32_t>& local_indexes(std::uint64_t round) const { return rounds_.at(round).local_indexes; }
  void finish(std::uint64_t round) { rounds_.erase(round); }

  std::vector<std::size_t> missing(std::uint64_t round) const;
  /// The rounds in progress that have no offer of `seat`.
  std::vector<std::uint64_t> rounds_without(std::size_t seat) const;

 private:
  struct Offered {
    ShareOffer offer;
    control::SharedFd fd;  // null: nothing to share
  };
  struct Round {
    std::vector<std::uint32_t> local_indexes;
    std::vector<std::optional<Offered>> offers;  // of each of the local_indexes
    std::size_t arrived = 0;
    std::size_t place_of(std::size_t seat) const;
  };
  std::vector<std::uint32_t> local_indexes_of(const ShareOffer& offer) const;
  std::size_t members_;
  std::map<std::uint64_t, Round> rounds_;
};

}  // namespace hmc::bootstrap
