#include "bootstrap/launchers/pmi1.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>

#include <hmc/error.hpp>

#include "bootstrap/launchers/texts.hpp"
#include "runtime/base/fork.hpp"
#include "runtime/base/poller.hpp"

namespace hmc::bootstrap {

namespace {

/// This process's conversation with its process manager: a request and its reply are a line each, "cmd=name key=value
/// ...". Threads: any.
///
/// It lasts until the process exits: the manager closes the socket after `finalize`, and a process that exits without
/// `finalize` counts as failed.
class Pmi1Client {
 public:
  explicit Pmi1Client(int fd) : fd_(fd), process_(base::this_process()) {
    (void)ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", base::Deadline::after(first_reply));
    space_ = pmi1_value(ask("cmd=get_my_kvsname", "my_kvsname", base::Deadline::after(first_reply)), "kvsname");
  }
  ~Pmi1Client() {
    if (base::this_process() != process_) return;  // a child of fork()
    try {
      (void)ask("cmd=finalize", "finalize_ack", base::Deadline::after(std::chrono::seconds(1)));
    } catch (const Error&) {
      // The program's MPI has already ended the conversation.
    }
  }
  Pmi1Client(const Pmi1Client&) = delete;
  Pmi1Client& operator=(const Pmi1Client&) = delete;

  void put(const std::string& key, const std::string& value, base::Deadline deadline) {
    (void)ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result", deadline);
  }
  void barrier(base::Deadline deadline) { (void)ask("cmd=barrier_in", "barrier_out", deadline); }
  std::string get(const std::string& key, base::Deadline deadline) {
    return std::string(
        pmi1_value(ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline), "value"));
  }
  /// The number of this process's next job; equal on all ranks, because joining is collective.
  unsigned next_job() noexcept { return jobs_++; }

 private:
  static constexpr std::chrono::seconds first_reply{10};

  [[noreturn]] static void fail(const std::string& why) {
    throw Error(Code::unavailable, "join", fmt::format("the process manager at PMI_FD: {}", why),
                "hmcrun -np N ./app needs no process manager");
  }

  std::string ask(const std::string& request, std::string_view reply, base::Deadline deadline) {
    const std::lock_guard lock(mutex_);
    const std::string line = request + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t got = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail(std::strerror(errno));
      sent += static_cast<std::size_t>(got);
    }
    for (;;) {
      const std::string received = read_line(deadline);
      if (pmi1_value(received, "cmd") != reply) fail(fmt::format("unexpected reply '{}' to '{}'", received, request));
      const std::string_view code = pmi1_value(received, "rc");
      if (!code.empty() && code != "0") fail(fmt::format("'{}' failed: {}", request.substr(0, 16), received));
      return received;
    }
  }
  std::string read_line(base::Deadline deadline) {
    for (;;) {
      if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
        std::string line = received_.substr(0, end);
        received_.erase(0, end + 1);
        return line;
      }
      if (!base::wait_for(fd_, {.read = true}, deadline.left_ms()) && deadline.expired())
        throw Error(Code::timeout, "join", "the process manager at PMI_FD doesn't answer; have all ranks started?");
      std::array<char, 2048> part{};
      const ssize_t got = ::recv(fd_, part.data(), part.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) fail(got == 0 ? "it has closed the connection" : std::strerror(errno));
      received_.append(part.data(), static_cast<std::size_t>(got));
    }
  }

  const int fd_;
  const std::uint64_t process_;
  std::mutex mutex_;
  std::string space_;
  std::string received_;
  unsigned jobs_ = 0;
};

class Pmi1Exchange final : public RecordExchange {
 public:
  explicit Pmi1Exchange(Pmi1Client& client) : client_(client), key_(fmt::format("hmc-{}", client.next_job())) {}
  void publish(const std::string& record, base::Deadline deadline) override {
    client_.put(key_, record, deadline);
    client_.barrier(deadline);
  }
  std::string fetch(base::Deadline deadline) override {
    client_.barrier(deadline);
    return client_.get(key_, deadline);
  }

 private:
  Pmi1Client& client_;
  const std::string key_;
};

}  // namespace

std::unique_ptr<RecordExchange> make_pmi1(int fd) {
  static Pmi1Client client(fd);
  return std::make_unique<Pmi1Exchange>(client);
}

}  // namespace hmc::bootstrap
