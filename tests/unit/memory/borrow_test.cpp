// Memory that another library has allocated: the place of an address, and ConnBuffers over it.
#include <cstring>
#include <functional>

#include <hmc/buffer.hpp>
#include <hmc/conn_buffer.hpp>

#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

class Borrow : public testing::Test {
 protected:
  Borrow() { use_fakes(); }
};

constexpr std::size_t borrowed_bytes = 100'000;
constexpr Allocator known[] = {Allocator::cuda,       Allocator::cuda_pinned, Allocator::cuda_managed, Allocator::hip,
                               Allocator::hip_pinned, Allocator::hip_managed, Allocator::musa,         Allocator::cnrt,
                               Allocator::acl,        Allocator::host_malloc};

/// Calls the fake libcuda as a program does that doesn't know HMC.
struct Users {
  template <typename... Args> int operator()(const char* name, Args... args) const {
    static void* const library = ::dlopen(fake_path("cuda").c_str(), RTLD_NOW);
    return reinterpret_cast<int (*)(Args...)>(::dlsym(library, name))(args...);
  }
  explicit Users(int device) {
    EXPECT_EQ((*this)("cuInit", 0U), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRetain", &context_, device), 0);
    EXPECT_EQ((*this)("cuCtxPushCurrent_v2", context_), 0);
    device_ = device;
  }
  ~Users() {
    void* popped = nullptr;
    EXPECT_EQ((*this)("cuCtxPopCurrent_v2", &popped), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRelease_v2", device_), 0);
  }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

 private:
  void* context_ = nullptr;
  int device_ = 0;
};

TEST_F(Borrow, place_of_an_address_is_the_place_of_its_memory) {
  for (const Allocator allocator : known) {
    const int device = allocator == Allocator::host_malloc ? 0 : 1;
    const Buffer<char> buffer(Place(allocator, device), borrowed_bytes);
    EXPECT_EQ(Place::of(buffer.data()), buffer.place()) << name_of(allocator);
    EXPECT_EQ(Place::of(buffer.data() + borrowed_bytes - 1), buffer.place()) << name_of(allocator);
  }
  const int local = 0;
  EXPECT_EQ(Place::of(&local), Place(Allocator::host_malloc));
  EXPECT_EQ(Place::of(nullptr), Place(Allocator::host_malloc));
}

TEST_F(Borrow, current_place_is_on_the_current_device) {
  EXPECT_EQ(Place::current(Allocator::cuda), Place(Allocator::cuda, 0));
  {
    const Users users(1);
    EXPECT_EQ(Place::current(Allocator::cuda), Place(Allocator::cuda, 1));
    EXPECT_EQ(Place::current(Allocator::cuda_managed).device, 1);
  }
  EXPECT_EQ(Place::current(Allocator::cuda).device, 0);
  void* const hip = ::dlopen(fake_path("hip").c_str(), RTLD_NOW);
  const auto set = reinterpret_cast<int (*)(int)>(::dlsym(hip, "hipSetDevice"));
  ASSERT_EQ(set(1), 0);
  EXPECT_EQ(Place::current(Allocator::hip), Place(Allocator::hip, 1));
  ASSERT_EQ(set(0), 0);
  EXPECT_EQ(Place::current(Allocator::host_new), Place(Allocator::host_new));
}

TEST_F(Borrow, buffer_over_foreign_device_memory_has_its_bytes) {
  const Users users(1);
  unsigned long long address = 0;
  ASSERT_EQ(users("cuMemAlloc_v2", &address, borrowed_bytes), 0);
  bool is_freed = false;
  {
    auto* const at = reinterpret_cast<std::byte*>(address);
    ConnBuffer buffer = ConnBuffer::borrow(at + 8, borrowed_bytes - 8, std::shared_ptr<void>(at, [&](void*) {
                                             EXPECT_EQ(users("cuMemFree_v2", address), 0);
                                             is_freed = true;
                                           }));
    EXPECT_EQ(buffer.ptr, at + 8);
    EXPECT_EQ(buffer.buffer_size, borrowed_bytes - 8);
    EXPECT_EQ(buffer.mem_type, MemoryType::NVIDIA_GPU);
    EXPECT_EQ(buffer.device_id, 1);
    const auto data = pattern(1000, 3);
    ASSERT_EQ(buffer.writeFromCpu(data.data(), 1000, 40), status_t::SUCCESS);
    EXPECT_EQ(read_back(provider_for(MemoryType::NVIDIA_GPU), at + 48, 1000), data);
    const ConnBuffer moved = std::move(buffer);
    EXPECT_FALSE(is_freed);
  }
  EXPECT_TRUE(is_freed);
}

TEST_F(Borrow, kind_of_borrowed_memory_is_detected) {
  const std::pair<Allocator, MemoryType> cases[] = {{Allocator::host_malloc, MemoryType::CPU},
                                                    {Allocator::cuda_pinned, MemoryType::NVIDIA_PINNED},
                                                    {Allocator::cuda_managed, MemoryType::NVIDIA_MANAGED},
                                                    {Allocator::hip_pinned, MemoryType::AMD_PINNED},
                                                    {Allocator::acl, MemoryType::ASCEND_NPU}};
  for (const auto& [allocator, type] : cases) {
    Buffer<unsigned char> whole(allocator, borrowed_bytes);
    ConnBuffer buffer = ConnBuffer::borrow(whole.data(), borrowed_bytes);
    EXPECT_EQ(buffer.mem_type, type) << name_of(allocator);
    const auto data = pattern(borrowed_bytes, static_cast<unsigned>(type));
    ASSERT_EQ(buffer.writeFromCpu(data.data(), borrowed_bytes), status_t::SUCCESS) << name_of(allocator);
    std::vector<unsigned char> got(borrowed_bytes);
    whole.get(0, got.data(), borrowed_bytes);
    EXPECT_EQ(got, data) << name_of(allocator);
  }
}

TEST_F(Borrow, misaligned_and_null_addresses_are_refused) {
  std::vector<std::uint64_t> words(4);
  auto* const at = reinterpret_cast<char*>(words.data());
  for (char* const wrong : {at + 1, at + 4, static_cast<char*>(nullptr)}) {
    try {
      (void)ConnBuffer::borrow(wrong, 8);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
  }
  EXPECT_NO_THROW((void)ConnBuffer::borrow(at + 8, 3));
}

}  // namespace

}  // namespace hmc::memory
