// mpi_app: an MPI program whose ranks become a job of HMC; compiled with each MPI's own compiler. Uses the world in
// reverse order, so that the rank in the communicator differs from the launcher's.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <hmc/hmc.hpp>
#include <hmc/mpi.hpp>
#include <vector>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int mpi_rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - mpi_rank, &reversed);
  int status = 0;
  try {
    for (std::uint64_t round = 0; round < 2; ++round) {
      hmc::Runtime runtime = hmc::init(reversed);
      const int rank = runtime.rank();
      std::vector<std::uint64_t> mine(1, round + 10 * static_cast<std::uint64_t>(mpi_rank)), all(runtime.size());
      runtime.world().allgather(mine, all);
      if (rank != size - 1 - mpi_rank || runtime.size() != size) status = 3;
      for (int from = 0; from < size; ++from)
        if (all[static_cast<std::size_t>(from)] != round + 10 * static_cast<std::uint64_t>(size - 1 - from)) status = 4;
      if (rank == 0 && status == 0 && round == 1) std::printf("rank 0 of %d\n", size);
      runtime.close();
    }
  } catch (const hmc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 2;
  }
  MPI_Comm_free(&reversed);
  MPI_Finalize();
  return status;
}
