// Card: what a member tells all others when it joins. Rules: which way members with given tags use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <hmc/pool.hpp>

#include "runtime/base/fields.hpp"

namespace hmc::pool {

struct Card {
  base::Bytes settings;  ///< the same in all members: see settings_of
  std::uint64_t host_bytes = 0;
  std::uint64_t device_bytes = 0;
  std::int32_t device_type = 0;
  std::int32_t device = 0;
  std::uint64_t machine = 0;
  std::uint64_t staging = 0;  ///< OwnParts::staging()
  std::string node;           ///< HMC_NODE
  std::string local_name;
  std::uint64_t join = 0;  ///< counts the joins of the process's Pool
  std::string tag;

  static constexpr auto fields =
      std::tuple(&Card::settings, &Card::host_bytes, &Card::device_bytes, &Card::device_type, &Card::device,
                 &Card::machine, &Card::staging, &Card::node, &Card::local_name, &Card::join, &Card::tag);
  /// Throws Error{refused}.
  static Card decode(base::ByteView bytes);
  /// Of this join alone: a rank may be another member's soon after.
  std::string join_name() const;
  bool is_on_node_of(const Card& other) const noexcept { return machine == other.machine && node == other.node; }
};

/// Rounds the strides up, and checks the options. Throws Error{invalid_argument}.
PoolOptions checked(PoolOptions options);
base::Bytes settings_of(const PoolOptions& options);

class Rules {
 public:
  Rules() = default;
  /// Throws Error{invalid_argument}, with the rule.
  explicit Rules(std::string_view text);
  /// The way of the first rule for members with these tags.
  std::optional<PoolWay> way_between(const std::string& a, const std::string& b) const;
  bool names(PoolWay way) const noexcept;

 private:
  struct Rule {
    std::string a, b;
    PoolWay way{};
  };
  std::vector<Rule> rules_;
};

}  // namespace hmc::pool
