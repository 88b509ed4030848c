#include "launcher/supervisor.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "bootstrap/common.hpp"
#include "launcher/part.hpp"
#include "launcher/report.hpp"
#include "launcher/uncaught.hpp"
#include "runtime/base/process_stat.hpp"
#include "runtime/base/rank_state.hpp"

namespace hmc::launcher {

namespace {

constexpr std::chrono::seconds term_to_kill{5};
/// hmcrun may see the exit of a rank later than its consequences, by at most this time. An interpreter that has lost
/// its connections may still take seconds to exit.
constexpr std::chrono::seconds blame_delay{5};
/// After a signal or --timeout, hmcrun waits at most this long for a reader of its output.
constexpr std::chrono::seconds drain_limit{2};

}  // namespace

Supervisor::Supervisor(const JobPlan& plan, Keeper& keeper, ControlPlane& control, base::Poller& poller,
                       Mailbox& mailbox, int signals, base::UniqueFd terminal_feed, bool output_pumped,
                       bootstrap::UncaughtErrors uncaught)
    : plan_(plan),
      keeper_(keeper),
      control_(control),
      poller_(poller),
      mailbox_(mailbox),
      signals_(signals),
      input_(poller),
      uncaught_(std::move(uncaught)),
      ranks_(static_cast<std::size_t>(plan.options.ranks)),
      output_done_(!output_pumped),
      job_(poller, [this] { timed_out(); }),
      cause_(poller,
             [this] {
               handle_messages();  // they may name the cause
               set_cause(possible_cause_);
             }),
      term_(poller, [this] { send_term(); }),
      kill_(poller,
            [this] {
              print_message("some ranks didn't end within {} s after TERM: killing them", term_to_kill.count());
              keeper_.signal(SIGKILL);
            }),
      drain_(poller, [this] { skips_output_ = true; }) {
  poller_.add(signals_, {.read = true}, [this](base::Readiness) { handle_signals(); });
  if (uncaught_.fd() >= 0) poller_.add(uncaught_.fd(), {.read = true}, [this](base::Readiness) { take_uncaught(); });
  poller_.add(keeper_.fd(), {.read = true}, [this](base::Readiness) { handle_keeper(); });
  input_.open(std::move(terminal_feed));
  if (plan.options.timeout) job_.set(*plan.options.timeout);
}

int Supervisor::run() {
  while (!gone_ || cause_.is_set() || (!output_done_ && !skips_output_)) {
    poller_.wait();
    handle_messages();
  }
  print_uncaught();
  if (!status_ && !lost_.empty()) return status_after_losses();
  if (!status_) {
    const std::vector<int> silent = control_.ranks_without_goodbye();
    if (!silent.empty())
      print_message("{} ended with status 0 but without Runtime::close", bootstrap::list_ranks(silent));
  }
  return status_.value_or(0);
}

// ---- events of the keeper

void Supervisor::handle_keeper() {
  handle_messages();
  while (!gone_) {
    const std::optional<KeeperEvent> event = keeper_.next();
    if (!event) return;
    switch (event->what) {
      case KeeperEvent::What::started: at(event->rank) = {State::running, event->pid, 0, -1}; break;
      case KeeperEvent::What::spawn_failed: spawn_failed(*event); break;
      case KeeperEvent::What::ended:
        handle_messages();  // what the rank told before its end
        rank_ended(*event);
        break;
      case KeeperEvent::What::gone:
        if (event->value > 0) print_message("{} processes of the job didn't end after KILL", event->value);
        gone_ = true;
        poller_.remove(keeper_.fd());
        keeper_.reap();
        for (base::Poller::Timer* const each : {&job_, &term_, &kill_}) each->stop();
        if (asked_to_end_) drain_.set(drain_limit);
        break;
      case KeeperEvent::What::lost:
        gone_ = true;
        poller_.remove(keeper_.fd());
        keeper_.end_orphans();
        if (status_) break;
        print_message("the keeper process was killed: the job has ended");
        status_ = exit_signal_base + SIGKILL;
        break;
    }
  }
}

void Supervisor::rank_ended(const KeeperEvent& event) {
  const int rank = event.rank;
  at(rank).state = State::ended;
  at(rank).wait_status = event.value;
  const base::Status notice = control_.failure_known_to(rank);  // read before this rank's exit is recorded
  const std::string no_replacement = no_replacement_of(rank);
  if (others_run() || plan_.is_part())
    control_.report_death(rank, fmt::format("rank {} {}", plan_.options.number(rank), describe_end(event.value)),
                          no_replacement);
  const bool failed = status_of(event.value) != 0;
  if (plan_.options.keep_going && !status_) return go_on_without(rank, no_replacement.empty());
  if (cause_.is_set() && rank == suspect_) return set_cause(failed ? rank : possible_cause_);
  if (status_ || cause_.is_set() || !failed) return;
  if (!may_be_a_consequence(rank, notice)) return set_cause(rank);
  possible_cause_ = rank;
  cause_.set(blame_delay);
}

/// Why this rank, whose process has ended, isn't started again; empty: it is.
std::string Supervisor::no_replacement_of(int rank) const {
  if (plan_.options.respawns == 0) return "hmcrun starts no rank again without --respawn";
  if (status_) return "hmcrun ends the job";
  if (status_of(at(rank).wait_status) == 0) return "its last process has exited with status 0";
  if (respawned_ >= plan_.options.respawns)
    return fmt::format("hmcrun has started ranks again {} times, the limit of --respawn", respawned_);
  if (!has_member_ || (!others_run() && !plan_.is_part())) return "all ranks that could call Team::grow have ended";
  if (!control_.is_in_job(rank)) return "its last process had closed the job, or hadn't joined it";
  return {};
}

void Supervisor::go_on_without(int rank, bool starts_again) {
  const int wait_status = at(rank).wait_status;
  if (status_of(wait_status) == 0) {
    some_closed_ |= control_.has_closed(rank);
    return;
  }
  lost_.push_back({rank, wait_status});
  print_uncaught();
  print_message("{} {}{}", name_of(rank), describe_end(wait_status),
                starts_again                      ? "; starting it again"
                : others_run() || plan_.is_part() ? "; the others go on"
                                                  : "");
  if (!starts_again) return;
  ++respawned_;
  at(rank).state = State::waiting;
  keeper_.launch_again(control_.store_address(), rank);
}

/// The job has succeeded if a rank has closed it. Otherwise the status is that of the rank that the node page records.
int Supervisor::status_after_losses() const {
  if (some_closed_) return 0;
  const int named = plan_.index_of(control_.failure_known_to(lost_.front().rank).peer);
  const auto cause = std::find_if(lost_.begin(), lost_.end(), [named](const Loss& each) { return each.rank == named; });
  return status_of((cause != lost_.end() ? *cause : lost_.front()).wait_status);
}

/// If a rank dies or aborts, the others fail within a millisecond. Their exits may be seen here before that rank's exit
/// or its abort message.
bool Supervisor::may_be_a_consequence(int rank, const base::Status& notice) {
  suspect_ = -1;
  if (notice.ok()) {
    // The rank may have named the cause: a rank that has closed early, or the failed one of a job over a key-value
    // store, which has a control plane of its own. An uncaught Error ends by SIGABRT; another signal isn't a
    // consequence.
    const int status = at(rank).wait_status;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT) return false;
    suspect_ = rank;
    for (int steps = 0; steps < plan_.options.ranks && at(suspect_).cause >= 0; ++steps) suspect_ = at(suspect_).cause;
    return suspect_ != rank && at(suspect_).state == State::running;
  }
  if (notice.code == Code::aborted) return true;
  if (notice.code != Code::peer_failed || notice.peer < 0) return false;
  suspect_ = plan_.index_of(notice.peer);
  if (suspect_ < 0) return true;  // on another host
  return suspect_ != rank && at(suspect_).state == State::running;
}

