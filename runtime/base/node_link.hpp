// NodeLink: how the ranks of one node hand memory to each other.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/deadline.hpp"
#include "runtime/base/segment.hpp"

namespace hmc::base {

/// Ranks on one node are those that a NodeLink connects: that they could be handed the node page and
/// read its nonce is the proof. Cold path: throws hmc::Error.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  /// World ranks on my node, ascending.
  virtual const std::vector<int>& members() const noexcept = 0;
  /// Collective over the node: everyone gives a segment or null and gets what each gave, in the order
  /// of members(). Ranks of one process get the very same mapping, others map the memfd.
  virtual std::vector<std::shared_ptr<Segment>> share(const std::shared_ptr<Segment>& mine, Deadline deadline) = 0;
};

}  // namespace hmc::base
