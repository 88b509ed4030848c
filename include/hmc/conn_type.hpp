// ConnType: the kind of connection that a Communicator asks for.
#pragma once

namespace hmc {

enum class ConnType { RDMA, UCX };

}  // namespace hmc