void Supervisor::set_cause_of(pid_t pid, pid_t cause) {
  const auto rank_of = [this](pid_t wanted) {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [=](const Rank& each) { return each.pid == wanted; });
    return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
  };
  const int rank = rank_of(pid);
  if (rank >= 0 && pid != cause) at(rank).cause = rank_of(cause);  // the last one: an Error may have been caught
}

void Supervisor::set_cause(int rank) {
  cause_.stop();
  if (status_) return;
  const int wait_status = at(rank).wait_status;
  const base::Status notice = control_.failure_known_to(rank);
  const int named = notice.code == Code::peer_failed ? plan_.index_of(notice.peer) : -1;
  if (named >= 0 && at(named).state == State::ended && status_of(at(named).wait_status) == 0)
    print_message("{} ended with status 0 but without Runtime::close: the others treat it as failed", name_of(named));
  // The cause is on another host, whose part prints it.
  const bool is_remote = plan_.is_part() && !notice.ok() && named < 0;
  if (!is_remote)
    print_message("{} {}{}", name_of(rank), describe_end(wait_status),
                  others_run() || plan_.is_part() ? "; ending the others" : "");
  end_job(status_of(wait_status), Term::after_the_notice);
}

bool Supervisor::others_run() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.state != State::ended; });
}

