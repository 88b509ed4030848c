// The whole C++ API.
#pragma once

#if __cplusplus < 202002L
#error "HMC needs C++20: g++ 11 or clang 14, or newer, with -std=c++20"
#else

#include <hmc/buffer.hpp>
#include <hmc/conn_buffer.hpp>
#include <hmc/copy.hpp>
#include <hmc/counts.hpp>
#include <hmc/error.hpp>
#include <hmc/float16.hpp>
#include <hmc/key_value_store.hpp>
#include <hmc/message.hpp>
#include <hmc/plan.hpp>
#include <hmc/pool.hpp>
#include <hmc/reduction.hpp>
#include <hmc/registration.hpp>
#include <hmc/request.hpp>
#include <hmc/runtime.hpp>
#include <hmc/store.hpp>
#include <hmc/team.hpp>
#include <hmc/types.hpp>
#include <hmc/version.hpp>
#include <hmc/vmm.hpp>
#include <hmc/window.hpp>

#endif
