// Buffer<T> against std::vector, in every place; and bytes that pass through every two of them.
#include <algorithm>
#include <cstdint>
#include <hmc/buffer.hpp>
#include <random>

#include "tests/unit/memory/fake.hpp"

namespace hmc {

namespace {

[[maybe_unused]] const bool with_fakes = (memory::use_fakes(), true);  // each test may be the first

/// Those that this machine has: all but OpenCL are fakes.
const std::vector<Allocator>& places() {
  static const std::vector<Allocator> found = [] {
    std::vector<Allocator> list;
    for (int i = 0; i < allocator_count; ++i) {
      try {
        (void)detail::buffer_allocate(static_cast<Allocator>(i), 1);
        list.push_back(static_cast<Allocator>(i));
      } catch (const Error& error) {
        EXPECT_EQ(static_cast<Allocator>(i), Allocator::opencl) << error.what();
      }
    }
    return list;
  }();
  return found;
}

template <typename T> std::vector<T> all_of(const Buffer<T>& buffer) {
  const auto view = buffer.get_host_accessible();
  return {view.get(), view.get() + buffer.size()};
}

template <typename T> class OfEveryType : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                             std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(OfEveryType, Types);

/// Does the same to both, by chance.
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
      buffer = Buffer<T>(list[up_to(list.size() - 1)], buffer);
      break;
    }
  }
}

TYPED_TEST(OfEveryType, does_what_a_vector_does) {
  std::mt19937 random(4711 + sizeof(TypeParam));
  Buffer<TypeParam> buffer(Allocator::host_new);
  std::vector<TypeParam> vector;
  for (int step = 0; step < 400; ++step) {
    one_step(buffer, vector, random);
    ASSERT_EQ(buffer.size(), vector.size()) << step;
    ASSERT_EQ(all_of(buffer), vector) << step << " in " << name_of(buffer.place().allocator);
    if (!vector.empty()) {
      ASSERT_EQ(buffer.get(vector.size() - 1), vector.back());
    }
  }
}

