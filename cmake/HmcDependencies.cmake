# The library's dependencies. All are in Debian 12; `./dev` installs them.

# The next build finds a package that is installed after the configuration.
if(EXISTS /var/lib/dpkg/status)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS /var/lib/dpkg/status)
endif()

find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# HMC needs only SHA-256 of libcrypto. With the static archive, libhmc and hmcrun don't load the shared library, which
# takes a third of the load time of libhmc. HMC_TLS=1 loads libssl, and with it the shared library.
cmake_path(GET OPENSSL_CRYPTO_LIBRARY PARENT_PATH crypto_folder)
find_library(HMC_CRYPTO_ARCHIVE libcrypto.a PATHS ${crypto_folder} NO_DEFAULT_PATH)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

if(HMC_WITH_VERBS)
  pkg_check_modules(VERBS libibverbs) # its headers; the library is opened at run time
  if(NOT VERBS_FOUND)
    message(WARNING "libibverbs-dev isn't here: between nodes this build has no RMA in RDMA hardware")
  endif()
else()
  set(VERBS_FOUND FALSE)
endif()

pkg_check_modules(PMIX pmix) # its headers; the library is opened at run time
if(NOT PMIX_FOUND)
  message(WARNING "libpmix-dev isn't here: this build can't join the jobs of mpirun and srun --mpi=pmix")
endif()

if(HMC_WITH_UCX)
  pkg_check_modules(UCX IMPORTED_TARGET ucx)
  if(NOT UCX_FOUND)
    message(WARNING "libucx-dev isn't here: between nodes this build has TCP only, no RDMA networks")
  endif()
else()
  set(UCX_FOUND FALSE)
endif()
