// Elements that pass through every pair of places, and through a user's kernel.
#include <algorithm>
#include <cstdint>

#include "tests/unit/memory/buffer_support.hpp"

namespace hmc {

namespace {

[[maybe_unused]] const bool with_fakes = (memory::use_fakes(), true);  // each test may be the first

/// Transforms the elements with `f` and passes the result to the next place.
template <typename F> Buffer<double> hop(const Buffer<double>& from, const Place& to, F&& f) {
  const auto view = from.get_host_accessible();
  from.synchronize();
  std::vector<double> made(from.size());
  std::transform(view.get(), view.get() + from.size(), made.begin(), f);
  return {to, made.data(), made.size()};
}

TEST(BufferChain, sum_is_4300_after_every_two_places) {
  constexpr std::size_t count = 100'000;
  for (const Place& a : places()) {
    for (const Place& b : places()) {
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
      ASSERT_EQ(all_of(sum), std::vector<double>(count, 4300)) << text(a) << " " << text(b);
    }
  }
}

/// A user's kernel: it gets the vendor's handle of an accessible address.
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

TEST(BufferChain, real_kernel_works_from_and_to_every_place) {
  const auto& list = places();
  if (std::find(list.begin(), list.end(), Place(Allocator::opencl)) == list.end()) GTEST_SKIP() << "no OpenCL";
  constexpr std::size_t count = 100'000;
  OpenClKernel kernel(memory::provider_for(MemoryType::OPENCL),
                      "__kernel void advance(__global double* x) { size_t i = get_global_id(0); x[i] = x[i] * 1000 + "
                      "(double)(i % 7); }");
  for (const Place& place : list) {
    const auto start = Buffer<double>::filled(place, count, 4.0);
    Buffer<double> there(Allocator::opencl, start);
    kernel.run(there.data(), count);
    there.move(place);
    const auto got = all_of(there);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(got[i], 4000 + static_cast<double>(i % 7)) << text(place) << " " << i;
  }
}

}  // namespace

}  // namespace hmc
