// Names that the tests of device windows use unqualified. Only for their sources.
#pragma once

#include "tests/multirank/device_support.hpp"

using hmc::Cmp;
using hmc::Code;
using hmc::ConnBuffer;
using hmc::Direction;
using hmc::Error;
using hmc::Location;
using hmc::MemoryType;
using hmc::Op;
using hmc::Request;
using hmc::Window;
using hmc::spmd::AllLate;
using hmc::spmd::Fake;
using hmc::spmd::Late;
using hmc::spmd::made;
using hmc::spmd::MemoryKind;
using hmc::spmd::Mixed;
using hmc::spmd::over_every_pair;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;
