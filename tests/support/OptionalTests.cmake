# hmc_optional_tests(group IF condition MISSING "text"): a group of tests that exists only if a tool or library was
# found. Else there is an entry missing.<group>. It is skipped with the text as its reason, or fails if HMC_EXPECT_TESTS
# names the group. The entry has the labels of its folder.
function(hmc_optional_tests group)
  cmake_parse_arguments(T "" "MISSING" "IF" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY HMC_OPTIONAL_TESTS ${group})
  if(${T_IF})
    return()
  endif()
  add_test(NAME missing.${group} COMMAND ${CMAKE_COMMAND} -E echo "missing: ${T_MISSING}")
  if(group IN_LIST HMC_EXPECT_TESTS)
    set_tests_properties(missing.${group} PROPERTIES FAIL_REGULAR_EXPRESSION missing)
  else()
    set_tests_properties(missing.${group} PROPERTIES SKIP_REGULAR_EXPRESSION missing)
  endif()
endfunction()

# hmc_test_may_skip(test group): the test detects only at run time whether it can run. If not, it prints "missing: " and
# the reason, and exits with 77: then it is skipped, or fails if HMC_EXPECT_TESTS names the group.
function(hmc_test_may_skip test group)
  set_property(GLOBAL APPEND PROPERTY HMC_OPTIONAL_TESTS ${group})
  if(NOT group IN_LIST HMC_EXPECT_TESTS)
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# Call it after all tests: it detects misspelt group names.
function(hmc_check_expected_tests)
  get_property(groups GLOBAL PROPERTY HMC_OPTIONAL_TESTS)
  foreach(group IN LISTS HMC_EXPECT_TESTS)
    if(NOT group IN_LIST groups)
      message(FATAL_ERROR "HMC_EXPECT_TESTS: this build has no optional tests named '${group}'; it has ${groups}")
    endif()
  endforeach()
endfunction()
