#include "job/wires.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <hmc/error.hpp>

#include "runtime/control/secret.hpp"
#include "runtime/transport/am/tcp/tcp_wire.hpp"
#include "runtime/transport/rdma_port.hpp"
#include "runtime/transport/shm/shm_wire.hpp"
#ifdef HMC_HAVE_UCX
#include "runtime/transport/ucx/ucx_wire.hpp"
#endif
#ifdef HMC_HAVE_VERBS
#include "runtime/transport/rdma/verbs_wire.hpp"
#endif

namespace hmc::job {

using transport::Wire;
using transport::WireContext;

namespace {

std::unique_ptr<Wire> make_ucx([[maybe_unused]] const WireContext& context) {
#ifdef HMC_HAVE_UCX
  return transport::make_ucx_wire(context);
#else
  throw Error(Code::unavailable, "wires", "this build has no ucx wire", "build it with libucx-dev installed");
#endif
}

std::unique_ptr<Wire> make_verbs([[maybe_unused]] const WireContext& context) {
#ifdef HMC_HAVE_VERBS
  return transport::make_verbs_wire(context);
#else
  throw Error(Code::unavailable, "wires", "this build has no verbs wire", "build it with libibverbs-dev installed");
#endif
}

}  // namespace

std::vector<WireInfo> list_wires() {
  std::vector<WireInfo> wires{{"shm", true, "memory of ranks on the same node"}};
#ifdef HMC_HAVE_VERBS
  const transport::VerbsState verbs = transport::verbs_state();
  wires.push_back({"verbs", verbs.is_usable, verbs.why});
#else
  wires.push_back({"verbs", false, "built without libibverbs-dev"});
#endif
#ifdef HMC_HAVE_UCX
  wires.push_back({"ucx", true,
                   transport::ucx_description() +
                       (transport::has_active_rdma_port()
                            ? ", an RDMA port is active: one-sided put and get if a trial succeeds when the wire starts"
                            : ", not used by default: no RDMA port is active")});
#else
  wires.push_back({"ucx", false, "built without libucx-dev"});
#endif
  wires.push_back({"tcp", true, "messages over TCP"});
  return wires;
}

std::string_view wire_between_nodes(bool one_machine) {
  // Without RDMA, UCX uses TCP, and is slower than the tcp wire.
  if (one_machine || !transport::has_active_rdma_port()) return "tcp";
#if defined(HMC_HAVE_VERBS)
  return "verbs";
#elif defined(HMC_HAVE_UCX)
  return "ucx";
#else
  return "tcp";
#endif
}

std::vector<std::unique_ptr<Wire>> make_wires(const WireContext& context) {
  const std::string& forced = context.env->transport;
  if (context.tls && (forced == "verbs" || forced == "ucx"))
    throw Error(Code::invalid_config, "wires",
                fmt::format("HMC_TRANSPORT={} doesn't encrypt, and HMC_TLS=1 is set", forced), "use tcp");
  std::vector<std::unique_ptr<Wire>> wires;
  if (forced.empty() || forced == "shm")
    wires.push_back(std::make_unique<transport::ShmWire>(context.rank, *context.node_link, *context.waiter));
  if (forced == "verbs") wires.push_back(make_verbs(context));
  if (forced == "ucx") wires.push_back(make_ucx(context));
  const bool between_nodes = forced.empty() && context.several_nodes;
  if (between_nodes && !context.tls && wire_between_nodes(context.one_machine) != "tcp") {
    const auto add = [&](auto make) {
      try {
        wires.push_back(make(context));
        return true;
      } catch (const Error& error) {
        if (context.log != nullptr) context.log->warn("the RDMA device isn't used: {}", error.detail().message);
        return false;
      }
    };
    const bool prefers_verbs = wire_between_nodes(context.one_machine) == "verbs";
    if (!prefers_verbs || !add(make_verbs)) add(make_ucx);
  }
  if (forced == "tcp" || between_nodes) wires.push_back(transport::make_tcp_wire(context));
  return wires;
}

std::optional<base::TlsKey> tls_key(const base::Env& env) {
  if (!base::Env::uses_tls()) return std::nullopt;
  if (env.secret.empty())
    throw Error(Code::invalid_config, "HMC_TLS", "HMC_TLS=1 needs HMC_SECRET, from which it derives its keys",
                "set the same one for every process: export HMC_SECRET=$(openssl rand -hex 32)");
  return control::Secret::from_hex(env.secret).derive({base::as_bytes("hmc wire")}).key();
}

std::vector<std::unique_ptr<transport::OpenWire>> make_open_wires(const std::vector<std::string>& names, int most_peers,
                                                                  [[maybe_unused]] std::size_t channels,
                                                                  const base::Log& log,
                                                                  std::vector<std::string>& why_not) {
  transport::am::Options options;
  options.size = most_peers;
  options.log = log;
  const base::Env env = base::Env::from_process();
  options.tls = tls_key(env);
  // Without HMC_SECRET all peers are on this machine.
  if (!env.secret.empty()) options.key = control::key_of_wires(control::Secret::from_hex(env.secret));
  std::vector<std::unique_ptr<transport::OpenWire>> wires;
  for (const std::string& name : names) {
    try {
      if (options.tls && name != "tcp") {
        why_not.push_back(fmt::format("{}: it doesn't encrypt, and HMC_TLS=1 is set", name));
      } else if (name == "tcp") {
        wires.push_back(transport::make_tcp_wire(options));
#ifdef HMC_HAVE_UCX
      } else if (name == "ucx") {
        wires.push_back(transport::make_ucx_wire(options, "^sm"));
#endif
#ifdef HMC_HAVE_VERBS
      } else if (name == "verbs") {
        const auto pairs = std::max<std::size_t>(channels, static_cast<std::size_t>(env.rdma_queue_pairs));
        const auto most = static_cast<std::size_t>(transport::most_queue_pairs);
        wires.push_back(transport::make_open_verbs_wire(env, most_peers, static_cast<int>(std::min(pairs, most)), log));
#endif
      } else {
        why_not.push_back(fmt::format("{}: not in this build", name));
      }
    } catch (const Error& error) {
      why_not.push_back(fmt::format("{}: {}", name, error.detail().message));
    }
  }
  if (wires.empty())
    throw Error(Code::unavailable, "wires", fmt::format("no wire is available ({})", fmt::join(why_not, "; ")));
  return wires;
}

}  // namespace hmc::job
