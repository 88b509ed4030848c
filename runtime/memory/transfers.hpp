// Transfers: the transfers that a Buffer has in flight, and their streams.
#pragma once

#include <memory>
#include <vector>

#include <hmc/place.hpp>

#include "runtime/memory/pointer_lookup.hpp"

namespace hmc::detail {

/// A transfer is queued on a stream of the called Buffer: one per device, created at first use, or the user's. It is
/// ordered after all transfers in flight at its source and destination. Its event is stored at both, and orders later
/// reads and writes after it. The memory of both is kept until the event completes. One thread at a time.
class Transfers {
 public:
  using Keep = std::vector<std::shared_ptr<const void>>;

  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  /// Waits for its own transfers, because only this object keeps their memory. Doesn't wait for other work in a user's
  /// stream, unless a wait fails.
  ~Transfers();

  /// Uses the user's stream for that device.
  void use(const memory::Provider& provider, int device, void* native);
  /// A new object with the same streams of the user and no transfer in flight.
  std::shared_ptr<Transfers> alike() const;
  memory::Stream& stream(const memory::Provider& provider, int device);

  /// Starts a copy on a stream of `provider`, and records it at its source and destination. Returns `unsupported` if
  /// the provider doesn't support this copy. If it throws Error, the copy isn't in flight.
  base::Status put(const memory::Provider& provider, const memory::Transfer& copy, int device, Keep keep,
                   Transfers* other);
  /// Waits for the last put.
  void wait_for_last();
  /// Waits for all transfers in flight, and for all work of the streams. Throws the first Error.
  void synchronize();

 private:
  struct Lane {
    const memory::Provider* provider;
    int device;
    std::unique_ptr<memory::Stream> stream;
    bool is_users;
  };
  /// The point in a stream after a transfer.
  struct Mark {
    const memory::Provider* provider;
    std::unique_ptr<memory::Event> event;
  };
  struct Pending {
    std::shared_ptr<Mark> mark;
    bool is_own;  ///< in a stream of this object
    Keep keep;
  };

  /// Orders later work of `stream` after all transfers of this object.
  void come_before(memory::Stream& stream, const memory::Provider& provider, Keep& keep);
  void forget_passed() noexcept;
  void drain() noexcept;

  std::vector<Lane> lanes_;
  std::vector<Pending> pending_;
};

}  // namespace hmc::detail
