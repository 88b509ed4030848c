// HMC's C++ API in one header.
#pragma once

#include <hmc/buffer.hpp>
#include <hmc/conn_buffer.hpp>
#include <hmc/copy.hpp>
#include <hmc/error.hpp>
#include <hmc/float16.hpp>
#include <hmc/plan.hpp>
#include <hmc/reduction.hpp>
#include <hmc/request.hpp>
#include <hmc/runtime.hpp>
#include <hmc/team.hpp>
#include <hmc/types.hpp>
#include <hmc/version.hpp>
#include <hmc/window.hpp>
