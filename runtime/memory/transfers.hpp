// Transfers: what one Buffer has under way, and the streams that it goes by.
#pragma once

#include <memory>
#include <vector>

#include <hmc/place.hpp>

#include "runtime/memory/pointer_lookup.hpp"

namespace hmc::detail {

/// A transfer goes into the stream of the Buffer that was called (one per device, made at first need, or the user's),
/// behind all that both ends have under way, and leaves an event at both ends. Whatever is read or written later comes
/// after that. Memory that it reads or writes is kept until it was passed. One thread at a time.
class Transfers {
 public:
  using Keep = std::vector<std::shared_ptr<const void>>;

  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  /// Waits for its own transfers: nothing else keeps what they use. Never for what else a user's stream holds.
  ~Transfers();

  /// The stream of that device is the user's.
  void use(const memory::Provider& provider, int device, void* native);
  std::shared_ptr<Transfers> alike() const;
  memory::Stream& stream(const memory::Provider& provider, int device);

  /// A copy that one provider's stream can do, at both of its ends. Throws Error; nothing is under way then.
  /// `unsupported`: this provider has no such copy.
  base::Status put(const memory::Provider& provider, const memory::Transfer& copy, int device, Keep keep,
                   Transfers* other);
  /// Waits for the last put.
  void wait_for_last();
  /// Waits for all that is under way, and for all that the streams hold. Throws the first Error.
  void synchronize();

 private:
  struct Lane {
    const memory::Provider* provider;
    int device;
    std::unique_ptr<memory::Stream> stream;
    bool is_users;
  };
  /// A point behind a transfer.
  struct Mark {
    const memory::Provider* provider;
    std::unique_ptr<memory::Event> event;
  };
  struct Pending {
    std::shared_ptr<Mark> mark;
    bool is_own;  ///< in a stream of this one's
    Keep keep;
  };

  /// What `stream` gets from now on comes after all of this one's.
  void come_before(memory::Stream& stream, const memory::Provider& provider, Keep& keep);
  void forget_passed() noexcept;
  void drain() noexcept;

  std::vector<Lane> lanes_;
  std::vector<Pending> pending_;
};

}  // namespace hmc::detail
