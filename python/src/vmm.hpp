// The objects behind the Python classes PhysicalMemory and Mapping. Several threads may use one of them.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include <hmc/vmm.hpp>

namespace hmc::python {

/// A call takes the pointer and doesn't hold the mutex: send() may wait for another process, while signal handlers and
/// other threads use the object. close() replaces the pointer by one to an empty memory.
struct PhysicalObject {
  explicit PhysicalObject(hmc::PhysicalMemory memory)
      : object(std::make_shared<const hmc::PhysicalMemory>(std::move(memory))) {}
  std::mutex mutex;
  std::shared_ptr<const hmc::PhysicalMemory> object;  // under mutex
};

struct MappingObject {
  explicit MappingObject(hmc::Mapping mapping) : object(std::move(mapping)) {}
  std::mutex mutex;
  hmc::Mapping object;
};

}  // namespace hmc::python
