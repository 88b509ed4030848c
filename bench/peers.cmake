# The programs of compare/ and apps/: one with HMC, and one source that is compiled with each MPI. A peer that isn't
# installed isn't built, and the report lists it as absent.

# bench_program(folder name source [LIBRARIES ...]): target folder_name, program bin/bench/folder/name; part of the target
# `folder`.
function(bench_program folder name source)
  cmake_parse_arguments(C "" "" "LIBRARIES" ${ARGN})
  add_executable(${folder}_${name} ${source})
  set_target_properties(${folder}_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/bench/${folder})
  target_include_directories(${folder}_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${folder}_${name} PRIVATE hmc_warnings hmc_sanitizer ${C_LIBRARIES})
  if(NOT TARGET ${folder})
    add_custom_target(${folder})
  endif()
  add_dependencies(${folder} ${folder}_${name})
endfunction()

# bench_mpis(folder source HEADERS folder...)
# Debian installs both MPIs side by side; only the names without a suffix are alternatives. The MPIs from PyPI are each in
# a virtual environment that `./dev bench` makes. They are compiled by their own wrappers with the same flags, and aren't
# part of the target `folder`, so that a failure of one doesn't affect the others.
function(bench_mpis folder source)
  cmake_parse_arguments(C "" "" "HEADERS" ${ARGN})
  pkg_check_modules(OMPI QUIET IMPORTED_TARGET ompi-c)
  pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
  if(OMPI_FOUND)
    bench_program(${folder} openmpi ${source} LIBRARIES PkgConfig::OMPI)
  endif()
  if(MPICH_FOUND)
    bench_program(${folder} mpich ${source} LIBRARIES PkgConfig::MPICH)
  endif()
  set(headers)
  foreach(place ${C_HEADERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${place}/*.hpp)
    list(APPEND headers ${found})
  endforeach()
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}")
  foreach(name openmpi5 mpich5 intelmpi)
    set(venv ${CMAKE_BINARY_DIR}/peers/${name})
    if(NOT EXISTS ${venv}/installed)
      continue()
    endif()
    set(program ${CMAKE_BINARY_DIR}/bin/bench/${folder}/${name})
    # The paths come first, since a wheel's wrapper may have those of the machine on which it was built.
    add_custom_command(OUTPUT ${program} DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${headers} ${venv}/installed VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/bin/bench/${folder}
      COMMAND ${CMAKE_COMMAND} -E env OMPI_CXX=${CMAKE_CXX_COMPILER} MPICH_CXX=${CMAKE_CXX_COMPILER}
              I_MPI_CXX=${CMAKE_CXX_COMPILER} I_MPI_ROOT=${venv} ${venv}/bin/mpicxx -std=c++20 ${flags}
              -I${PROJECT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR} -I${venv}/include -L${venv}/lib
              ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${program} -Wl,-rpath,${venv}/lib)
    add_custom_target(${folder}_${name} DEPENDS ${program})
  endforeach()
endfunction()
