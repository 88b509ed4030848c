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
# How installed programs find the other parts of their prefix, wherever it is.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE HMC_BIN_TO_LIB)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE HMC_BIN_TO_INCLUDE)

# The run path of all programs and libraries of the build tree, which hmc_install_run_paths replaces. CMake's own
# replacement needs a path that ends with a colon, and the loader takes an empty entry as the current directory. The
# "/." make room for the installed path, and keep the linker from sharing the end of the text with a symbol's name.
set(HMC_RUN_PATH ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/.)
if(HMC_PREFIX) # the Python package, with an installed library
  set(HMC_RUN_PATH ${HMC_PREFIX}/lib/.)
endif()
string(LENGTH ${HMC_RUN_PATH} length)
while(length LESS 64)
  string(APPEND HMC_RUN_PATH /.)
  string(LENGTH ${HMC_RUN_PATH} length)
endwhile()
set(CMAKE_INSTALL_RPATH ${HMC_RUN_PATH})
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
# hmc_install_run_paths(lib [COMPONENT name]): the run paths of the files that are installed so far, relative to each
# file, so that the prefix may be moved. `lib`: the folder of libhmc.so in the prefix.
function(hmc_install_run_paths lib)
  install(CODE "
set(run_path \"${HMC_RUN_PATH}\")
set(lib_of_prefix \"\${CMAKE_INSTALL_PREFIX}/${lib}\")" ${ARGN})
  install(CODE [[
string(REGEX REPLACE "[^A-Za-z0-9/]" "." pattern "${run_path}")
foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
  if(IS_SYMLINK "$ENV{DESTDIR}${file}")
    continue()
  endif()
  file(READ "$ENV{DESTDIR}${file}" magic LIMIT 4 HEX)
  if(NOT magic STREQUAL "7f454c46")
    continue()
  endif()
  file(STRINGS "$ENV{DESTDIR}${file}" found REGEX "${pattern}" LIMIT_COUNT 1)
  if(found)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH lib_of_prefix BASE_DIRECTORY "${folder}" OUTPUT_VARIABLE relative)
    file(RPATH_CHANGE FILE "$ENV{DESTDIR}${file}" OLD_RPATH "${run_path}" NEW_RPATH "\$ORIGIN/${relative}")
  endif()
endforeach()
]] ${ARGN})
endfunction()

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
  # Vendors' functions are called by types of HMC's own, with the same layout.
  target_compile_options(hmc_sanitizer INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>)
  if(NOT HMC_SANITIZE STREQUAL "thread")
    # g++'s macro, which clang lacks.
    target_compile_definitions(hmc_sanitizer INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:__SANITIZE_ADDRESS__>)
  endif()
  target_link_options(hmc_sanitizer INTERFACE ${sanitizer})
  # Links of 100 MB each: LLVM's linker takes a third of ld's time, gold half of it. But gold warns of each symbol that
  # clang exports for AddressSanitizer.
  set(linker gold)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(linker lld)
  endif()
  find_program(HMC_SANITIZER_LINKER ld.${linker})
  if(HMC_SANITIZER_LINKER)
    target_link_options(hmc_sanitizer INTERFACE -fuse-ld=${linker})
  endif()
  # clang gives a C program no run-time checks of C++, which the library's objects call.
  target_link_options(hmc_sanitizer INTERFACE $<$<LINK_LANG_AND_ID:C,Clang>:-fsanitize-link-c++-runtime>)
  target_link_libraries(hmc_sanitizer INTERFACE $<$<LINK_LANG_AND_ID:C,Clang>:stdc++>)
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
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${source_dir} NORMALIZE)
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
