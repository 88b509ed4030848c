// The tcp bootstrap: connects one rank to its node's agent.
#pragma once

#include <functional>
#include <memory>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/hosted_services.hpp"
#include "runtime/base/env.hpp"

namespace hmc::bootstrap {

/// Joins the job that HMC_RANK, HMC_SIZE and HMC_STORE (and HMC_SECRET, HMC_NODE) specify. If no agent serves this
/// node, this process starts one. Without a launcher (no HMC_LAUNCHER), rank 0 runs the store at HMC_STORE. Throws
/// Error.
std::unique_ptr<Bootstrap> join_tcp(const base::Env& env, base::Deadline deadline);
/// The same, with the secret and the store of `services`. Uses rank, size, store, node and launcher of `env`. `check`
/// is called while this rank waits for the others; it throws to end the wait.
std::unique_ptr<Bootstrap> join_tcp(const base::Env& env, std::unique_ptr<HostedServices> services,
                                    base::Deadline deadline, std::function<void()> check = nullptr);

}  // namespace hmc::bootstrap
