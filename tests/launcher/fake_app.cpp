// fake_app: a rank that executes its arguments in order. It doesn't use HMC.
//
//   [R:]verb[=argument] ...        "1:exit=3" concerns rank 1 only
//
//   exit=N        ends with status N            sleep=S       sleeps S seconds
//   crash         ends by SIGSEGV               ignore=NAME   ignores INT, TERM, ...
//   print=TEXT    a line on stdout              part=TEXT     the same without a line feed
//   error=TEXT    a line on stderr              ready         "ready" on stdout, at once
//   report=NAME   from now on, prints "got NAME" when that signal arrives, and continues
//   lines=N,W     N lines of W characters that depend on rank, line and column; see expected_line()
//   cat           copies stdin to stdout        bytes=N       N bytes of 'x' without a line feed
//   child         a child that sleeps forever   setsid        the same in its own session
//   orphan        a grandchild that sleeps forever and whose parent has ended
//   stubborn      a child that ignores TERM and sleeps forever
//   stop          stops itself (SIGSTOP)        fds           a line with its open descriptors

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

namespace {

int my_rank() {
  const char* const rank = std::getenv("HMC_RANK");
  return rank == nullptr ? -1 : std::atoi(rank);
}

const std::map<std::string, int> signals{{"INT", SIGINT},   {"TERM", SIGTERM}, {"HUP", SIGHUP},  {"QUIT", SIGQUIT},
                                         {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"CONT", SIGCONT}};

void on_signal(int signal) {
  for (const auto& [name, number] : signals) {
    if (number != signal) continue;
    const std::string text = "got " + name + "\n";
    (void)!::write(STDOUT_FILENO, text.data(), text.size());
  }
}

void sleep_seconds(double seconds) {
  // A signal that is reported doesn't end the sleep.
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_until(end);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

void start_child(bool own_session, bool orphan, bool stubborn) {
  if (::fork() == 0) {
    if (own_session) ::setsid();
    if (stubborn) std::signal(SIGTERM, SIG_IGN);
    if (orphan && ::fork() > 0) ::_exit(0);
    sleep_for_ever();
  }
  if (orphan) ::wait(nullptr);
}

void write_lines(int count, int width) {
  std::string line(static_cast<std::size_t>(width), ' ');
  for (int i = 0; i < count; ++i) {
    for (int column = 0; column < width; ++column)
      line[static_cast<std::size_t>(column)] = static_cast<char>('!' + (my_rank() * 31 + i * 7 + column) % 90);
    std::puts(line.c_str());
  }
}

void copy_stdin() {
  char buffer[65536];
  for (ssize_t size = 0; (size = ::read(STDIN_FILENO, buffer, sizeof(buffer))) > 0;) {
    std::fwrite(buffer, 1, static_cast<std::size_t>(size), stdout);
    std::fflush(stdout);
  }
}

void print_descriptors() {
  for (int fd = 0; fd < 1024; ++fd)
    if (::fcntl(fd, F_GETFD) >= 0) std::printf("%d ", fd);
  std::printf("\n");
}

void act(const std::string& verb, const std::string& argument) {
  if (verb == "exit") std::exit(std::atoi(argument.c_str()));
  if (verb == "sleep") return sleep_seconds(std::atof(argument.c_str()));
  if (verb == "crash") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make it an exit
    std::raise(SIGSEGV);
  }
  if (verb == "ignore") std::signal(signals.at(argument), SIG_IGN);
  if (verb == "report") std::signal(signals.at(argument), &on_signal);
  if (verb == "print") std::printf("%s\n", argument.c_str());
  if (verb == "part") std::printf("%s", argument.c_str());
  if (verb == "error") std::fprintf(stderr, "%s\n", argument.c_str());
  if (verb == "ready") std::printf("ready\n");
  if (verb == "cat") copy_stdin();
  if (verb == "bytes") std::fputs(std::string(std::strtoul(argument.c_str(), nullptr, 10), 'x').c_str(), stdout);
  if (verb == "lines") write_lines(std::atoi(argument.c_str()), std::atoi(std::strchr(argument.c_str(), ',') + 1));
  if (verb == "child") start_child(false, false, false);
  if (verb == "setsid") start_child(true, false, false);
  if (verb == "orphan") start_child(true, true, false);
  if (verb == "stubborn") start_child(false, false, true);
  if (verb == "fds") print_descriptors();
  if (verb == "stop") std::raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::size_t colon = word.substr(0, equals).find(':');
    if (colon != std::string::npos) {
      if (std::stoi(word.substr(0, colon)) != my_rank()) continue;
      word.erase(0, colon + 1);
    }
    const std::size_t split = word.find('=');
    act(word.substr(0, split), split == std::string::npos ? "" : word.substr(split + 1));
    std::fflush(stdout);
  }
  return 0;
}
