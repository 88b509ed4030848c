# The headers that nearly every test includes are precompiled, once for GoogleTest's tests and once for the SPMD tests.
# Parsing them takes two thirds of a test's compile time.

# hmc_compile_fast(target): a test of a Release build is compiled in 60 % of the time without all optimizations. The library
# that it tests has them. Not for SPMD programs, whose checks of bytes take most of their time.
function(hmc_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# hmc_test_headers(name header ...): compiled with the flags of the executables, since compilers require that.
function(hmc_test_headers name)
  cmake_parse_arguments(HEADERS "" "" "LINKS;HEADERS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
  target_link_libraries(${name} PRIVATE ${HEADERS_LINKS})
  target_precompile_headers(${name} PRIVATE ${HEADERS_HEADERS})
endfunction()

# hmc_compile_alone(source ...): for sources that share private names with another source of their executable.
function(hmc_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# hmc_share_test_headers(folder): every executable in the folder and below uses the precompiled header of the library
# that it links, and compiles its sources together.
function(hmc_share_test_headers folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(links ${target} LINK_LIBRARIES)
    if(NOT type STREQUAL "EXECUTABLE")
      continue()
    endif()
    hmc_unity(${target})
    if("hmc_spmd_main" IN_LIST links OR "hmc_support" IN_LIST links)
      target_precompile_headers(${target} REUSE_FROM hmc_spmd_headers)
    elseif(links MATCHES "GTest::" AND "hmc_internal" IN_LIST links)
      target_precompile_headers(${target} REUSE_FROM hmc_gtest_headers)
      hmc_compile_fast(${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each IN LISTS folders)
    hmc_share_test_headers(${each})
  endforeach()
endfunction()
