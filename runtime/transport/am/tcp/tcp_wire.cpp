#include "runtime/transport/am/tcp/tcp_wire.hpp"

#include <algorithm>

#include "runtime/base/env.hpp"
#include "runtime/transport/am/tcp/tcp_link.hpp"

namespace hmc::transport {

namespace {

/// As long as an outage may last, and at least the default.
tcp::Patience patience() {
  tcp::Patience patience;
  patience.lost_host_s = base::Env::lost_host_s();
  patience.whole_ns = std::max(patience.whole_ns, std::int64_t{patience.lost_host_s} * 1'000'000'000);
  return patience;
}

}  // namespace

std::unique_ptr<am::AmWire> make_tcp_wire(const am::Options& options) {
  return std::make_unique<am::AmWire>(
      options, std::make_unique<tcp::TcpLink>(options.log, patience(), tcp::Reachable::by_all_interfaces, nullptr,
                                              tcp::Bbr::replace, options.tls));
}

std::unique_ptr<Wire> make_tcp_wire(const WireContext& context) {
  const am::Options options = am::options_of(context);
  const tcp::Reachable reachable =
      context.one_network ? tcp::Reachable::by_loopback : tcp::Reachable::by_all_interfaces;
  const tcp::Bbr bbr = context.env->keeps_tcp_congestion ? tcp::Bbr::keep : tcp::Bbr::replace;
  return std::make_unique<am::AmWire>(
      options, std::make_unique<tcp::TcpLink>(options.log, patience(), reachable, context.waiter, bbr, options.tls));
}

}  // namespace hmc::transport
