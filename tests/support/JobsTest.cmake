# hmc_jobs_test(test JOBS ::: name command... [::: name command...] [AT_ONCE n] [TIMEOUT s] [ENVIRONMENT VAR=value ...]):
# an entry that runs the commands, `n` (3) at a time (jobs.py). For jobs that wait most of the time. The first word of
# each command is a path. AT_ONCE 1: for jobs that fill a small machine.
function(hmc_jobs_test test)
  cmake_parse_arguments(T "" "AT_ONCE;TIMEOUT" "JOBS;ENVIRONMENT" ${ARGN})
  if(NOT T_AT_ONCE)
    set(T_AT_ONCE 3)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_test(NAME ${test} COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/support/jobs.py --at-once ${T_AT_ONCE} ${T_JOBS})
  set_tests_properties(${test} PROPERTIES PROCESSORS 2 TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${T_ENVIRONMENT}")
endfunction()
