#include "bootstrap/launchers/local.hpp"

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <optional>
#include <span>

#include <hmc/error.hpp>

#include "bootstrap/tcp/local_value.hpp"

namespace hmc::bootstrap {

namespace {

class LocalExchange final : public RecordExchange {
 public:
  explicit LocalExchange(std::string name) : name_(std::move(name)) {}
  void publish(const std::string& record, base::Deadline /*deadline*/) override {
    const base::ByteView bytes = std::as_bytes(std::span(record));
    value_.emplace(name_, base::Bytes(bytes.begin(), bytes.end()));
  }
  std::string fetch(base::Deadline deadline) override {
    const std::optional<base::Bytes> value = LocalValue::fetch(name_, deadline);
    if (!value)
      throw Error(Code::timeout, "join", "rank 0 of this job hasn't called Runtime::init on this machine",
                  "do all ranks of the job run the same program?");
    return std::string(base::as_text(*value));
  }

 private:
  const std::string name_;
  std::optional<LocalValue> value_;
};

}  // namespace

std::unique_ptr<RecordExchange> make_local(const std::string& job) {
  // Counts this process's jobs: equal on all ranks, because joining is collective. Relaxed: orders no other data.
  static std::atomic<unsigned> jobs{0};
  // Hashed, because an abstract socket's name is short. One library computes it on all ranks.
  return std::make_unique<LocalExchange>(
      fmt::format("job-{:x}-{}", std::hash<std::string>()(job), jobs.fetch_add(1, std::memory_order_relaxed)));
}

}  // namespace hmc::bootstrap
