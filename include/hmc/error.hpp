// What can go wrong, and the exception that says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <hmc/types.hpp>

namespace hmc {

/// One numbering for the C++ API, the C ABI and the older API's status_t (which has the first six).
enum class Code : int {
  success = 0,
  error = 1,           ///< a call to the system or to a library failed; the text says which
  unsupported = 2,     ///< this build, machine or kind of memory can't do it
  invalid_config = 3,  ///< arguments or settings that contradict each other
  timeout = 4,         ///< the deadline passed; the text names who was missing
  not_found = 5,
  invalid_argument = 6,
  out_of_range = 7,  ///< offset + size lies beyond the window
  misaligned = 8,    ///< an atomic or a signal off its natural border
  bad_rank = 9,
  closed = 10,  ///< the window, team or runtime was closed
  out_of_memory = 11,
  peer_failed = 12,  ///< a rank died; Error::peer says which
  aborted = 13,      ///< a rank called abort, or the launcher ended the job
  mismatch = 14,     ///< ranks called different collectives, or with different counts, types or ops
  unavailable = 15,  ///< a forced or needed wire can't be had
  refused = 16,      ///< authentication or protocol version
  in_progress = 17,  ///< not an error: a request isn't done yet
};

/// The older API's result type; its numbers are the first of Code.
enum class status_t : int { SUCCESS = 0, ERROR, UNSUPPORT, INVALID_CONFIG, TIMEOUT, NOT_FOUND };

HMC_API const char* name_of(Code code) noexcept;

/// Everything that is known about a failure. Fields that don't apply are -1 or 0; ranks are the world's.
struct ErrorDetail {
  Code code = Code::error;
  std::string operation;  ///< the call as the user knows it: "put", "allreduce", "Window::create"
  int rank = -1;          ///< who reports
  int peer = -1;          ///< the other side, or the rank that failed
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool has_extent = false;  ///< offset and size mean something
  int sys_errno = 0;
  std::string message;  ///< what happened
  std::string hint;     ///< what to do about it
};

/// Thrown by the public C++ API. what() is one line with every field that applies.
class HMC_API Error : public std::runtime_error {
 public:
  explicit Error(ErrorDetail detail);
  Error(Code code, std::string_view operation, std::string message, std::string hint = {});

  Code code() const noexcept { return detail_.code; }
  const ErrorDetail& detail() const noexcept { return detail_; }
  int rank() const noexcept { return detail_.rank; }
  int peer() const noexcept { return detail_.peer; }

 private:
  ErrorDetail detail_;
};

}  // namespace hmc
