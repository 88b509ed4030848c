// The places of Buffers on this machine, and helpers of tests.
#pragma once

#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "job/job_core.hpp"
#include "runtime/base/env.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc {

/// A job of one rank, with a window in host memory and one on a fake device.
struct Home {
  Home()
      : runtime(
            std::make_unique<job::JobCore>(std::move(bootstrap::make_inproc(1, 1).front()), base::Env::from_process())),
        host(Window::create(runtime.world(), std::size_t{48} << 20)),
        device(Window::create(runtime.world(), ConnBuffer(1, std::size_t{48} << 20, MemoryType::NVIDIA_GPU))) {}
  Runtime runtime;
  Window host;
  Window device;
};

inline std::string text(const Place& place) {
  std::string made = name_of(place.allocator);
  if (place.heap != nullptr) made += std::string(" of ") + name_of(place.part);
  return made;
}

/// The places that exist on this machine; all except OpenCL and OpenMP are fakes.
inline const std::vector<Place>& places() {
  static Home home;
  static const std::vector<Place> found = [] {
    std::vector<Place> list{home.host, home.device};
    for (int i = 0; i < allocator_count; ++i) {
      const auto allocator = static_cast<Allocator>(i);
      if (allocator == Allocator::window) continue;
      try {
        (void)Buffer<int>(allocator, 1);
        list.push_back(allocator);
      } catch (const Error& error) {
        EXPECT_EQ(allocator, Allocator::opencl) << error.what();
      }
    }
    return list;
  }();
  return found;
}

template <typename T> std::vector<T> all_of(const Buffer<T>& buffer) {
  const auto view = buffer.get_host_accessible();
  buffer.synchronize();
  return {view.get(), view.get() + buffer.size()};
}

}  // namespace hmc
