#include "launcher/head.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <hmc/error.hpp>

#include "bootstrap/tcp/store_server.hpp"
#include "launcher/keeper.hpp"
#include "launcher/keeper_process.hpp"
#include "launcher/mailbox.hpp"
#include "launcher/part.hpp"
#include "launcher/report.hpp"
#include "launcher/streams.hpp"
#include "runtime/base/interfaces.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/control/secret.hpp"

namespace hmc::launcher {

namespace {

/// A part's connection to the store ends before its launch agent, by at most this time.
constexpr std::chrono::seconds part_end_limit{1};
/// A part ends its ranks within 5 s after TERM. Later its launch agent is killed.
constexpr std::chrono::seconds part_limit{8};
/// Time for the store's thread to forward Ctrl-Z, before all threads of this process stop.
constexpr std::chrono::milliseconds stop_delay{100};

/// A host's launch agent, a child of this process.
struct Part {
  const HostRanks* ranks;
  pid_t pid = -1;
  base::UniqueFd input;  ///< its standard input
  base::Bytes unsent;    ///< of its order
  bool is_up = false;    ///< its hmcrun has connected to the store
  std::optional<int> wait_status;

  bool has(int rank) const noexcept {
    return std::find(ranks->numbers.begin(), ranks->numbers.end(), rank) != ranks->numbers.end();
  }
  /// The exit status of its hmcrun; 125 if there was none, as when ssh failed.
  int status() const noexcept {
    const int status = status_of(*wait_status);
    return is_up || status == 0 || status == exit_not_found || status == exit_not_executable ? status
                                                                                             : exit_own_failure;
  }
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string own_program() {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) throw LaunchError(exit_own_failure, fmt::format("/proc/self/exe: {}", error.message()));
  return path;
}

/// ssh passes the words to a shell on the host.
std::string quoted_for_shell(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  return out + "'";
}

std::vector<std::string> command_for(const std::string& host, const Options& options) {
  const std::string program = own_program();
  if (options.launch_agent.empty() && is_this_machine(host)) return {program, "--part"};
  std::vector<std::string> words = words_of(options.launch_agent);
  const bool is_ssh = words.empty();
  if (is_ssh) words = {"ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5"};
  words.push_back(host);
  words.push_back(is_ssh ? quoted_for_shell(program) : program);
  words.push_back("--part");
  return words;
}

Environment passed_variables(const Options& options, const Environment& environment) {
  Environment passed;
  for (const std::string& entry : environment)
    if (entry.starts_with("HMC_") || entry.starts_with("UCX_") || entry.starts_with("MASTER_")) passed.push_back(entry);
  for (const std::string& setting : options.env) {
    const std::string name = setting.substr(0, setting.find('='));
    if (const char* const value = value_of(environment, name)) set(passed, name, value);
  }
  return passed;
}

class Head {
 public:
  Head(const Options& options, const std::vector<HostRanks>& hosts, const Environment& environment, int signals);
  int run();

 private:
  void start(Part& part, const Environment& environment, const Inherited& inherited);
  void open_store();
  void give_order(Part& part);
  void write_order(Part& part);
  void reap();
  void part_ended(Part& part);
  void handle(const SupervisorMessage& message);
  void handle_signals();
  void timed_out();
  void end_job(std::optional<int> status);
  void stop_self();
  void kill_parts();
  void host_lost();
  bool all_ended() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& each) { return each.wait_status.has_value(); });
  }
  int final_status() const;

  const Options& options_;
  const Environment& environment_;
  int signals_;
  control::Secret secret_ = control::Secret::random();
  std::vector<Part> parts_;
  base::Poller poller_;
  Mailbox mailbox_{poller_};
  TerminalInput input_{poller_};
  std::optional<int> status_;  ///< decided by this process: abort, --timeout, a signal
  std::optional<int> first_;   ///< of the first part that failed
  int failed_rank_ = -1;       ///< the first rank that failed
  int interrupts_ = 0;
  bool some_closed_ = false;
  SupervisorMessage lost_message_{};  ///< until lost_: a connection that has ended
  base::Poller::Timer job_{poller_, [this] { timed_out(); }};
  base::Poller::Timer stop_{poller_, [this] { stop_self(); }};
  base::Poller::Timer lost_{poller_, [this] {
                              reap();
                              host_lost();
                            }};
  base::Poller::Timer term_{poller_, [this] {
                              store_->send_command(SIGTERM);
                              kill_.set(part_limit);
                            }};
  base::Poller::Timer kill_{poller_, [this] { kill_parts(); }};
  std::unique_ptr<bootstrap::StoreServer> store_;  // last: its thread uses the mailbox
};

