# `cmake --install`: a prefix that may be moved. Programs find the library by find_package(hmc) or by
# hmc.pc; what the library itself stands on doesn't show. The launcher installs its own programs.
include(CMakePackageConfigHelpers)

install(TARGETS hmc EXPORT hmc-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.cuh")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hmc-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/hmc-config-version.cmake
        DESTINATION ${cmake_dir})

# ---- hmc.pc
string(REGEX REPLACE "[^/]+" ".." to_prefix ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(CONFIGURE OUTPUT hmc.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@to_prefix@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
bindir=\${prefix}/@CMAKE_INSTALL_BINDIR@

Name: hmc
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I\${includedir}
Libs: -L\${libdir} -lhmc
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hmc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