void Supervisor::spawn_failed(const KeeperEvent& event) {
  if (status_) return;
  const int error = event.value;
  const bool missing = error == ENOENT || error == ENOTDIR;
  const bool exec = std::strcmp(event.step, "execve") == 0;
  const char* hint = "";
  if (exec && missing) hint = " (its loader, or the interpreter in its first line, is missing)";
  if (std::strcmp(event.step, "fork") == 0) hint = " (too many processes: see ulimit -u)";
  print_message("rank {} can't be started: {}: {}: {}{}", plan_.options.number(event.rank),
                plan_.program_of(event.rank).file, event.step, std::strerror(error), hint);
  end_job(!exec ? exit_own_failure : missing ? exit_not_found : exit_not_executable, Term::now);
}

// ---- uncaught errors

/// At once, since the queue of a socket is short.
void Supervisor::take_uncaught() {
  for (bootstrap::UncaughtError& error : uncaught_.take()) unprinted_.push_back(std::move(error));
}

/// At the end of the job, so that all ranks with the same error are in one text; with --keep-going after each rank.
void Supervisor::print_uncaught() {
  take_uncaught();
  if (const std::string text = describe_uncaught(std::exchange(unprinted_, {})); !text.empty()) print_text(text);
}

// ---- messages of other threads

void Supervisor::handle_messages() {
  for (const SupervisorMessage& message : mailbox_.take()) handle(message);
}

void Supervisor::handle(const SupervisorMessage& message) {
  switch (message.what) {
    case SupervisorMessage::What::aborted:
      if (status_) break;
      print_message("rank {} aborted the job{}{}", message.rank, message.text.empty() ? "" : ": ", message.text);
      end_job(message.value == 0 ? 1 : message.value, Term::after_the_notice);
      break;
    case SupervisorMessage::What::node_up:
    case SupervisorMessage::What::failed:
    case SupervisorMessage::What::node_lost: break;  // only for Head
    case SupervisorMessage::What::command:
      if (message.value == command_start_no_more)
        has_member_ = false;
      else if (message.value == command_describe)
        print_text(describe_ranks());
      else if (message.value == SIGTSTP || message.value == SIGCONT)
        keeper_.signal(message.value);  // the hmcrun that the user started stops itself
      else
        handle_signal(message.value);
      break;
    case SupervisorMessage::What::store_lost:
      if (!status_ && others_run()) end_job(exit_own_failure, Term::after_the_notice);
      break;
    case SupervisorMessage::What::cause: set_cause_of(message.pid, message.value); break;
    case SupervisorMessage::What::no_member: has_member_ = false; break;
    case SupervisorMessage::What::output_done:
      output_done_ = true;
      if (message.value != 0 && !status_) status_ = exit_own_failure;
      break;
  }
}

