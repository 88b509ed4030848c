// status_t of HMC's older library, under the name of its header.
#pragma once
#include <hmc.h>
