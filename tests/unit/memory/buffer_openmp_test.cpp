// Buffers on an OpenMP target device, a fake one, whose memory only OpenMP's calls can access.
#include "tests/unit/memory/buffer_support.hpp"

namespace hmc {

namespace {

using memory::Fake;

[[maybe_unused]] const bool with_fakes = [] {
  memory::use_fakes();
  ::setenv("HMC_OPENMP_LIBRARY", memory::fake_path("openmp").c_str(), 1);
  return true;
}();

std::vector<double> numbers() {
  std::vector<double> made(3000);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<double>(i) * 1.5 - 7;
  return made;
}

std::vector<Place> all_places() {
  auto list = places();  // openmp there is its device 0
  list.emplace_back(Allocator::openmp, 1);
  return list;
}

TEST(OpenMp, elements_are_copied_to_and_from_every_place) {
  for (const Place& place : all_places()) {
    for (const TransferMode mode : {TransferMode::sync, TransferMode::async}) {
      const Buffer<double> start(place, numbers().data(), numbers().size(), mode);
      Buffer<double> there(Allocator::openmp, start, mode);
      there.append(there);
      there.set(1, -1);
      const Buffer<double> back(place, there, mode);
      auto expected = numbers();
      expected.insert(expected.end(), expected.begin(), expected.end());
      expected[1] = -1;
      EXPECT_EQ(all_of(back), expected) << text(place);
      EXPECT_EQ(there.get(1), -1) << text(place);
    }
  }
}

TEST(OpenMp, target_memory_is_accessed_in_place) {
  const Buffer<int> device(Allocator::openmp, 10), host({Allocator::openmp, 1}, 10), other(Allocator::host_new, 10);
  EXPECT_EQ(device.get_openmp_accessible().get(), device.data());
  EXPECT_NE(device.get_host_accessible().get(), device.data());
  EXPECT_EQ(host.get_host_accessible().get(), host.data());
  EXPECT_EQ(host.get_openmp_accessible(1).get(), host.data());
  EXPECT_NE(host.get_openmp_accessible(0).get(), host.data());
  EXPECT_EQ(other.get_openmp_accessible(1).get(), other.data());
}

TEST(OpenMp, failing_call_is_named_without_leaks) {
  const Fake fake("openmp");
  const long before = fake.live();
  for (const char* const call : {"omp_target_alloc", "omp_target_memcpy"}) {
    for (const int nth : {1, 2, 3}) {
      fake.arm(std::string(call) + ":" + std::to_string(nth));
      try {
        Buffer<double> buffer(Allocator::openmp, numbers().data(), numbers().size());
        buffer.append(buffer);
        const auto copy = Buffer<double>(buffer).get_host_accessible();
        ADD_FAILURE() << call << " " << nth;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
      }
      fake.arm("");
      EXPECT_EQ(fake.live(), before) << call << " " << nth;
    }
  }
}

TEST(OpenMp, other_devices_are_unsupported) {
  for (const int device : {-1, 2}) {
    try {
      Buffer<int>({Allocator::openmp, device}, 1);
      ADD_FAILURE() << device;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
  }
}

}  // namespace

}  // namespace hmc
