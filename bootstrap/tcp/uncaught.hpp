// Uncaught errors: a rank that ends by an uncaught Error sends it to hmcrun, which prints one text for all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/base/fd.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::bootstrap {

/// What a rank sends.
struct UncaughtError {
  struct Frame {
    std::string file;          ///< the program or library
    std::uint64_t offset = 0;  ///< in the file, of the call
    static constexpr auto fields = std::tuple(&Frame::file, &Frame::offset);
  };
  std::int32_t rank = -1;
  std::string text;           ///< what(), without the rank
  std::vector<Frame> frames;  ///< innermost first; without HMC's library and the C++ runtime
  static constexpr auto fields = std::tuple(&UncaughtError::rank, &UncaughtError::text, &UncaughtError::frames);
};

/// hmcrun's side: a datagram socket, whose abstract name only the job's secret reveals.
class UncaughtErrors {
 public:
  /// Takes nothing: the ranks print their errors themselves.
  UncaughtErrors() = default;
  /// `host`: the ranks' HMC_NODE in a part of a job over several hosts, else empty. Without a socket if the system
  /// refuses one.
  UncaughtErrors(const control::Secret& secret, std::string_view host);
  int fd() const noexcept { return socket_.get(); }  ///< readable if errors may have arrived
  /// Those that have arrived, in order.
  std::vector<UncaughtError> take();

 private:
  base::UniqueFd socket_;
};

/// The rank's side. Replaces C++'s default terminate handler, and no other, in a process that hmcrun started: an
/// uncaught Error goes to hmcrun, and the process aborts as before. If hmcrun doesn't take it, and for other
/// exceptions, the default handler prints. Any thread; only the first call has an effect.
void report_uncaught_errors() noexcept;

}  // namespace hmc::bootstrap
