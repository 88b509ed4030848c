# hmc_spmd_test(target [NAME name] [RANKS 1 2 ...] [MODES threads hmcrun] [LAYOUTS 1 2] [PAIRS] [WIRE wire] [TIMEOUT s]
#               [LABELS ...] [ARGS ...] [ENVIRONMENT VAR=value ...] [SHORT_FORM name] [WAITS] [NOT_QUICK])
#
# Registers an SPMD program (tests/support/spmd.hpp) with ctest. Each entry runs the whole program:
# FOLDER.NAME.MODE.npN.nodesK, without the `_test` of a target's name. LAYOUTS are numbers of (emulated) nodes; those
# above the number of ranks are skipped. Defaults: ranks 1 2 3 4 5 8, both modes, layouts 1 and 2, 120 s.
#
# The covering rule. An error depends on the number of ranks, on the layout, or on the process boundary, and seldom on a
# combination of the three. So a program doesn't run in their product (22 entries) but once with each number of ranks, in
# the row of `once` below: 6 entries with both modes and both layouts, an odd number of ranks on a node, and nodes with
# different numbers. Lists that begin with `RANKS 2 3` or `RANKS 2 4` have both layouts, too.
# - PAIRS adds the rows of `more`, with the other mode and the other layout: 11 entries with each pair of a number of
#   ranks and a layout, or a mode. For programs whose algorithm depends on the ranks of each node: collectives.
# - A row's mode or layout that MODES or LAYOUTS doesn't have is replaced by those that it has. The same for a number of
#   ranks without a row.
# - WIRE: the program once more, over this wire between all ranks. tests/conformance has the wire's contract, so these
#   entries check only that the layers above the wire keep it: two sizes suffice.
# - Sanitizers run the rows of 2 and 3 ranks (HMC_SPMD_RANKS in CMakePresets.json): the code is the same for other
#   numbers. They run no WIRE, whose own code tests/conformance runs. ThreadSanitizer sees threads only.
# - The label `quick` is for the row of 3 ranks: threads on two nodes, so shared memory and a network in one job, at the
#   cost of one process. A program without this row: its row of 2 or 4 ranks. No WIRE, no long test, and no program that
#   takes ten seconds (NOT_QUICK).
#
# WAITS: the ranks sleep most of the time, so another entry may run beside it. SHORT_FORM: the entries are long
# (LongTests.cmake). A program whose tests were all skipped is skipped.
set(HMC_SPMD_RANKS 1 2 3 4 5 8 CACHE STRING "Numbers of ranks that multi-rank tests run with")

