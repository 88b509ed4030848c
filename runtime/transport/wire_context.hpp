// WireContext: the job's data for the constructor of a wire.
#pragma once

#include <optional>

#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/node_link.hpp"
#include "runtime/base/tls.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/keystream.hpp"

namespace hmc::transport {

struct WireContext {
  int rank = 0;
  int size = 1;
  int local_index = 0;
  bool several_nodes = false;  ///< at least one peer is on another (real or simulated) node
  bool one_machine = true;     ///< all ranks share a kernel: a network wire must not use shared memory
  bool one_network = false;    ///< all ranks share a machine and its loopback interface
  base::NodeLink* node_link = nullptr;
  base::Waiter* waiter = nullptr;
  const base::Log* log = nullptr;
  const base::Env* env = nullptr;
  Keystream::Key key{};             ///< of the job, for the tags of messages
  std::optional<base::TlsKey> tls;  ///< HMC_TLS: only wires that encrypt by this key may be used between nodes
};

}  // namespace hmc::transport
