# Compiler settings, and hmc_room(): one folder of the library.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
include(GNUInstallDirs)
# Installed programs find libhmc.so relative to themselves, so the prefix may be moved.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# A Release build has no asserts, and keeps frame pointers for perf.
string(APPEND CMAKE_CXX_FLAGS_RELEASE " -fno-omit-frame-pointer")

find_program(CCACHE ccache)
if(CCACHE)
  # Paths below the sources are relative, so that other clones and build folders share results. The sloppiness is
  # required for precompiled headers. Depend mode, since direct mode finds an old precompiled header after a change of a
  # comment, which the new text doesn't fit (redefinitions). The namespace excludes old entries made without depend
  # mode.
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
      CCACHE_NAMESPACE=hmc-depend ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

# Compile options of all targets; never exported to users.
add_library(hmc_warnings INTERFACE)
target_compile_options(hmc_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion $<$<BOOL:${HMC_WERROR}>:-Werror>)

set(sanitizer)
if(HMC_SANITIZE STREQUAL "address")
  set(sanitizer -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(HMC_SANITIZE STREQUAL "thread")
  set(sanitizer -fsanitize=thread)
elseif(HMC_SANITIZE STREQUAL "fuzzer")
  set(sanitizer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(HMC_SANITIZE)
  message(FATAL_ERROR "HMC_SANITIZE is '${HMC_SANITIZE}'; it takes address, thread, fuzzer, or nothing")
endif()
add_library(hmc_sanitizer INTERFACE)
if(sanitizer)
  target_compile_options(hmc_sanitizer INTERFACE ${sanitizer} -fno-omit-frame-pointer)
  target_link_options(hmc_sanitizer INTERFACE ${sanitizer})
endif()

# Internal code also includes from the repository's root. Programs that use HMC as a user does (examples, bench) don't:
# they link hmc, hmc_warnings and hmc_sanitizer.
add_library(hmc_flags INTERFACE)
target_include_directories(hmc_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(hmc_flags INTERFACE hmc_warnings hmc_sanitizer)

find_package(Threads REQUIRED)

# Parsing headers takes two thirds of the time of compiling a file, so sources of one target are compiled together.
# Sources of one target therefore must not have private names in common (hmc_compile_alone in tests/ lists exceptions).
# OFF suits work on few files, and finds a file that doesn't include what it needs.
option(HMC_UNITY "Compile up to 16 sources of a target at once" ON)
# hmc_unity(target): at the end of the current folder's CMakeLists.txt, when the sources' properties are known.
# CMake's UNITY_BUILD names its sources by absolute paths, so that ccache would share nothing with another clone.
function(hmc_unity target)
  if(HMC_UNITY)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL hmc_compile_together ${target})")
  endif()
endfunction()
function(hmc_compile_together target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(source_dir ${target} SOURCE_DIR)
  get_target_property(binary_dir ${target} BINARY_DIR)
  set(alone)
  set(together)
  foreach(source IN LISTS sources)
    set(list together)
    if(NOT source MATCHES "^[^$]+[.]cpp$")
      set(list alone)
    else()
      foreach(property SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS OBJECT_DEPENDS)
        get_source_file_property(value ${source} TARGET_DIRECTORY ${target} ${property})
        if(value)
          set(list alone)
        endif()
      endforeach()
    endif()
    list(APPEND ${list} ${source})
  endforeach()
  list(LENGTH together count)
  if(count LESS 2)
    return()
  endif()
  set(folder ${binary_dir}/unity)
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} 16)
    list(SUBLIST together ${first} 16 batch)
    set(text)
    foreach(source IN LISTS batch)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${source_dir} NORMALIZE)
      file(RELATIVE_PATH source ${folder} ${source})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT ${folder}/${target}_${first}.cpp CONTENT "${text}" @ONLY) # unchanged: not written
    list(APPEND alone ${folder}/${target}_${first}.cpp)
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
endfunction()

# hmc_room(name SOURCES a.cpp ... LINKS lib ...): compiles a folder once; libhmc.so and hmc_internal
# are made of the same objects.
function(hmc_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  add_library(hmc_${name} OBJECT ${ROOM_SOURCES})
  hmc_unity(hmc_${name})
  target_link_libraries(hmc_${name} PUBLIC hmc_flags Threads::Threads ${ROOM_LINKS})
  set_property(GLOBAL APPEND PROPERTY HMC_ROOMS hmc_${name})
  set_property(GLOBAL APPEND PROPERTY HMC_LINKS ${ROOM_LINKS})
endfunction()