Head::Head(const Options& options, const std::vector<HostRanks>& hosts, const Environment& environment, int signals)
    : options_(options), environment_(environment), signals_(signals) {
  const Inherited inherited = Inherited::now();
  for (const HostRanks& each : hosts) parts_.push_back({&each, -1, {}, {}, false, {}});
  for (Part& part : parts_) start(part, environment, inherited);  // before this process has threads: see spawn()
  open_store();
  poller_.add(signals_, {.read = true}, [this](base::Readiness) { handle_signals(); });
  for (Part& part : parts_) give_order(part);
  if (options.timeout) job_.set(*options.timeout);
}

void Head::start(Part& part, const Environment& environment, const Inherited& inherited) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw LaunchError(exit_own_failure, fmt::format("pipe: {}", std::strerror(errno)));
  const base::UniqueFd theirs(ends[0]);
  part.input.reset(ends[1]);
  ::fcntl(part.input.get(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> words = command_for(part.ranks->host, options_);
  const char* const path = value_of(environment, "PATH");
  const std::string program = find_program(words.front(), path == nullptr ? "/bin:/usr/bin" : path);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (const std::string& entry : environment) envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);
  SpawnRequest request;
  request.program = program.c_str();
  request.argv = argv.data();
  request.envp = envp.data();
  request.in = theirs.get();
  request.inherited = &inherited;
  const SpawnResult result = spawn(request);
  if (result.error != 0)
    throw LaunchError(exit_own_failure, fmt::format("{}: {}: {}", program, result.step, std::strerror(result.error)));
  part.pid = result.pid;
}

void Head::open_store() {
  bootstrap::StoreServer::Events events;
  events.on_abort = [this](int rank, int exit_code, std::string text) {
    mailbox_.post({SupervisorMessage::What::aborted, rank, exit_code, 0, std::move(text)});
  };
  events.on_failure = [this](int rank, std::string text) {
    mailbox_.post({SupervisorMessage::What::failed, rank, 0, 0, std::move(text)});
  };
  events.on_node = [this](std::string label) {
    mailbox_.post({SupervisorMessage::What::node_up, -1, 0, 0, std::move(label)});
  };
  events.on_node_lost = [this](int rank, std::string text) {
    mailbox_.post({SupervisorMessage::What::node_lost, rank, 0, 0, std::move(text)});
  };
  events.on_no_member = [this] { mailbox_.post({SupervisorMessage::What::no_member, -1, 0, 0, {}}); };
  store_ = std::make_unique<bootstrap::StoreServer>(secret_, options_.ranks, ":0", std::move(events));
}

void Head::give_order(Part& part) {
  const std::string& address = store_->address();
  const std::string port = address.substr(address.rfind(':'));
  PartOrder order;
  order.options = options_;
  order.options.numbers = part.ranks->numbers;
  order.options.job_size = options_.ranks;
  order.host = part.ranks->host;
  order.secret = secret_.hex();
  order.variables = passed_variables(options_, environment_);
  std::error_code error;
  order.folder = std::filesystem::current_path(error).string();
  if (is_this_machine(order.host) && options_.launch_agent.empty()) {
    order.store = "127.0.0.1" + port;
  } else {
    for (const base::Ip& ip : base::usable_addresses())
      order.store += fmt::format("{}{}{}", order.store.empty() ? "" : ",",
                                 ip.bytes_used == 4 ? text_of(ip) : fmt::format("[{}]", text_of(ip)), port);
    if (order.store.empty())
      throw LaunchError(exit_own_failure, "this machine has no network address that other hosts can reach (HMC_NET)");
  }
  part.unsent = order.encode();
  poller_.add(part.input.get(), {.write = true}, [this, &part](base::Readiness) { write_order(part); });
}

int Head::run() {
  while (!all_ended()) {
    poller_.wait();
    for (const SupervisorMessage& message : mailbox_.take()) handle(message);
    reap();
  }
  return final_status();
}

