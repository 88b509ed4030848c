// NodeShares: the segment exchanges under way on one node.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bootstrap/tcp/connection.hpp"
#include "bootstrap/tcp/messages.hpp"

namespace hmc::bootstrap {

/// Plain state, no sockets. Seats are places in the node's list of members.
class NodeShares {
 public:
  explicit NodeShares(std::size_t members) : members_(members) {}

  /// Whether a rank may say this: those that it names are there, itself among them, and others of the round
  /// have named the same.
  bool admits(std::size_t seat, const ShareOffer& offer) const;
  /// True once everybody has offered: then answer() each of seats(), and finish(). For what is admitted.
  bool offer(std::size_t seat, const ShareOffer& offer, SharedFd fd);
  /// In parts, because one message carries a bounded number of descriptors.
  struct Part {
    ShareResult message;
    std::vector<SharedFd> fds;
  };
  std::vector<Part> answer(std::uint64_t round, std::size_t seat) const;
  const std::vector<std::uint32_t>& seats(std::uint64_t round) const { return rounds_.at(round).seats; }
  void finish(std::uint64_t round) { rounds_.erase(round); }

  std::vector<std::size_t> missing(std::uint64_t round) const;
  /// Rounds under way that `seat` hasn't come to.
  std::vector<std::uint64_t> rounds_without(std::size_t seat) const;

 private:
  struct Offered {
    ShareOffer offer;
    SharedFd fd;  // null: nothing to share
  };
  struct Round {
    std::vector<std::uint32_t> seats;
    std::vector<std::optional<Offered>> offers;  // of each of the seats
    std::size_t arrived = 0;
    std::size_t place_of(std::size_t seat) const;
  };
  std::vector<std::uint32_t> seats_of(const ShareOffer& offer) const;
  std::size_t members_;
  std::map<std::uint64_t, Round> rounds_;
};

}  // namespace hmc::bootstrap
