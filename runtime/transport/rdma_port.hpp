// Whether this machine has an RDMA device that may be used.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace hmc::transport {

/// True if /dev/infiniband has devices and an RDMA port is active. Opens no device.
inline bool has_active_rdma_port() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_empty("/dev/infiniband", error) || error) return false;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", error))
    for (const auto& port : fs::directory_iterator(device.path() / "ports", error)) {
      std::ifstream in(port.path() / "state");  // "4: ACTIVE"
      std::string state;
      if (std::getline(in, state) && state.find("ACTIVE") != std::string::npos) return true;
    }
  return false;
}

}  // namespace hmc::transport