/// After its order, the part of rank 0 gets this process's standard input.
void Head::write_order(Part& part) {
  const ssize_t sent = ::write(part.input.get(), part.unsent.data(), part.unsent.size());
  const bool has_failed = sent < 0 && errno != EAGAIN && errno != EINTR;  // the agent has ended: see part_ended
  if (sent > 0) part.unsent.erase(part.unsent.begin(), part.unsent.begin() + sent);
  if (!has_failed && !part.unsent.empty()) return;
  poller_.remove(part.input.get());
  if (!has_failed && part.ranks->numbers.front() == 0)
    input_.open(std::move(part.input));
  else
    part.input.reset();
}

void Head::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    const auto part = std::find_if(parts_.begin(), parts_.end(), [pid](const Part& each) { return each.pid == pid; });
    if (part == parts_.end()) continue;
    part->wait_status = status;
    part_ended(*part);
  }
}

void Head::part_ended(Part& part) {
  if (part.status() == 0) {
    some_closed_ = true;
    return;
  }
  if (!part.is_up && !kill_.is_set())
    print_message("host {}: the launch agent ({}) {}", part.ranks->host,
                  command_for(part.ranks->host, options_).front(), describe_end(*part.wait_status));
  if (!first_) first_ = part.status();
  if (!options_.keep_going) end_job(std::nullopt);
}

void Head::handle(const SupervisorMessage& message) {
  if (message.what == SupervisorMessage::What::aborted) {
    if (status_) return;
    print_message("rank {} aborted the job{}{}", message.rank, message.text.empty() ? "" : ": ", message.text);
    end_job(message.value == 0 ? 1 : message.value);
  }
  if (message.what == SupervisorMessage::What::node_up)
    for (Part& part : parts_) part.is_up = part.is_up || part.ranks->host == message.text;
  // The part of a failed rank prints its name, and exits with its status.
  if (message.what == SupervisorMessage::What::failed && failed_rank_ < 0) failed_rank_ = message.rank;
  if (message.what == SupervisorMessage::What::no_member) store_->send_command(command_start_no_more);
  if (message.what == SupervisorMessage::What::node_lost) {
    lost_message_ = message;
    lost_.set(part_end_limit);
  }
}

void Head::handle_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    store_->send_command(signal);
    if (signal == SIGTSTP) stop_.set(stop_delay);
    if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGTSTP) continue;
    if (!first_ && !status_) first_ = exit_signal_base + signal;
    if (signal == SIGINT && ++interrupts_ == 2) kill_.set({});
  }
}

void Head::end_job(std::optional<int> status) {
  if (!status_) status_ = status;
  if (!term_.is_set() && !kill_.is_set()) term_.set(news_delay);
}

void Head::timed_out() {
  if (status_) return;
  print_message("--timeout: ending the job, which isn't complete after {:g} s; its ranks:",
                static_cast<double>(options_.timeout->count()) * 1e-9);
  store_->send_command(command_describe);
  end_job(exit_timeout);
}

void Head::stop_self() {
  ::raise(SIGSTOP);
  store_->send_command(SIGCONT);
}

void Head::kill_parts() {
  for (const Part& part : parts_)
    if (!part.wait_status) ::kill(-part.pid, SIGKILL);
}

/// Reports a lost host, because its part can't. Does nothing if the part itself has ended.
void Head::host_lost() {
  for (const Part& part : parts_)
    if (part.wait_status && part.has(lost_message_.rank)) return;
  print_text(lost_message_.text);
  if (!first_) first_ = exit_own_failure;
  if (!options_.keep_going) end_job(std::nullopt);
}

/// The status of the part whose rank failed first. Later failures are consequences.
int Head::final_status() const {
  if (status_) return *status_;
  if (options_.keep_going && some_closed_) return 0;
  for (const Part& part : parts_)
    if (part.has(failed_rank_) && part.status() != 0) return part.status();
  return first_.value_or(0);
}

}  // namespace

int run_on_hosts(const Options& options, const std::vector<HostRanks>& hosts, const Environment& environment,
                 int signals) {
  std::signal(SIGPIPE, SIG_IGN);
  return Head(options, hosts, environment, signals).run();
}

}  // namespace hmc::launcher
