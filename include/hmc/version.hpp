// The version of HMC. CMakeLists.txt reads it from this file.
#pragma once

#define HMC_VERSION_MAJOR 0
#define HMC_VERSION_MINOR 2
#define HMC_VERSION_PATCH 0
#define HMC_VERSION_STRING "0.2.0"