template <typename From, typename To> void casts(Allocator from, Allocator to) {
  const std::vector<From> values{From{0}, From{1}, From{77}, From{100}};
  const Buffer<From> source(from, values.data(), values.size());
  const Buffer<To> cast(to, source);
  std::vector<To> expected;
  for (const From& each : values) expected.push_back(static_cast<To>(each));
  EXPECT_EQ(all_of(cast), expected) << name_of(from) << " " << name_of(to);
}
TYPED_TEST(OfEveryType, is_cast_to_every_other) {
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

/// Reads the buffer in its place's terms, and gives the result to the next place.
template <typename F> Buffer<double> hop(const Buffer<double>& from, Allocator to, F&& f) {
  const auto view = from.get_host_accessible();
  std::vector<double> made(from.size());
  std::transform(view.get(), view.get() + from.size(), made.begin(), f);
  return {to, made.data(), made.size()};
}

TEST(Chain, gives_4300_after_every_two_places) {
  constexpr std::size_t count = 100'000;
  for (const Allocator a : places()) {
    for (const Allocator b : places()) {
      const auto start = Buffer<double>::filled(a, count, 1.0);
      const auto doubled = hop(start, b, [](double x) { return x * 2; });
      const auto four = hop(doubled, a, [](double x) { return x + 2; });
      const auto thousands = hop(four, b, [](double x) { return x * 1000; });
      const auto threes = Buffer<double>::filled(b, count, 3.0);
      const auto hundreds = hop(threes, a, [](double x) { return x * 100; });
      const auto last = thousands.get_accessible(MemoryType::CPU);
      const auto more = hundreds.get_host_accessible();
      Buffer<double> sum(b, count);
      std::vector<double> sums(count);
      for (std::size_t i = 0; i < count; ++i) sums[i] = last.get()[i] + more.get()[i];
      sum.assign(sums.data(), count);
      sum.move(a);
      for (const std::size_t i : {std::size_t{0}, count / 2, count - 1})
        ASSERT_EQ(sum.get(i), 4300) << name_of(a) << " " << name_of(b) << " " << i;
      ASSERT_EQ(all_of(sum), std::vector<double>(count, 4300)) << name_of(a) << " " << name_of(b);
    }
  }
}

/// What a program with a kernel of its own does: it takes the vendor's handle of an accessible address.
class OpenClKernel {
 public:
  using Object = void*;
  OpenClKernel(const memory::Provider& provider, const char* source) : provider_(provider) {
    library_ = ::dlopen(provider.library().path.c_str(), RTLD_NOW);
    Object const context = provider.native_context(0);
    int code = 0;
    program_ = get<Object(Object, unsigned, const char**, const std::size_t*, int*)>("clCreateProgramWithSource")(
        context, 1, &source, nullptr, &code);
    const auto build =
        get<int(Object, unsigned, const Object*, const char*, void (*)(Object, void*), void*)>("clBuildProgram");
    EXPECT_EQ(build(program_, 0, nullptr, "", nullptr, nullptr), 0);
    kernel_ = get<Object(Object, const char*, int*)>("clCreateKernel")(program_, "advance", &code);
    EXPECT_EQ(code, 0);
  }
  ~OpenClKernel() {
    get<int(Object)>("clReleaseKernel")(kernel_);
    get<int(Object)>("clReleaseProgram")(program_);
  }
  OpenClKernel(const OpenClKernel&) = delete;
  OpenClKernel& operator=(const OpenClKernel&) = delete;
  void run(double* address, std::size_t count) {
    const auto stream = provider_.make_stream(0);
    const memory::NativeMemory native = provider_.native(address);
    EXPECT_EQ(native.offset, 0u);
    EXPECT_EQ((get<int(Object, unsigned, std::size_t, const void*)>("clSetKernelArg")(kernel_, 0, sizeof(Object),
                                                                                      &native.handle)),
              0);
    const auto enqueue = get<int(Object, Object, unsigned, const std::size_t*, const std::size_t*, const std::size_t*,
                                 unsigned, const Object*, Object*)>("clEnqueueNDRangeKernel");
    EXPECT_EQ(enqueue(stream->native(), kernel_, 1, nullptr, &count, nullptr, 0, nullptr, nullptr), 0);
    EXPECT_TRUE(stream->synchronize().ok());
  }

 private:
  template <typename F> F* get(const char* name) const { return reinterpret_cast<F*>(::dlsym(library_, name)); }
  const memory::Provider& provider_;
  void* library_ = nullptr;
  Object program_ = nullptr;
  Object kernel_ = nullptr;
};

TEST(Chain, passes_through_a_real_kernel_from_and_to_every_place) {
  const auto& list = places();
  if (std::find(list.begin(), list.end(), Allocator::opencl) == list.end()) GTEST_SKIP() << "no OpenCL";
  constexpr std::size_t count = 100'000;
  OpenClKernel kernel(memory::provider_for(MemoryType::OPENCL),
                      "__kernel void advance(__global double* x) { size_t i = get_global_id(0); x[i] = x[i] * 1000 + "
                      "(double)(i % 7); }");
  for (const Allocator place : list) {
    const auto start = Buffer<double>::filled(place, count, 4.0);
    Buffer<double> there(Allocator::opencl, start);
    kernel.run(there.data(), count);
    there.move(place);
    const auto got = all_of(there);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(got[i], 4000 + static_cast<double>(i % 7)) << name_of(place) << " " << i;
  }
}

TEST(Access, where_it_is_reached_is_the_buffer_itself) {
  for (const Allocator place : places()) {
    const auto buffer = Buffer<int>::filled(place, 100, 7);
    if (detail::host_reaches(place)) {
      EXPECT_EQ(buffer.get_host_accessible().get(), buffer.data()) << name_of(place);
    } else {
      EXPECT_NE(buffer.get_host_accessible().get(), buffer.data()) << name_of(place);
      EXPECT_EQ(buffer.get_host_accessible().get()[99], 7) << name_of(place);
    }
  }
  const Buffer<int> cuda({Allocator::cuda, 1}, 10);
  EXPECT_EQ(cuda.get_cuda_accessible(1).get(), cuda.data());
  EXPECT_NE(cuda.get_cuda_accessible(0).get(), cuda.data());  // another device
  EXPECT_NE(cuda.get_hip_accessible().get(), cuda.data());
  const Buffer<int> managed(Allocator::cuda_managed, 10);
  EXPECT_EQ(managed.get_cuda_accessible(1).get(), managed.data());
}

TEST(Access, a_copy_lives_as_long_as_its_handle) {
  (void)places();
  const memory::Fake fake("hip");
  const auto buffer = Buffer<int>::filled(Allocator::host_new, 1000, 3);
  (void)buffer.get_hip_accessible();  // whatever is made once is made
  const long before = fake.live("memory");
  auto handle = buffer.get_hip_accessible();
  EXPECT_EQ(fake.live("memory"), before + 1);
  auto second = handle;
  handle.reset();
  EXPECT_EQ(fake.live("memory"), before + 1);
  second.reset();
  EXPECT_EQ(fake.live("memory"), before);
}

TEST(Access, a_handle_outlives_its_buffer) {
  auto buffer = std::make_unique<Buffer<int>>(Buffer<int>::filled(Allocator::host_malloc, 10, 5));
  const auto handle = buffer->get_host_accessible();
  buffer.reset();
  EXPECT_EQ(handle.get()[9], 5);
}

TEST(Steal, keeps_the_memory_where_it_is) {
  for (const Allocator place : places()) {
    auto first = Buffer<int>::filled(place, 50, 9);
    const int* const address = first.data();
    Buffer<int> second(std::move(first));
    EXPECT_EQ(second.data(), address);
    Buffer<int> third(Allocator::host_new);
    third = std::move(second);
    EXPECT_EQ(third.data(), address);
    EXPECT_EQ(third.place().allocator, place);
    EXPECT_EQ(third.get(49), 9);
    third.move(place);
    EXPECT_EQ(third.data(), address);  // it is there already
  }
}

TEST(Adopt, uses_memory_of_others_without_a_copy) {
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

TEST(Bounds, are_errors_in_every_build) {
  for (const Allocator place : {Allocator::host_new, Allocator::cuda}) {
    Buffer<int> buffer(place, 10);
    int values[3] = {};
    EXPECT_THROW((void)buffer.get(10), Error);
    EXPECT_THROW(buffer.set(10, 1), Error);
    EXPECT_THROW(buffer.get(8, values, 3), Error);
    EXPECT_THROW(buffer.set(static_cast<std::size_t>(-1), values, 2), Error);
    EXPECT_NO_THROW(buffer.get(7, values, 3));
    EXPECT_THROW(buffer.reserve(static_cast<std::size_t>(-1)), Error);
  }
}

TEST(Failure, of_a_copy_is_an_error_that_names_the_call) {
  (void)places();
  const memory::Fake fake("cuda");
  auto buffer = Buffer<int>::filled(Allocator::cuda, 10, 3);
  fake.arm("cuMemcpyDtoHAsync_v2:1:700");
  try {
    (void)buffer.get(0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuMemcpyDtoHAsync_v2"), std::string::npos) << error.what();
  }
  fake.arm("");
  EXPECT_EQ(buffer.get(0), 3);
}

}  // namespace

}  // namespace hmc
