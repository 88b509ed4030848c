# `cmake --install`: a prefix that may be moved. Programs find the library by find_package(hmc) or by
# hmc.pc; the library's own dependencies aren't exported. The static library needs them: find_package(hmc COMPONENTS
# static), target hmc::static, and hmc-static.pc.
include(CMakePackageConfigHelpers)

install(TARGETS hmc mf_smem EXPORT hmc-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES $<TARGET_FILE:hmc_internal> DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The name in HMC's older library, for the linker.
file(CREATE_LINK libhmc.so ${CMAKE_CURRENT_BINARY_DIR}/libhmc_shared_lib.so SYMBOLIC)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libhmc_shared_lib.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.cuh")
install(DIRECTORY compat/hamr/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "hamr_*.h")
install(DIRECTORY compat/memfabric/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "smem*.h" PATTERN hybm EXCLUDE)
include(cmake/HmcMemFabricLayout.cmake)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES launcher/hmcrun.1 launcher/hmcinfo.1 launcher/hmcc++.1 sim/hmc-sim.1 verify/hmc-verify.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# `./dev docs` creates it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

# ---- programs. The library and the launcher must have been built; other programs are installed if built.
install(TARGETS hmcrun hmcinfo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(name hmcc hmcc++)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/launcher/hmcc DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ${name})
endforeach()
install(FILES launcher/hmcc++.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME hmcc.1)
set(programs hmc-sim hmc-verify)
if(HMC_BUILD_BENCH)
  list(APPEND programs hmc_floor hmc_osu)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
if(HMC_BUILD_BENCH)
  get_target_property(links hmc_osu HMC_LINKS)
  install(CODE "
if(EXISTS \"$<TARGET_FILE:hmc_osu>\")
  file(INSTALL ${links} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
endif()")
endif()
if(HMC_BUILD_EXAMPLES)
  get_target_property(examples examples MANUALLY_ADDED_DEPENDENCIES)
  set(examples_dir ${CMAKE_INSTALL_LIBEXECDIR}/hmc/examples)
  install(TARGETS ${examples} RUNTIME DESTINATION ${examples_dir} OPTIONAL)
  list(APPEND programs ${examples})
  # Their sources, as a separate project.
  set(sources_dir ${CMAKE_INSTALL_DATADIR}/hmc/examples)
  string(REGEX REPLACE "[^/]+" ".." to_prefix ${sources_dir})
  configure_file(examples/installed.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/examples/installed.cmake @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/examples/installed.cmake DESTINATION ${sources_dir} RENAME CMakeLists.txt)
  install(DIRECTORY examples/ DESTINATION ${sources_dir} FILES_MATCHING PATTERN "[0-9]*.cpp" PATTERN "[0-9]*.c")
endif()
# Builds all installed targets.
add_custom_target(installed DEPENDS hmc hmc_internal mf_smem hmcrun hmcinfo ${programs})
foreach(program IN LISTS programs)
  list(APPEND files $<TARGET_FILE:${program}>)
endforeach()
install(CODE "
foreach(file IN ITEMS ${files})
  if(NOT EXISTS \"\${file}\")
    cmake_path(GET file FILENAME name)
    list(APPEND absent \${name})
  endif()
endforeach()
if(absent)
  list(JOIN absent \" \" absent)
  message(STATUS \"Not built (target: installed), so not installed: \${absent}\")
endif()")

# ---- find_package(hmc)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hmc)
install(EXPORT hmc-targets NAMESPACE hmc:: DESTINATION ${cmake_dir})
write_basic_package_version_file(hmc-config-version.cmake COMPATIBILITY SameMinorVersion)
# From lib/cmake/hmc (whatever the depth of lib) back to the prefix.
string(REGEX REPLACE "[^/]+" ".." to_prefix ${cmake_dir})
file(CONFIGURE OUTPUT hmc-config.cmake @ONLY CONTENT
"include(\${CMAKE_CURRENT_LIST_DIR}/hmc-targets.cmake)
# The launcher, for tests of consumers.
get_filename_component(HMC_HMCRUN \"\${CMAKE_CURRENT_LIST_DIR}/@to_prefix@/@CMAKE_INSTALL_BINDIR@/hmcrun\" ABSOLUTE)
if(\"static\" IN_LIST hmc_FIND_COMPONENTS AND NOT TARGET hmc::static)
  include(\${CMAKE_CURRENT_LIST_DIR}/hmc-static.cmake)
endif()
")
file(CONFIGURE OUTPUT hmc-static.cmake @ONLY CONTENT
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(OpenSSL COMPONENTS Crypto)
get_filename_component(hmc_prefix \"\${CMAKE_CURRENT_LIST_DIR}/@to_prefix@\" ABSOLUTE)
add_library(hmc::static STATIC IMPORTED)
set_target_properties(hmc::static PROPERTIES
  IMPORTED_LOCATION \"\${hmc_prefix}/@CMAKE_INSTALL_LIBDIR@/libhmc.a\"
  IMPORTED_LINK_INTERFACE_LANGUAGES CXX
  INTERFACE_INCLUDE_DIRECTORIES \"\${hmc_prefix}/@CMAKE_INSTALL_INCLUDEDIR@\"
  INTERFACE_COMPILE_FEATURES cxx_std_20
  INTERFACE_LINK_LIBRARIES \"fmt::fmt;OpenSSL::Crypto;Threads::Threads;\${CMAKE_DL_LIBS}\")
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hmc-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/hmc-static.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/hmc-config-version.cmake
        DESTINATION ${cmake_dir})

# ---- hmc.pc and hmc-static.pc
string(REGEX REPLACE "[^/]+" ".." to_prefix ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
function(hmc_write_pc name libraries)
  file(CONFIGURE OUTPUT ${name}.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@to_prefix@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
bindir=\${prefix}/@CMAKE_INSTALL_BINDIR@

Name: @name@
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I\${includedir}
Libs: -L\${libdir} @libraries@
")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
hmc_write_pc(hmc "-lhmc")
hmc_write_pc(mf_smem "-lmf_smem -lhmc")
hmc_write_pc(hmc-static "-l:libhmc.a -lfmt -lcrypto -lstdc++ -lm -lpthread -ldl")

hmc_install_run_paths(${CMAKE_INSTALL_LIBDIR}) # last
