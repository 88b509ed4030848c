// For programs that use MPI: the ranks of an MPI communicator join a job. The program compiles this header with its own
// <mpi.h>. libhmc links no MPI.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <hmc/runtime.hpp>

namespace hmc {

/// Collective over `comm`, after MPI_Init. Rank and size are those of `comm`. MPI is used only until this function
/// returns: one broadcast of 1 KiB.
inline Runtime init(MPI_Comm comm) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto broadcast = [comm](const std::string& text) {
    std::vector<char> bytes(1024);
    std::copy_n(text.begin(), std::min(text.size(), bytes.size() - 1), bytes.begin());
    if (MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_CHAR, 0, comm) != MPI_SUCCESS)
      throw Error(Code::error, "init", "MPI_Bcast failed");
    return std::string(bytes.data());
  };
  std::string record;  // the broadcast is collective, so it happens once; get may be called again
  KeyValueStore store;
  store.set = [&](const std::string&, const std::string& value) { (void)broadcast(value); };
  store.get = [&](const std::string&, Timeout) {
    if (record.empty()) record = broadcast({});
    return record;
  };
  return Runtime::init(store, rank, size);
}

}  // namespace hmc
