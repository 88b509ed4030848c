#include "bootstrap/tcp/node_agent.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <hmc/error.hpp>

#include "bootstrap/tcp/agent.hpp"
#include "bootstrap/tcp/await.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

namespace {

[[noreturn]] void refused(const std::string& store, const std::string& fault) {
  // A store that rejects the hello closes the connection without an answer.
  throw Error(Code::refused, "join",
              fmt::format("the store at {} closed the connection{}{}", store, fault.empty() ? "" : ": ", fault),
              "is HMC_SECRET the same for every rank, and is HMC's version?");
}

ControlConnection introduce(const Secret& secret, const std::string& store, std::string_view label, int job_size,
                            base::Deadline deadline) {
  ControlConnection link(connect_tcp(store, deadline), secret, ControlConnection::Side::client);
  constexpr std::size_t longest_label = 200;
  link.send(NodeHello{job_size, ::getpid(), std::string(label.substr(0, longest_label))});
  std::vector<base::UniqueFd> fds;
  for (;;) {
    if (const auto frame = link.next(fds)) {
      if (decode<Welcome>(*frame)) return link;
      if (const auto refusal = decode<Refusal>(*frame)) throw Error(refusal->code, "join", refusal->text);
      refused(store, "it sent an unexpected message");
    }
    if (link.ended()) refused(store, link.fault());
    if (deadline.expired()) throw Error(Code::timeout, "join", fmt::format("the store at {} doesn't answer", store));
    move_or_sleep(link, deadline.left_ms());
  }
}

}  // namespace

std::unique_ptr<NodeAgent> NodeAgent::start(const Secret& secret, const std::string& store, std::string_view node_label,
                                            int job_size, Events events, base::Deadline deadline, int store_rank) {
  base::UniqueFd listener = listen_unix(socket_name(secret, node_label));
  if (!listener) return nullptr;
  ControlConnection link = introduce(secret, store, node_label, job_size, deadline);
  auto agent =
      std::make_unique<Agent>(secret, std::move(listener), std::move(link), job_size, std::move(events), store_rank);
  return std::unique_ptr<NodeAgent>(new NodeAgent(std::move(agent)));
}

NodeAgent::NodeAgent(std::unique_ptr<Agent> agent) : agent_(std::move(agent)) {}
NodeAgent::~NodeAgent() = default;

const base::NodePage& NodeAgent::page() const noexcept { return agent_->page(); }
void NodeAgent::report_death(int rank, std::string_view cause) { agent_->report_death(rank, std::string(cause)); }
bool NodeAgent::wait_for_goodbyes(base::Deadline deadline) { return agent_->wait_for_goodbyes(deadline); }

std::vector<int> NodeAgent::ranks_without_goodbye() { return agent_->ranks_without_goodbye(); }

std::string NodeAgent::socket_name(const Secret& secret, std::string_view node_label) {
  const Secret name = secret.derive({base::as_bytes("hmc node socket"), base::as_bytes(node_label)});
  constexpr std::size_t digits = 32;  // 128 bits: no collision with another job's name
  return "hmc-" + name.hex().substr(0, digits);
}

}  // namespace hmc::bootstrap
