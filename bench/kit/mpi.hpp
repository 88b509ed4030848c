// What every program compiled with an MPI needs.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace bench {

inline void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw std::runtime_error(std::string(call) + " failed");
}

/// "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date ...", version 5 with spaces: up to the
/// version.
inline std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  std::string first = all.substr(0, all.find_first_of(",\n"));
  if (const std::size_t at = first.find(" Version:"); at != std::string::npos)
    first.erase(at + 1, first.find_first_not_of(" \t", at + 9) - at - 1);
  return first;
}

}  // namespace bench
