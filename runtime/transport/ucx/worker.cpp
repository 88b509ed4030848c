#include "runtime/transport/ucx/worker.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/transport/signal_mask.hpp"

namespace hmc::transport::ucx {

namespace {

void require(const Library& ucp, ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  throw Error(Code::unavailable, "ucx", fmt::format("{}: {}", what, ucp.ucs_status_string(status)),
              "set UCX_LOG_LEVEL=info for details");
}

class Config {
 public:
  explicit Config(const Library& ucp) : ucp_(ucp) {
    require(ucp, ucp.ucp_config_read(nullptr, nullptr, &config_), "its configuration can't be read");
  }
  ~Config() { ucp_.ucp_config_release(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const char* name, const char* value) {
    require(ucp_, ucp_.ucp_config_modify(config_, name, value), fmt::format("{}={}", name, value).c_str());
  }
  /// The value in use. UCX parses its environment itself.
  std::string value(std::string_view name) const {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* const stream = ::open_memstream(&text, &size);
    if (stream == nullptr) return {};
    ucp_.ucp_config_print(config_, stream, nullptr, UCS_CONFIG_PRINT_CONFIG);
    std::fclose(stream);
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    const std::string all = fmt::format("\n{}", std::string_view(text, size));
    const std::string line = fmt::format("\nUCX_{}=", name);
    const auto at = all.find(line);
    if (at == std::string::npos) return {};
    const auto start = at + line.size();
    return all.substr(start, all.find('\n', start) - start);
  }
  ucp_config_t* get() const noexcept { return config_; }

 private:
  const Library& ucp_;
  ucp_config_t* config_ = nullptr;
};

}  // namespace

Worker::Worker(int job_size, const std::string& transports, bool with_memory_access) : ucp_(Library::get()) {
  Config config(ucp_);
  transports_ = config.value("TLS");
  if (!transports.empty() && transports_ == "all") {
    config.set("TLS", transports.c_str());
    transports_ = transports;
  }
  // By default UCX doesn't use TCP for more than 256 ranks. This wire connects only to the peers that it sends to.
  config.set("MAX_NUM_EPS", "inf");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (with_memory_access) params.features |= UCP_FEATURE_RMA;
  params.estimated_num_eps = static_cast<std::size_t>(job_size);
  require(ucp_, ucp_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context_),
          fmt::format("no network with the transports '{}'", transports_).c_str());

  try {
    worker_ = create_another();
  } catch (...) {
    ucp_.ucp_cleanup(context_);
    throw;
  }
}

ucp_worker_h Worker::create_another() const {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // requests of a failed peer; the worker frees their buffers
  const SignalMask mask;                               // UCX starts a thread here
  ucp_worker_h worker = nullptr;
  require(ucp_, ucp_.ucp_worker_create(context_, &params, &worker), "ucp_worker_create failed");
  return worker;
}

void Worker::destroy() noexcept {
  if (worker_ == nullptr) return;
  ucp_.ucp_worker_destroy(std::exchange(worker_, nullptr));
  ucp_.ucp_cleanup(std::exchange(context_, nullptr));
}

bool Worker::flush(std::int64_t limit_ns) noexcept {
  const ucp_request_param_t param{};
  void* const request = ucp_.ucp_worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return true;  // the flush is complete, or it failed and no message is pending
  const std::int64_t limit = base::now_ns() + limit_ns;
  ucs_status_t status = UCS_INPROGRESS;
  while ((status = ucp_.ucp_request_check_status(request)) == UCS_INPROGRESS && base::now_ns() < limit)
    if (ucp_.ucp_worker_progress(worker_) == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  ucp_.ucp_request_free(request);
  return status != UCS_INPROGRESS;
}

void Worker::leak_resources() noexcept {
  worker_ = nullptr;
  context_ = nullptr;
}

base::Bytes Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  require(ucp_, ucp_.ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address failed");
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  base::Bytes copy(first, first + bytes);
  ucp_.ucp_worker_release_address(worker_, address);
  return copy;
}

void Worker::on_message(ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = 0;
  params.cb = callback;
  params.arg = argument;
  require(ucp_, ucp_.ucp_worker_set_am_recv_handler(worker_, &params), "its messages can't be received");
}

int Worker::event_fd() const {
  int fd = -1;
  require(ucp_, ucp_.ucp_worker_get_efd(worker_, &fd), "its events can't be waited for");
  return fd;
}

}  // namespace hmc::transport::ucx
