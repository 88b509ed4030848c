// Buffer<T> against std::vector, in every place; accessibility of its memory from other places.
#include <cstdint>
#include <random>

#include "tests/unit/memory/buffer_support.hpp"

namespace hmc {

namespace {

[[maybe_unused]] const bool with_fakes = (memory::use_fakes(), true);  // each test may be the first

template <typename T> class BufferOfEveryType : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                             std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(BufferOfEveryType, Types);

/// Applies the same random operation to both.
template <typename T> void one_step(Buffer<T>& buffer, std::vector<T>& vector, std::mt19937& random) {
  const auto up_to = [&](std::size_t n) { return std::size_t{random()} % (n + 1); };
  const auto value = [&] { return static_cast<T>(random() % 251); };
  const auto some = [&] {
    std::vector<T> made(up_to(40));
    for (T& each : made) each = value();
    return made;
  };
  switch (random() % 9) {
    case 0: {
      const auto values = some();
      buffer.assign(values.data(), values.size());
      vector = values;
      break;
    }
    case 1: {
      const auto values = some();
      buffer.append(values.data(), values.size());
      vector.insert(vector.end(), values.begin(), values.end());
      break;
    }
    case 2: {
      const std::size_t count = up_to(120);
      const T fill = value();
      buffer.resize(count, fill);
      vector.resize(count, fill);
      break;
    }
    case 3:
      if (!vector.empty()) {
        const std::size_t index = up_to(vector.size() - 1);
        vector[index] = value();
        buffer.set(index, vector[index]);
      }
      break;
    case 4: buffer.reserve(up_to(200)); break;
    case 5: {
      const auto& list = places();
      buffer.move(list[up_to(list.size() - 1)]);
      break;
    }
    case 6:
      buffer.append(buffer);
      vector.insert(vector.end(), vector.begin(), vector.end());
      if (vector.size() > 200) {
        buffer.resize(10);
        vector.resize(10);
      }
      break;
    case 7: {
      Buffer<T> copy(buffer);
      buffer = std::move(copy);
      break;
    }
    case 8: {
      const auto& list = places();
      buffer = Buffer<T>(list[up_to(list.size() - 1)], buffer, buffer.mode());
      break;
    }
  }
}

/// Delays streams a little, so that a missing order becomes visible.
struct Late {
  explicit Late(int us) {
    for (const Fake& each : fakes) each.set_delay_us(us);
  }
  ~Late() {
    for (const Fake& each : fakes) each.set_delay_us(0);
  }
  using Fake = memory::Fake;
  Fake fakes[5] = {Fake("cuda"), Fake("hip"), Fake("musa"), Fake("cnrt"), Fake("acl")};
};

template <typename T> void follow_a_vector(TransferMode mode, int steps) {
  std::mt19937 random(4711 + sizeof(T));
  Buffer<T> buffer(Allocator::host_new, mode);
  std::vector<T> vector;
  for (int step = 0; step < steps; ++step) {
    one_step(buffer, vector, random);
    ASSERT_EQ(buffer.size(), vector.size()) << step;
    if (mode == TransferMode::async && step % 4 != 0) continue;  // several transfers in flight at once
    ASSERT_EQ(all_of(buffer), vector) << step << " in " << text(buffer.place());
    if (!vector.empty()) {
      ASSERT_EQ(buffer.get(vector.size() - 1), vector.back());
    }
  }
}

TYPED_TEST(BufferOfEveryType, buffer_behaves_like_a_vector) { follow_a_vector<TypeParam>(TransferMode::sync, 400); }
TYPED_TEST(BufferOfEveryType, buffer_behaves_like_a_vector_in_sync_host_mode) {
  (void)places();
  const Late late(100);
  follow_a_vector<TypeParam>(TransferMode::sync_host, 200);
}
TYPED_TEST(BufferOfEveryType, buffer_behaves_like_a_vector_in_async_mode) {
  (void)places();
  const Late late(100);
  follow_a_vector<TypeParam>(TransferMode::async, 300);
}

template <typename From, typename To> void casts(Allocator from, Allocator to) {
  const std::vector<From> values{From{0}, From{1}, From{77}, From{100}};
  const Buffer<From> source(from, values.data(), values.size());
  const Buffer<To> cast(to, source);
  std::vector<To> expected;
  for (const From& each : values) expected.push_back(static_cast<To>(each));
  EXPECT_EQ(all_of(cast), expected) << name_of(from) << " " << name_of(to);
}
TYPED_TEST(BufferOfEveryType, elements_convert_to_every_other_type) {
  for (const Allocator from : {Allocator::host_new, Allocator::cuda}) {
    for (const Allocator to : {Allocator::host_malloc, Allocator::hip}) {
      casts<TypeParam, std::int8_t>(from, to);
      casts<TypeParam, std::uint16_t>(from, to);
      casts<TypeParam, std::int32_t>(from, to);
      casts<TypeParam, std::uint64_t>(from, to);
      casts<TypeParam, float>(from, to);
      casts<TypeParam, double>(from, to);
    }
  }
}

TEST(Access, accessible_memory_is_not_copied) {
  for (const Place& place : places()) {
    const auto buffer = Buffer<int>::filled(place, 100, 7);
    if (detail::is_host_accessible(place)) {
      EXPECT_EQ(buffer.get_host_accessible().get(), buffer.data()) << text(place);
    } else {
      EXPECT_NE(buffer.get_host_accessible().get(), buffer.data()) << text(place);
      EXPECT_EQ(buffer.get_host_accessible().get()[99], 7) << text(place);
    }
  }
  const Buffer<int> cuda({Allocator::cuda, 1}, 10);
  EXPECT_EQ(cuda.get_cuda_accessible(1).get(), cuda.data());
  EXPECT_NE(cuda.get_cuda_accessible(0).get(), cuda.data());  // another device
  EXPECT_NE(cuda.get_hip_accessible().get(), cuda.data());
  const Buffer<int> managed(Allocator::cuda_managed, 10);
  EXPECT_EQ(managed.get_cuda_accessible(1).get(), managed.data());
}

TEST(Access, each_vendor_has_its_own_memory) {
  using Get = std::shared_ptr<int> (Buffer<int>::*)(int) const;
  const struct {
    Get get;
    MemoryType type;
  } vendors[] = {{&Buffer<int>::get_cuda_accessible, MemoryType::NVIDIA_GPU},
                 {&Buffer<int>::get_hip_accessible, MemoryType::AMD_GPU},
                 {&Buffer<int>::get_musa_accessible, MemoryType::MOORE_GPU},
                 {&Buffer<int>::get_cnrt_accessible, MemoryType::CAMBRICON_MLU},
                 {&Buffer<int>::get_acl_accessible, MemoryType::ASCEND_NPU}};
  for (const Place& place : places()) {
    const auto buffer = Buffer<int>::filled(place, 100, 7);
    for (const auto& [get, type] : vendors) {
      const auto view = (buffer.*get)(1);
      const auto owner = memory::owner_of(view.get());
      EXPECT_EQ(owner.provider->type(), type) << text(place);
      EXPECT_EQ(view.get() == buffer.data(), detail::is_device_accessible(type, 1, place)) << text(place);
      int last = 0;
      EXPECT_TRUE(memory::copy_between(&last, view.get() + 99, sizeof last).ok());
      EXPECT_EQ(last, 7) << text(place) << " " << name_of(type);
    }
  }
}

TEST(Access, copy_lives_as_long_as_its_handle) {
  (void)places();
  const memory::Fake fake("hip");
  const auto buffer = Buffer<int>::filled(Allocator::host_new, 1000, 3);
  (void)buffer.get_hip_accessible();  // creates the resources that are created once
  const long before = fake.live("memory");
  auto handle = buffer.get_hip_accessible();
  EXPECT_EQ(fake.live("memory"), before + 1);
  auto second = handle;
  handle.reset();
  EXPECT_EQ(fake.live("memory"), before + 1);
  second.reset();
  EXPECT_EQ(fake.live("memory"), before);
}

TEST(Access, handle_outlives_its_buffer) {
  auto buffer = std::make_unique<Buffer<int>>(Buffer<int>::filled(Allocator::host_malloc, 10, 5));
  const auto handle = buffer->get_host_accessible();
  buffer.reset();
  EXPECT_EQ(handle.get()[9], 5);
}

TEST(Steal, steal_keeps_the_address) {
  for (const Place& place : places()) {
    auto first = Buffer<int>::filled(place, 50, 9);
    const int* const address = first.data();
    Buffer<int> second(std::move(first));
    EXPECT_EQ(second.data(), address);
    Buffer<int> third(Allocator::host_new);
    third = std::move(second);
    EXPECT_EQ(third.data(), address);
    EXPECT_EQ(third.place(), place);
    EXPECT_EQ(third.get(49), 9);
    third.move(place);
    EXPECT_EQ(third.data(), address);  // it is there already
  }
}

TEST(Steal, steal_keeps_the_address_between_equally_accessible_allocators) {
  using A = Allocator;
  const Place second_cuda(A::cuda_async, 1);
  for (const auto& [from, to] : {std::pair<Place, Place>{A::host_new, A::host_malloc},
                                 {A::host_malloc, A::openmp},
                                 {A::openmp, A::host_new},
                                 {A::cuda, A::cuda_async},
                                 {A::hip_async, A::hip}}) {
    auto first = Buffer<int>::filled(from, 50, 9);
    const int* const address = first.data();
    Buffer<int> second(to, std::move(first));
    EXPECT_EQ(second.data(), address) << text(from) << " " << text(to);
    EXPECT_EQ(second.place(), to);
    second.append(second);  // by its new allocator
    EXPECT_EQ(all_of(second), std::vector<int>(100, 9)) << text(from) << " " << text(to);
  }
  for (const auto& [from, to] : {std::pair<Place, Place>{A::cuda, second_cuda},
                                 {A::cuda, A::hip},
                                 {A::cuda_managed, A::cuda},
                                 {A::cuda_pinned, A::host_malloc},
                                 {A::host_new, places()[0]}}) {
    auto first = Buffer<int>::filled(from, 50, 8);
    const int* const address = first.data();
    const Buffer<int> second(to, std::move(first));
    EXPECT_NE(second.data(), address) << text(from) << " " << text(to);
    EXPECT_EQ(all_of(second), std::vector<int>(50, 8)) << text(from) << " " << text(to);
  }
}

TEST(Adopt, adopt_uses_foreign_memory_without_a_copy) {
  std::vector<int> users{1, 2, 3};
  auto borrowed = Buffer<int>::borrow(Allocator::host_new, users.data(), users.size());
  borrowed.set(1, 20);
  EXPECT_EQ(users[1], 20);
  bool freed = false;
  {
    auto adopted = Buffer<int>::adopt(Allocator::host_new, new int[2]{4, 5}, 2, [&](int* values) {
      freed = true;
      delete[] values;
    });
    EXPECT_EQ(adopted.get(1), 5);
    adopted.append(users.data(), 3);  // which needs memory of its own
    EXPECT_TRUE(freed);
    EXPECT_EQ(all_of(adopted), (std::vector<int>{4, 5, 1, 20, 3}));
  }
  const auto shared = std::make_shared<int>(8);
  { const auto buffer = Buffer<int>::adopt(Allocator::host_new, shared, 1); }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Bounds, index_errors_are_checked_in_every_build) {
  for (const Allocator place : {Allocator::host_new, Allocator::cuda}) {
    Buffer<int> buffer(place, 10);
    int values[3] = {};
    EXPECT_THROW((void)buffer.get(10), Error);
    EXPECT_THROW(buffer.set(10, 1), Error);
    EXPECT_THROW(buffer.get(8, values, 3), Error);
    EXPECT_THROW(buffer.set(static_cast<std::size_t>(-1), values, 2), Error);
    EXPECT_NO_THROW(buffer.get(7, values, 3));
    EXPECT_THROW(buffer.reserve(static_cast<std::size_t>(-1)), Error);
    EXPECT_THROW(buffer.append(values, static_cast<std::size_t>(-1)), Error);
    EXPECT_THROW(buffer.append(values, static_cast<std::size_t>(-5)), Error);
    EXPECT_THROW(buffer.resize(static_cast<std::size_t>(-1) / 4), Error);
    EXPECT_THROW(buffer.assign(nullptr, 1), Error);
    EXPECT_THROW(buffer.append(nullptr, 1), Error);
    EXPECT_THROW(buffer.set(0, nullptr, 1), Error);
    EXPECT_THROW(buffer.get(0, nullptr, 1), Error);
    EXPECT_NO_THROW(buffer.append(nullptr, 0));
    EXPECT_EQ(all_of(buffer), std::vector<int>(10));
  }
}

}  // namespace

}  // namespace hmc
