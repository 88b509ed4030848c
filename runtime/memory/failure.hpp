// Failures: converts the result of a call to a vendor's library to a Status or an Error that names the call and the
// code.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/status.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

class Failures {
 public:
  explicit Failures(const Vendor& vendor) : vendor_(vendor) {}

  Code code_of(const Answer& answer) const noexcept;
  /// "cuMemCreate answered CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string text_of(const Answer& answer) const;

  base::Status to_status(const Answer& answer) const noexcept;
  /// Throws if the answer isn't success.
  void check(const Answer& answer, std::string_view operation) const;

 private:
  const Vendor& vendor_;
  // A Status points to its text, so the texts are never freed: at most one per pair of call and code.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<const char*, long>, std::string> texts_;
};

}  // namespace hmc::memory
