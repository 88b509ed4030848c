# hmc_long_test(test SHORT_FORM name): labels a test `long`, so that CI skips it, and records the test or group of
# tests (name, name.*) that tests the same behaviour within CI's time. Set this label only with this function:
# layers.long_tests_have_short_forms compares the labels with these records.
function(hmc_long_test test)
  cmake_parse_arguments(T "" "SHORT_FORM" "" ${ARGN})
  if(NOT T_SHORT_FORM OR T_SHORT_FORM STREQUAL test)
    message(FATAL_ERROR "${test} is long: name the SHORT_FORM that CI runs")
  endif()
  set_property(TEST ${test} APPEND PROPERTY LABELS long)
  set_property(GLOBAL APPEND PROPERTY HMC_LONG_TESTS "${test} ${T_SHORT_FORM}")
endfunction()

# Call it after all tests.
function(hmc_write_long_tests file)
  get_property(lines GLOBAL PROPERTY HMC_LONG_TESTS)
  list(JOIN lines "\n" text)
  file(WRITE ${file} "${text}\n")
endfunction()
