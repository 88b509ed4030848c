# hmc_spmd_test(target [NAME name] [RANKS 1 2 ...] [MODES threads hmcrun] [LAYOUTS 1 2] [TIMEOUT s]
#               [LABELS ...] [ARGS ...] [ENVIRONMENT VAR=value ...] [SHORT_FORM name] [WAITS])
#
# Registers an SPMD program (tests/support/spmd.hpp) with ctest: one entry per mode, number of ranks and
# layout, which runs the whole program: FOLDER.NAME.MODE.npN.nodesK, without the `_test` of a target's name.
# LAYOUTS are numbers of (emulated) nodes; those above the number of ranks are skipped. Defaults: ranks 1 2 3 4 5 8,
# both modes, layouts 1 and 2, 120 s. WAITS: its ranks sleep most of the time, so another entry may run beside it.
# SHORT_FORM: the entries are long (LongTests.cmake).
# A program whose tests were all skipped is skipped.
set(HMC_SPMD_RANKS 1 2 3 4 5 8 CACHE STRING "Numbers of ranks that multi-rank tests run with")

function(hmc_spmd_entry out name)
  get_filename_component(area ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(REGEX REPLACE "_test(_|$)" "\\1" name ${name})
  string(REGEX REPLACE "^${area}[._]" "" name ${name})
  set(${out} ${area}.${name} PARENT_SCOPE)
endfunction()

function(hmc_spmd_test target)
  cmake_parse_arguments(T "WAITS" "NAME;TIMEOUT;SHORT_FORM" "RANKS;MODES;LAYOUTS;LABELS;ARGS;ENVIRONMENT" ${ARGN})
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
  if(HMC_SANITIZE)  # sanitizers are this much slower
    math(EXPR T_TIMEOUT "2 * ${T_TIMEOUT}")
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
  if(HMC_SANITIZE STREQUAL "thread")
    # Huge pages: else each new page of a buffer costs a fault of its shadow and an interrupt of all cores.
    list(APPEND environment
         TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:no_huge_pages_for_shadow=0)
  endif()

  foreach(mode IN LISTS T_MODES)
    set(labels multirank ${mode} ${T_LABELS})
    if(mode STREQUAL "hmcrun" AND NOT TARGET hmcrun)
      continue()
    endif()
    set(sizes ${T_RANKS})
    if(HMC_SANITIZE AND mode STREQUAL "hmcrun")
      # The same code as with threads, with the cost of a start: one size suffices.
      list(FILTER sizes INCLUDE REGEX "^(3|64)$")
    elseif(HMC_SANITIZE)
      list(FILTER sizes EXCLUDE REGEX "^[58]$")  # in the release build only: they take most of the time
    endif()
    foreach(ranks IN LISTS sizes)
      foreach(nodes IN LISTS T_LAYOUTS)
        if(nodes GREATER ranks)
          continue()
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
    endforeach()
  endforeach()
endfunction()
