// hmcrun: starts N ranks of a program on one machine or several, runs their control plane, and exits when they have
// exited.

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hmc/error.hpp>
#include <new>

#include "bootstrap/common.hpp"
#include "launcher/control.hpp"
#include "launcher/head.hpp"
#include "launcher/hosts.hpp"
#include "launcher/keeper.hpp"
#include "launcher/mailbox.hpp"
#include "launcher/options.hpp"
#include "launcher/part.hpp"
#include "launcher/plan.hpp"
#include "launcher/report.hpp"
#include "launcher/streams.hpp"
#include "launcher/supervisor.hpp"
#include "runtime/base/env.hpp"

extern "C" char** environ;  // NOLINT: POSIX leaves its declaration to us

namespace hmc::launcher {
namespace {

/// Blocks the signals that the supervisor reads from a descriptor, before any thread is started.
base::UniqueFd take_signals(bool with_children) {
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) ::sigaddset(&handled, signal);
  if (with_children) ::sigaddset(&handled, SIGCHLD);
  struct sigaction hup {};
  ::sigaction(SIGHUP, nullptr, &hup);
  if (hup.sa_handler != SIG_IGN) ::sigaddset(&handled, SIGHUP);  // keep the setting of nohup
  sigset_t blocked = handled;
  ::sigaddset(&blocked, SIGTTIN);  // so that the terminal doesn't stop a background hmcrun
  ::sigaddset(&blocked, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  base::UniqueFd fd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw LaunchError(exit_own_failure, "signalfd: no descriptor left (ulimit -n)");
  return fd;
}

std::span<char> title_area(int argc, char** argv) {
  char* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;  // they are contiguous
  return {argv[0], end};
}

void print_to_stdout(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// An exception must not unwind into the pump's join, which waits for the end of the ranks' output. _exit closes the
/// keeper's socket, which ends the job.
int supervise(Keeper& keeper, ControlPlane& control, Supervisor& supervisor) {
  try {
    keeper.launch(control.store_address());
    const int status = supervisor.run();
    if (supervisor.skips_output()) ::_exit(status);  // the pump may be blocked by a reader that doesn't read
    return status;
  } catch (const std::exception& error) {
    print_text(error.what());
    ::_exit(exit_own_failure);
  }
}

int run_job(JobPlan& plan, const control::Secret& secret, std::span<char> title) {
  (void)base::Env::uses_tls();  // throws for a wrong value, which the store's thread couldn't
  const Inherited inherited = Inherited::now();
  raise_descriptor_limit();
  const base::UniqueFd signals = take_signals(false);
  set(plan.common, "HMC_SECRET", secret.hex());
  JobStreams streams = open_streams(plan.options);
  require_descriptors(plan.options.ranks, plan.options.nodes);
  Keeper keeper = Keeper::start(plan, streams, inherited, title);

  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed output returns EPIPE
  base::Poller poller;
  Mailbox mailbox(poller);
  ControlPlane control(plan, secret, mailbox);
  const bool pumped = !streams.sources.empty();
  OutputPump pump(std::move(streams.sources), mailbox);
  // In a rank's own file its errors aren't mixed with those of other ranks.
  bootstrap::UncaughtErrors uncaught =
      plan.options.output_dir.empty() ? bootstrap::UncaughtErrors(secret, plan.host) : bootstrap::UncaughtErrors();
  Supervisor supervisor(plan, keeper, control, poller, mailbox, signals.get(), std::move(streams.terminal_feed), pumped,
                        std::move(uncaught));
  return supervise(keeper, control, supervisor);
}

/// Sets the variables in this process too: its control plane reads HMC_TLS, HMC_NET and others.
void adopt(const Environment& variables) {
  for (const std::string& entry : variables) {
    const std::size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
}

/// The hmcrun of one host, started by the user's hmcrun.
int run_part(std::span<char> title) {
  PartOrder order = PartOrder::read(STDIN_FILENO);
  if (::chdir(order.folder.c_str()) != 0)
    print_message("host {}: {}: {}; the ranks run in another folder", order.host, order.folder, std::strerror(errno));
  adopt(order.variables);
  JobPlan plan = make_plan(std::move(order.options), environ);
  plan.host = order.host;
  plan.store = order.store;
  for (const std::string& warning : plan.warnings) print_text(warning);
  if (plan.options.report_bindings) print_text(describe_bindings(plan));
  return run_job(plan, control::Secret::from_hex(order.secret), title);
}

std::string describe_hosts(const std::vector<HostRanks>& hosts) {
  std::string text;
  for (const HostRanks& each : hosts)
    text += fmt::format("host {}: {}\n", each.host, bootstrap::list_ranks(each.numbers));
  return text;
}

const std::string& host_of_rank_0(const std::vector<HostRanks>& hosts) {
  for (const HostRanks& each : hosts)
    if (std::find(each.numbers.begin(), each.numbers.end(), 0) != each.numbers.end()) return each.host;
  return hosts.front().host;
}

int run(int argc, char** argv) {
  fill_standard_descriptors();
  if (argc == 2 && std::strcmp(argv[1], "--part") == 0) return run_part(title_area(argc, argv));
  Options options = parse_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.print.empty()) {
    print_to_stdout(options.print);
    return 0;
  }
  std::vector<std::string> warnings;
  const Environment environment = common_environment(environ, options.env, warnings);
  if (const std::vector<Host> hosts = find_hosts(options, environment); !hosts.empty()) {
    const std::vector<HostRanks> ranks = assign_ranks(hosts, options);
    for (Program& program : options.programs)  // "VAR" means this process's value
      program.env = program_environment(environment, program.env, warnings);
    for (const std::string& warning : warnings) print_text(warning);
    if (options.dry_run) return print_to_stdout(describe_hosts(ranks)), 0;
    Environment with_master = environment;
    set_master(with_master, host_of_rank_0(ranks));
    adopt(with_master);
    (void)base::Env::uses_tls();
    const base::UniqueFd signals = take_signals(true);
    return run_on_hosts(options, ranks, with_master, signals.get());
  }
  if (options.ranks == 0) throw UsageError("-np is missing: give the number of ranks");
  JobPlan plan = make_plan(std::move(options), environ);
  for (const std::string& warning : plan.warnings) print_text(warning);
  if (plan.options.report_bindings) print_text(describe_bindings(plan));
  if (plan.options.dry_run) {
    print_to_stdout(describe_plan(plan));
    return 0;
  }
  return run_job(plan, control::Secret::random(), title_area(argc, argv));
}

}  // namespace
}  // namespace hmc::launcher

int main(int argc, char** argv) {
  using namespace hmc::launcher;
  try {
    return run(argc, argv);
  } catch (const LaunchError& failure) {
    print_text(failure.what());
    return failure.status();
  } catch (const hmc::Error& error) {
    print_text(error.what());
  } catch (const std::bad_alloc&) {
    print_text("no memory");
  } catch (const std::exception& error) {
    print_text(error.what());
  }
  return exit_own_failure;
}
