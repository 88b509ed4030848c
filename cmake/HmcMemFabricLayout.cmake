# MemFabric's layout. Its programs include from include/smem/host and include/hybm, link -lmf_smem -lmf_hybm_core, and find
# both below MEMFABRIC_HYBRID_HOME_PATH, which set_env.sh sets. All links are relative, as a prefix may be moved.
install(DIRECTORY compat/memfabric/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/smem/host FILES_MATCHING PATTERN "smem*.h"
        PATTERN hybm EXCLUDE)
install(DIRECTORY compat/memfabric/hybm/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hybm FILES_MATCHING PATTERN "hybm*.h")
# The first release's forms, for C programs: another include path is enough.
foreach(header smem smem_bm smem_bm_def smem_security smem_shm smem_shm_def)
  file(CONFIGURE OUTPUT first_release/${header}.h @ONLY CONTENT "/* <@header@.h> in the form of MemFabric's first release. */
#ifndef SMEM_FIRST_RELEASE
#define SMEM_FIRST_RELEASE
#endif
#include \"../../host/@header@.h\"
")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/first_release/${header}.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/smem/first_release/host)
endforeach()

set(home ${CMAKE_INSTALL_DATADIR}/hmc/memfabric_hybrid)
set(arch ${CMAKE_SYSTEM_PROCESSOR}-linux)
file(CONFIGURE OUTPUT set_env.sh @ONLY CONTENT [[# source set_env.sh, in bash or zsh: the environment of MemFabric's programs.
MEMFABRIC_HYBRID_HOME_PATH=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
export MEMFABRIC_HYBRID_HOME_PATH
export MEMFABRIC_HYBRID_EXTEND_LIB_PATH=$MEMFABRIC_HYBRID_HOME_PATH/@arch@/lib64
export LD_LIBRARY_PATH=$MEMFABRIC_HYBRID_EXTEND_LIB_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$MEMFABRIC_HYBRID_HOME_PATH/@arch@/bin:$PATH
]])
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/set_env.sh DESTINATION ${home})
install(CODE "
set(home \"\${CMAKE_INSTALL_PREFIX}/${home}\")
foreach(link \"include=${CMAKE_INSTALL_INCLUDEDIR}\" \"${arch}/include=${CMAKE_INSTALL_INCLUDEDIR}\"
             \"${arch}/lib64=${CMAKE_INSTALL_LIBDIR}\" \"${arch}/bin=${CMAKE_INSTALL_BINDIR}\")
  string(REPLACE = \";\" link \"\${link}\")
  list(GET link 0 from)
  list(GET link 1 to)
  set(to \"\${CMAKE_INSTALL_PREFIX}/\${to}\")
  cmake_path(GET from PARENT_PATH folder)
  cmake_path(RELATIVE_PATH to BASE_DIRECTORY \"\${home}/\${folder}\")
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${home}/\${folder}\")
  file(CREATE_LINK \"\${to}\" \"\$ENV{DESTDIR}\${home}/\${from}\" SYMBOLIC)
endforeach()
# One library has both names.
file(CREATE_LINK libmf_smem.so \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libmf_hybm_core.so\" SYMBOLIC)")
