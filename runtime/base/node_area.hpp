// NodeArea: memory of one node that its teams take parts of, without descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/node_page.hpp"

namespace hmc::base {

/// The unmapped rest of the node page's file. The page holds a table of the parts that are taken. A part belongs to
/// several ranks; one of them takes it and tells the others its number. It is free again, and all zeros, when each of
/// them has dropped its share. A part of a rank that was killed stays taken until the job ends.
/// All functions may be called by several ranks at a time; none waits for another rank.
class NodeArea {
 public:
  static constexpr std::uint32_t none = 0;

  explicit NodeArea(const NodePage& page) noexcept : page_(page) {}

  /// The number of a part with `bytes` for this many ranks; `none` if the table or the file is full. Each of the ranks
  /// calls share() once.
  std::uint32_t take(std::size_t bytes, std::size_t ranks) const noexcept;
  /// This rank's share of a part, which its destructor drops. A child of fork() keeps it.
  std::shared_ptr<void> share(std::uint32_t number) const;
  /// The memory of a part. It keeps the share. Throws Error.
  std::shared_ptr<Segment> map(std::uint32_t number, std::size_t bytes, const std::shared_ptr<void>& share) const;

 private:
  NodePage page_;
};

}  // namespace hmc::base