// ---- signals

void Supervisor::handle_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info)))
    handle_signal(static_cast<int>(info.ssi_signo));
}

void Supervisor::handle_signal(int signal) {
  if (signal == SIGTSTP) {  // stops with the ranks
    keeper_.signal(SIGTSTP);
    ::raise(SIGSTOP);
    keeper_.signal(SIGCONT);
    return;
  }
  const bool ends = signal != SIGUSR1 && signal != SIGUSR2;
  asked_to_end_ |= ends;
  if (gone_) {  // only output is left to write
    skips_output_ |= ends;
    if (ends && !status_) status_ = exit_signal_base + signal;
    return;
  }
  if (signal == SIGINT && ++interrupts_ == 2) {
    print_message("interrupted twice: killing all ranks");
    if (!status_) status_ = exit_signal_base + SIGINT;
    skips_output_ = true;
    keeper_.kill_all();
    return;
  }
  keeper_.signal(signal);
  if (signal == SIGTERM && !kill_.is_set()) kill_.set(term_to_kill);
}

// ---- ends

void Supervisor::timed_out() {
  if (status_) return;
  std::string text = fmt::format("--timeout: ending the job, which isn't complete after {:g} s; its ranks:",
                                 static_cast<double>(plan_.options.timeout->count()) * 1e-9);
  print_text(text + describe_ranks());
  asked_to_end_ = true;
  end_job(exit_timeout, Term::now);
}

void Supervisor::end_job(int status, Term term) {
  if (!status_) status_ = status;
  cause_.stop();
  if (term == Term::now)
    send_term();
  else if (!kill_.is_set())
    term_.set(news_delay);
}

void Supervisor::send_term() {
  term_.stop();
  keeper_.signal(SIGTERM);
  keeper_.signal(SIGCONT);  // TERM has no effect on a stopped rank
  if (!kill_.is_set()) kill_.set(term_to_kill);
}

std::string Supervisor::describe_ranks() const {
  std::string text;
  for (int rank = 0; rank < plan_.options.ranks; ++rank) text += "\n  " + describe(rank);
  return plan_.is_part() ? text.substr(1) : text;
}

std::string Supervisor::name_of(int rank) const {
  const std::string where = plan_.is_part() ? fmt::format("host {}", plan_.host)
                                            : fmt::format("node {}", plan_.places[static_cast<std::size_t>(rank)].node);
  const std::string program = plan_.options.program_name(plan_.options.number(rank));
  return fmt::format("rank {} ({}{}pid {}, {})", plan_.options.number(rank), program, program.empty() ? "" : ", ",
                     at(rank).pid, where);
}

std::string Supervisor::describe(int rank) const {
  const Rank& state = at(rank);
  if (state.state == State::waiting) return fmt::format("rank {}: not started", plan_.options.number(rank));
  if (state.state == State::ended) return fmt::format("{}: {}", name_of(rank), describe_end(state.wait_status));
  const ControlPlane::RankActivity seen = control_.activity_of(rank);
  // The started program may be a wrapper whose child is the rank.
  const auto is_stopped = [](pid_t pid) {
    const std::optional<base::ProcessStat> process = pid > 0 ? base::stat_of(pid) : std::nullopt;
    return process && process->is_stopped();
  };
  const bool stopped = is_stopped(state.pid) || is_stopped(seen.pid);
  return fmt::format("{}: {}{}{}", name_of(rank), stopped ? "stopped" : "running", seen.activity.empty() ? "" : ", ",
                     seen.activity);
}

}  // namespace hmc::launcher
