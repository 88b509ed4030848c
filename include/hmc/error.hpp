// Error codes, and the exception that carries them. For C++14 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#if __cplusplus >= 201703L
#include <string_view>
#endif

#include <hmc/memory_type.hpp>

namespace hmc {

/// Error codes of the C++ API and the C ABI. The first six are also the values of status_t.
enum class Code : int {
  success = 0,
  error = 1,           ///< a system call or a library call failed; the message names it
  unsupported = 2,     ///< not supported by this build, machine or memory type
  invalid_config = 3,  ///< arguments or settings that contradict each other
  timeout = 4,         ///< the deadline has passed; the message names the missing ranks
  not_found = 5,
  invalid_argument = 6,
  out_of_range = 7,  ///< offset + size is beyond the rank's part of the window
  misaligned = 8,    ///< the word of an atomic or a signal isn't naturally aligned
  bad_rank = 9,
  closed = 10,  ///< the window, team or runtime was closed
  out_of_memory = 11,
  peer_failed = 12,  ///< a rank died; Error::peer() is the rank that died
  aborted = 13,      ///< a rank called abort, or the launcher ended the job
  mismatch = 14,     ///< ranks called different collectives, or passed different counts, types or operations
  unavailable = 15,  ///< a wire that is needed, or forced by HMC_TRANSPORT, isn't available
  refused = 16,      ///< authentication failed, or the protocol versions differ
  in_progress = 17,  ///< not an error: a request isn't complete
};

/// The result type of ConnBuffer, Memory and Communicator. Its values are the first six of Code.
enum class status_t : int { SUCCESS = 0, ERROR, UNSUPPORT, INVALID_CONFIG, TIMEOUT, NOT_FOUND };

HMC_API const char* name_of(Code code) noexcept;

/// The details of an error. Fields that don't apply are -1 or 0. Ranks are world ranks.
struct ErrorDetail {
  Code code = Code::error;
  std::string operation;  ///< the call that failed: "put", "allreduce", "Window::create"
  int rank = -1;          ///< the rank that reports the error
  int peer = -1;          ///< the target, or the rank that failed
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool has_extent = false;  ///< offset and size are set
  bool is_agreed = false;   ///< for HMC's own use: all ranks of the team throw this error in the same call
  int sys_errno = 0;
  std::string message;  ///< the cause
  std::string hint;     ///< a suggested fix; may be empty
};

/// Thrown by the public C++ API. what() is one line with every field that applies.
class HMC_API Error : public std::runtime_error {
 public:
  explicit Error(ErrorDetail detail);
#if __cplusplus >= 201703L
  Error(Code code, std::string_view operation, std::string message, std::string hint = {});
#endif

  Code code() const noexcept { return detail_.code; }
  const ErrorDetail& detail() const noexcept { return detail_; }
  int rank() const noexcept { return detail_.rank; }
  int peer() const noexcept { return detail_.peer; }

 private:
  ErrorDetail detail_;
};

}  // namespace hmc
