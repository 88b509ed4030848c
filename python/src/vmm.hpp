// The objects behind the Python classes PhysicalMemory and Mapping. Several threads may use one of them.
#pragma once

#include <mutex>
#include <utility>

#include <hmc/vmm.hpp>

namespace hmc::python {

struct PhysicalObject {
  explicit PhysicalObject(hmc::PhysicalMemory memory) : object(std::move(memory)) {}
  std::mutex mutex;
  hmc::PhysicalMemory object;
};

struct MappingObject {
  explicit MappingObject(hmc::Mapping mapping) : object(std::move(mapping)) {}
  std::mutex mutex;
  hmc::Mapping object;
};

}  // namespace hmc::python