function(hmc_spmd_entry out name)
  get_filename_component(area ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(REGEX REPLACE "_test(_|$)" "\\1" name ${name})
  string(REGEX REPLACE "^${area}[._]" "" name ${name})
  set(${out} ${area}.${name} PARENT_SCOPE)
endfunction()

# hmc_spmd_cells(out ranks modes layouts pairs): the entries of these lists by the covering rule, as RANKS.MODE.NODES.
function(hmc_spmd_cells out all_ranks all_modes all_layouts pairs)
  set(once 1.threads.1 2.hmcrun.1 3.threads.2 4.hmcrun.2 5.threads.1 8.hmcrun.2)
  set(more 2.threads.2 3.hmcrun.1 4.threads.1 5.hmcrun.2 8.threads.1)
  set(rows ${once})
  if(pairs)
    list(APPEND rows ${more})
  endif()
  set(cells)
  foreach(ranks IN LISTS all_ranks)
    set(own ${rows})
    list(FILTER own INCLUDE REGEX "^${ranks}[.]")
    if(NOT own)
      set(own ${ranks}.any.any)
    endif()
    foreach(row IN LISTS own)
      string(REPLACE "." ";" row ${row})
      list(GET row 1 modes)
      list(GET row 2 layouts)
      if(NOT modes IN_LIST all_modes)
        set(modes ${all_modes})
      endif()
      if(NOT layouts IN_LIST all_layouts)
        set(layouts ${all_layouts})
      endif()
      foreach(mode IN LISTS modes)
        foreach(nodes IN LISTS layouts)
          if(nodes LESS_EQUAL ranks AND NOT ${ranks}.${mode}.${nodes} IN_LIST cells)
            list(APPEND cells ${ranks}.${mode}.${nodes})
          endif()
        endforeach()
      endforeach()
    endforeach()
  endforeach()
  set(${out} ${cells} PARENT_SCOPE)
endfunction()

function(hmc_spmd_test target)
  cmake_parse_arguments(T "WAITS;PAIRS;NOT_QUICK" "NAME;TIMEOUT;SHORT_FORM;WIRE" "RANKS;MODES;LAYOUTS;LABELS;ARGS;ENVIRONMENT" ${ARGN})
  if(NOT T_NAME)
    set(T_NAME ${target})
  endif()
  hmc_spmd_entry(T_NAME ${T_NAME})
  if(T_SHORT_FORM)
    hmc_spmd_entry(T_SHORT_FORM ${T_SHORT_FORM})
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT T_RANKS)
    set(T_RANKS ${HMC_SPMD_RANKS})
  endif()
  if(NOT T_MODES)
    set(T_MODES threads hmcrun)
  endif()
  if(NOT T_LAYOUTS)
    set(T_LAYOUTS 1 2)
  endif()
  # The library's deadline is shorter than the entry's timeout, so that a hang ends with an error text.
  set(environment HMC_TIMEOUT_S=60 ${T_ENVIRONMENT})
  if(T_WIRE)
    list(APPEND environment HMC_TRANSPORT=${T_WIRE})
  endif()
  if(HMC_SANITIZE)
    if(T_WIRE)
      return()
    endif()
    math(EXPR T_TIMEOUT "2 * ${T_TIMEOUT}")  # sanitizers are this much slower
    list(JOIN HMC_SPMD_RANKS "|" ranks)
    list(FILTER T_RANKS INCLUDE REGEX "^(${ranks})$")
  endif()
  if(HMC_SANITIZE STREQUAL "thread")
    list(FILTER T_MODES INCLUDE REGEX "^threads$")
    # Huge pages: else each new page of a buffer costs a fault of its shadow and an interrupt of all cores.
    list(APPEND environment
         TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:no_huge_pages_for_shadow=0)
  endif()
  hmc_spmd_cells(cells "${T_RANKS}" "${T_MODES}" "${T_LAYOUTS}" "${T_PAIRS}")
  set(quick)
  foreach(ranks 3 2 4)
    set(candidates ${cells})
    list(FILTER candidates INCLUDE REGEX "^${ranks}[.]")
    list(APPEND quick ${candidates})
  endforeach()
  list(SUBLIST quick 0 1 quick)

  foreach(cell IN LISTS cells)
    string(REPLACE "." ";" cell_parts ${cell})
    list(GET cell_parts 0 ranks)
    list(GET cell_parts 1 mode)
    list(GET cell_parts 2 nodes)
    if(mode STREQUAL "hmcrun" AND NOT TARGET hmcrun)
      continue()
    endif()
    set(labels multirank ${mode} ${T_LABELS})
    if(cell STREQUAL quick AND NOT T_NOT_QUICK AND NOT T_WIRE AND NOT T_SHORT_FORM)
      list(APPEND labels quick)
    endif()
    set(test "${T_NAME}.${mode}.np${ranks}.nodes${nodes}")
    if(mode STREQUAL "threads")
      add_test(NAME ${test} COMMAND ${target} --ranks ${ranks} --nodes ${nodes} ${T_ARGS})
    else()
      add_test(NAME ${test} COMMAND hmcrun -np ${ranks} --nodes ${nodes} --timeout ${T_TIMEOUT}
               $<TARGET_FILE:${target}> ${T_ARGS})
    endif()
    # hmcrun's timeout is shorter, since hmcrun prints each rank's call. A job of several ranks fills a small
    # machine: beside another job it would only measure the scheduler.
    math(EXPR limit "${T_TIMEOUT} + 10")
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${limit}
                         ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
    if(T_SHORT_FORM)
      hmc_long_test(${test} SHORT_FORM ${T_SHORT_FORM})
    endif()
    if(ranks GREATER 1 AND (HMC_SANITIZE OR NOT T_WAITS))
      set_tests_properties(${test} PROPERTIES PROCESSORS 2)
    endif()
  endforeach()
endfunction()
