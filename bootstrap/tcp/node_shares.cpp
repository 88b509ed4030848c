#include "bootstrap/tcp/node_shares.hpp"

#include <algorithm>

namespace hmc::bootstrap {

bool NodeShares::offer(std::size_t seat, const ShareOffer& offer, SharedFd fd) {
  Round& round = rounds_[offer.round];
  round.by_seat.resize(members_);
  if (!round.by_seat[seat]) {
    round.by_seat[seat] = Offered{offer, std::move(fd)};
    ++round.arrived;
  }
  return round.arrived == members_;
}

std::vector<NodeShares::Part> NodeShares::answer(std::uint64_t number, std::size_t seat) const {
  using What = ShareResult::What;
  const Round& round = rounds_.at(number);
  std::vector<Part> parts;
  for (std::size_t first = 0; first < members_; first += most_fds_per_frame) {
    Part part{{number, {}}, {}};
    const std::size_t last = std::min(first + most_fds_per_frame, members_);
    for (std::size_t i = first; i < last; ++i) {
      const Offered& offered = *round.by_seat[i];
      const What what = !offered.fd ? What::nothing : i == seat ? What::your_own : What::descriptor;
      part.message.items.push_back({what, offered.offer.bytes, offered.offer.file_offset});
      if (what == What::descriptor) part.fds.push_back(offered.fd);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::size_t> NodeShares::missing(std::uint64_t number) const {
  std::vector<std::size_t> seats;
  const auto found = rounds_.find(number);
  if (found == rounds_.end()) return seats;
  for (std::size_t seat = 0; seat < members_; ++seat) {
    if (!found->second.by_seat[seat]) seats.push_back(seat);
  }
  return seats;
}

std::vector<std::uint64_t> NodeShares::rounds_without(std::size_t seat) const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, round] : rounds_) {
    if (!round.by_seat[seat]) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace hmc::bootstrap
