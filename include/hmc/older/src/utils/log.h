// The log macros of HMC's older library: logError and logDebug write to stderr, logInfo to stdout.
#pragma once

#include <cstdio>

#define HMC_OLDER_LOG(file, level, ...)          \
  do {                                           \
    char hmc_text[1024];                         \
    std::snprintf(hmc_text, 1024, __VA_ARGS__);  \
    std::fprintf(file, level " %s\n", hmc_text); \
  } while (0)
#define logError(...) HMC_OLDER_LOG(stderr, "[ERROR]", __VA_ARGS__)
#define logDebug(...) HMC_OLDER_LOG(stderr, "[DEBUG]", __VA_ARGS__)
#define logInfo(...) HMC_OLDER_LOG(stdout, "[INFO]", __VA_ARGS__)
