// Counts beyond 32 bits. Only the address range is large: one chunk of memory is mapped repeatedly. The tail has memory
// of its own, which a truncated count doesn't reach.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;

class Repeated {
 public:
  static constexpr std::size_t chunk = std::size_t{2} << 20;

  /// If `at` isn't null, maps at these reserved addresses, which need space for one chunk more.
  explicit Repeated(std::size_t bytes, std::byte* at = nullptr)
      : chunks_(bytes / chunk), bytes_(bytes), mapped_((chunks_ + 1) * chunk) {
    data_ = static_cast<std::byte*>(::mmap(
        at, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0));
    const int fd = ::memfd_create("repeated", MFD_CLOEXEC);
    bool good = data_ != MAP_FAILED && ::ftruncate(fd, 2 * chunk) == 0;
    for (std::size_t i = 0; i <= chunks_ && good; ++i)
      good = ::mmap(data_ + i * chunk, chunk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    i < chunks_ ? 0 : static_cast<off_t>(chunk)) != MAP_FAILED;
    ::close(fd);
    HMC_CHECK(good);
  }
  ~Repeated() { ::munmap(data_, mapped_); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  std::byte* data() { return data_; }
  std::byte* tail() { return data_ + chunks_ * chunk; }
  std::size_t tail_bytes() const { return bytes_ - chunks_ * chunk; }
  /// Byte i of a chunk is value(i); byte i of the tail is value(chunk + i).
  template <typename Value> void fill(const Value& value) {
    for (std::size_t i = 0; i < chunk; ++i) data_[i] = static_cast<std::byte>(value(i));
    for (std::size_t i = 0; i < tail_bytes(); ++i) tail()[i] = static_cast<std::byte>(value(chunk + i));
  }
  template <typename Value> void check(const char* what, const Value& value) {
    for (std::size_t i = 0; i < chunk; ++i)
      HMC_CHECK_MSG(data_[i] == static_cast<std::byte>(value(i)), "{}: byte {} of a chunk", what, i);
    for (std::size_t i = 0; i < tail_bytes(); ++i)
      HMC_CHECK_MSG(tail()[i] == static_cast<std::byte>(value(chunk + i)), "{}: byte {} of the end", what, i);
  }

 private:
  std::size_t chunks_, bytes_, mapped_;
  std::byte* data_ = nullptr;
};

/// One such block per rank, contiguous, each with its own chunk and tail.
class Blocks {
 public:
  Blocks(int count, std::size_t bytes) {
    const std::size_t mapped = static_cast<std::size_t>(count) * bytes + Repeated::chunk;
    HMC_CHECK(bytes % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) == 0);
    void* const reserved = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HMC_CHECK(reserved != MAP_FAILED);
    data_ = static_cast<std::byte*>(reserved);
    // The order matters: a block's tail is mapped as a whole chunk, and the next block is mapped over its end.
    for (int i = 0; i < count; ++i)
      blocks_.push_back(std::make_unique<Repeated>(bytes, data_ + static_cast<std::size_t>(i) * bytes));
  }
  std::byte* data() { return data_; }
  Repeated& operator[](int rank) { return *blocks_[static_cast<std::size_t>(rank)]; }

 private:
  std::byte* data_ = nullptr;
  std::vector<std::unique_ptr<Repeated>> blocks_;
};

std::uint64_t byte_of(int rank, std::size_t i) { return Pattern{rank, 3}.word(i / 8) >> (i % 8 * 8) & 0xff; }

}  // namespace

HMC_SPMD_TEST(Huge, counts_beyond_32_bits_are_correct) {
  hmc::Team& world = me.runtime->world();
  const std::size_t bytes = setting(me, "bytes", (std::uint64_t{1} << 31) + 4099);
  Repeated in(bytes), out(bytes);
  in.fill([&](std::size_t i) { return byte_of(me.rank, i); });
  out.fill([](std::size_t) { return 0; });
  world.allreduce(in.data(), out.data(), bytes, hmc::DType::u8, hmc::sum);
  out.check("allreduce", [&](std::size_t i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < me.size; ++rank) sum += byte_of(rank, i);
    return sum;
  });
  const int root = me.size - 1;
  world.broadcast(in.data(), bytes, root);
  in.check("broadcast", [&](std::size_t i) { return byte_of(root, i); });
}

// One such block per rank: the second block also begins beyond 31 bits.
HMC_SPMD_TEST(Huge, blocks_beyond_32_bits_are_correct) {
  if (me.size > 2) skip("more ranks test nothing else, and take a minute");
  hmc::Team& world = me.runtime->world();
  const std::size_t bytes = setting(me, "bytes", (std::uint64_t{1} << 31) + 4099) / 4096 * 4096;
  const int root = me.size - 1;
  Repeated one(bytes);
  Blocks each(me.size, bytes), other(me.size, bytes);
  // The data of rank `from` for rank `to`; 100 stands for all ranks.
  const auto of = [](int from, int to) { return [=](std::size_t i) { return byte_of(from * 128 + to, i); }; };
  const auto clear = [&](Blocks& blocks) {
    for (int rank = 0; rank < me.size; ++rank) blocks[rank].fill([](std::size_t) { return 0; });
  };
  one.fill(of(me.rank, 100));
  clear(other);
  world.allgather(one.data(), other.data(), bytes);
  for (int from = 0; from < me.size; ++from) other[from].check("allgather", of(from, 100));
  clear(other);
  world.gather(one.data(), other.data(), bytes, root);
  for (int from = 0; from < me.size && me.rank == root; ++from) other[from].check("gather", of(from, 100));
  for (int to = 0; to < me.size; ++to) each[to].fill(of(me.rank, to));
  clear(other);
  world.alltoall(each.data(), other.data(), bytes);
  for (int from = 0; from < me.size; ++from) other[from].check("alltoall", of(from, me.rank));
  world.scatter(each.data(), one.data(), bytes, root);
  one.check("scatter", of(root, me.rank));
}
