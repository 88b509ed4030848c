// Bootstrap: this rank, its peers, and the control plane between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/exchange.hpp"
#include "runtime/base/node_link.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::bootstrap {

class Membership;

/// A rank's facts, at most 128 bytes when sent. After the rendezvous every rank has the facts of all ranks.
struct RankFacts {
  std::int32_t rank = -1;
  std::int32_t node = -1;         ///< nodes are numbered by their lowest rank
  std::int32_t local_index = -1;  ///< position among its node's ranks, ascending by rank
  std::int32_t pid = 0;
  std::uint64_t machine = 0;            ///< equal for all ranks on one kernel (emulated nodes share a machine)
  std::uint64_t network = 0;            ///< equal for all ranks in one network namespace of a machine; 0: unknown
  std::array<std::uint64_t, 4> cpus{};  ///< bit mask of the first 256 CPUs: those that it may run on
  std::uint32_t further_cpus = 0;       ///< number of further CPUs that it may run on
  static constexpr auto fields =
      std::tuple(&RankFacts::rank, &RankFacts::node, &RankFacts::local_index, &RankFacts::pid, &RankFacts::machine,
                 &RankFacts::network, &RankFacts::cpus, &RankFacts::further_cpus);
};

/// Cold path: throws hmc::Error. One thread at a time, except that abort may come from any thread.
class Bootstrap : public base::Exchange {
 public:
  /// As Runtime::launcher(); "inproc" for ranks as threads.
  virtual std::string launcher() const = 0;
  virtual const std::vector<RankFacts>& facts() const noexcept = 0;  ///< by rank

  /// Known to the job's ranks only, and not sent by the wires. All zero: the job is in one process.
  virtual std::array<std::byte, 32> wire_key() const { return {}; }
  virtual base::NodeLink& node_link() noexcept = 0;
  virtual const base::NodePage& node_page() const noexcept = 0;

  /// A key can be published only once. lookup() waits for the key until the deadline; then it throws Error{not_found}.
  virtual void publish(std::string_view key, base::ByteView value) = 0;
  virtual base::Bytes lookup(std::string_view key, base::Deadline deadline) = 0;

  /// Notifies every rank (node pages, control connections) and the launcher.
  virtual void abort(int exit_code, std::string_view text) noexcept = 0;
  /// Ends the waits of all ranks with Error{peer_failed, peer}. Only the first failure of a job has an effect.
  virtual void fail_job([[maybe_unused]] int peer, [[maybe_unused]] std::string_view text) noexcept {}
  /// Reports a long wait. The store prints one warning for the whole job. False: the caller prints its own. From any
  /// thread.
  virtual bool report([[maybe_unused]] std::string_view text,
                      [[maybe_unused]] std::chrono::nanoseconds waited) noexcept {
    return false;
  }
  /// Null if a job of this launcher can't continue without a rank that has ended.
  virtual Membership* membership() noexcept { return nullptr; }

  /// Sends the goodbye. Afterwards the exit of this rank isn't a failure. Not collective.
  virtual void leave() noexcept = 0;
};

}  // namespace hmc::bootstrap
