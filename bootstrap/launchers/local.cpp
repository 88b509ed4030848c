#include "bootstrap/launchers/local.hpp"

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <optional>
#include <span>

#include <hmc/error.hpp>

#include "bootstrap/tcp/local_value.hpp"
#include "runtime/control/user_secret.hpp"

namespace hmc::bootstrap {

namespace {

class LocalExchange final : public RecordExchange {
 public:
  LocalExchange(const control::Secret& secret, std::string name) : secret_(secret), name_(std::move(name)) {}
  void publish(const std::string& record, base::Deadline /*deadline*/) override {
    const base::ByteView bytes = std::as_bytes(std::span(record));
    value_.emplace(secret_, name_, base::Bytes(bytes.begin(), bytes.end()));
  }
  std::string fetch(base::Deadline deadline) override {
    const std::optional<base::Bytes> value = LocalValue::fetch(secret_, name_, deadline);
    if (!value)
      throw Error(Code::timeout, "join", "rank 0 of this job hasn't called Runtime::init on this machine",
                  "do all ranks of the job run the same program?");
    return std::string(base::as_text(*value));
  }

 private:
  const control::Secret secret_;
  const std::string name_;
  std::optional<LocalValue> value_;
};

/// HMC_SECRET only if there is no other: the record says so if it is set for some of the ranks.
control::Secret secret_of_names(const std::string& given) {
  try {
    return control::user_secret();
  } catch (const Error&) {  // it names the path at fault, and HMC_SECRET
    if (given.empty()) throw;
    return control::Secret::from_hex(given);
  }
}

}  // namespace

std::unique_ptr<RecordExchange> make_local(const std::string& job, const std::string& given) {
  // Counts this process's jobs: equal on all ranks, because joining is collective. Relaxed: orders no other data.
  static std::atomic<unsigned> jobs{0};
  // Hashed, because an abstract socket's name is short. One library computes it on all ranks.
  return std::make_unique<LocalExchange>(
      secret_of_names(given),
      fmt::format("job-{:x}-{}", std::hash<std::string>()(job), jobs.fetch_add(1, std::memory_order_relaxed)));
}

}  // namespace hmc::bootstrap
