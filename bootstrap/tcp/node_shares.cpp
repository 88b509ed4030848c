#include "bootstrap/tcp/node_shares.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace hmc::bootstrap {

/// The index of `seat` in `local_indexes`; local_indexes.size() if it doesn't participate.
std::size_t NodeShares::Round::place_of(std::size_t seat) const {
  const auto found = std::lower_bound(local_indexes.begin(), local_indexes.end(), seat);
  if (found == local_indexes.end() || *found != seat) return local_indexes.size();
  return static_cast<std::size_t>(found - local_indexes.begin());
}

std::vector<std::uint32_t> NodeShares::local_indexes_of(const ShareOffer& offer) const {
  if (!offer.local_indexes.empty()) return offer.local_indexes;
  std::vector<std::uint32_t> all(members_);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

bool NodeShares::admits(std::size_t seat, const ShareOffer& offer) const {
  const Round asked{local_indexes_of(offer), {}, 0};
  const bool ascending = std::adjacent_find(asked.local_indexes.begin(), asked.local_indexes.end(),
                                            std::greater_equal<>()) == asked.local_indexes.end();
  if (!ascending || asked.local_indexes.back() >= members_ || asked.place_of(seat) == asked.local_indexes.size())
    return false;
  const auto found = rounds_.find(offer.round);
  return found == rounds_.end() || found->second.local_indexes == asked.local_indexes;
}

bool NodeShares::offer(std::size_t seat, const ShareOffer& offer, control::SharedFd fd) {
  Round& round = rounds_[offer.round];
  if (round.local_indexes.empty()) round.local_indexes = local_indexes_of(offer);
  round.offers.resize(round.local_indexes.size());
  std::optional<Offered>& mine = round.offers[round.place_of(seat)];
  if (!mine) {
    mine = Offered{offer, std::move(fd)};
    ++round.arrived;
  }
  return round.arrived == round.local_indexes.size();
}

std::vector<NodeShares::Part> NodeShares::answer(std::uint64_t number, std::size_t seat) const {
  using What = ShareResult::What;
  const Round& round = rounds_.at(number);
  const std::size_t own = round.place_of(seat);
  std::vector<Part> parts;
  for (std::size_t first = 0; first < round.offers.size(); first += control::most_fds_per_frame) {
    Part part{{number, {}}, {}};
    const std::size_t last = std::min(first + control::most_fds_per_frame, round.offers.size());
    for (std::size_t i = first; i < last; ++i) {
      const Offered& offered = *round.offers[i];
      const What what = !offered.fd ? What::nothing : i == own ? What::your_own : What::descriptor;
      part.message.items.push_back({what, offered.offer.bytes, offered.offer.file_offset});
      if (what == What::descriptor) part.fds.push_back(offered.fd);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::size_t> NodeShares::missing(std::uint64_t number) const {
  std::vector<std::size_t> local_indexes;
  const auto found = rounds_.find(number);
  if (found == rounds_.end()) return local_indexes;
  const Round& round = found->second;
  for (std::size_t i = 0; i < round.local_indexes.size(); ++i) {
    if (!round.offers[i]) local_indexes.push_back(round.local_indexes[i]);
  }
  return local_indexes;
}

std::vector<std::uint64_t> NodeShares::rounds_without(std::size_t seat) const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, round] : rounds_) {
    const std::size_t place = round.place_of(seat);
    if (place < round.local_indexes.size() && !round.offers[place]) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace hmc::bootstrap
