#include "compat/memfabric/shm.hpp"

#include <algorithm>
#include <thread>

namespace hmc::memfabric {

template <typename Step> void ShareMemory::agree(const char* name, Step&& step) const {
  std::string failure;
  std::exception_ptr mine;
  try {
    step();
  } catch (const std::exception& error) {
    failure = error.what();
    mine = std::current_exception();
  }
  const auto all = store_.allgather(name, shape_.size, shape_.rank, failure, create_timeout_);
  if (mine) std::rethrow_exception(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) throw Failure(SMEM_ERROR, fmt::format("rank {} failed: {}", rank, all[rank]));
}

ShareMemory::ShareMemory(Session& session, const Shape& shape)
    : shape_(shape),
      part_(device_memory(session.device) == MemoryType::CPU ? PoolPart::host : PoolPart::device),
      create_timeout_(session.create_timeout),
      control_timeout_(session.control_timeout),
      store_(session.joined().with_prefix(fmt::format("{}.", shape.id))) {
  agree("create", [&] { create(session); });
  agree("join", [&] { pool_.join(create_timeout_); });
}

void ShareMemory::create(Session& session) {
  PoolOptions options;
  options.name = "pool";
  options.most_members = shape_.size;
  options.rank = shape_.rank;
  (part_ == PoolPart::host ? options.host_bytes : options.device_bytes) = shape_.bytes;
  options.device_type = device_memory(session.device);
  options.device = part_ == PoolPart::host ? 0 : session.device;
  pool_ = Pool::create(store_, options);
  if (!pool_.has_one_address_space())
    log(LogLevel::warning, fmt::format("shm {}: addresses differ by process: {}", shape_.id, pool_.why_not_one()));
}

ShareMemory::~ShareMemory() {
  try {
    store_.on_exit(nullptr);
    store_.remove(fmt::format("context.{}", shape_.rank));
  } catch (const Error&) {  // the store has ended
  }
  pool_.close();
}

void* ShareMemory::address(std::uint32_t rank) const {
  require(rank < static_cast<std::uint32_t>(shape_.size), "the rank isn't below the number of ranks");
  return pool_.address(static_cast<int>(rank), part_);
}

std::uint32_t ShareMemory::reach(std::uint32_t rank) const {
  require(rank < static_cast<std::uint32_t>(shape_.size), "the rank isn't below the number of ranks");
  switch (pool_.path(static_cast<int>(rank), part_).way) {
    case PoolWay::none: return 0;
    case PoolWay::own:
    case PoolWay::load_store:
    case PoolWay::mapped: return SMEMS_DATA_OP_MTE | SMEMS_DATA_OP_SDMA;
    case PoolWay::process_copy: return SMEMS_DATA_OP_SDMA;
    case PoolWay::verbs:
    case PoolWay::ucx:
    case PoolWay::tcp:
    case PoolWay::staged: break;
  }
  return SMEMS_DATA_OP_RDMA;
}

void ShareMemory::barrier(const std::string& name, std::uint32_t size, std::uint32_t rank) const {
  require(size >= 1 && size <= SMEM_WORLD_SIZE_MAX && rank < size, "the rank or the number of ranks is wrong");
  store_.barrier(name, static_cast<int>(size), static_cast<int>(rank), control_timeout_);
}

void ShareMemory::allgather(const std::string& name, std::uint32_t size, std::uint32_t rank, std::span<const char> mine,
                            std::span<char> all) const {
  require(size >= 1 && size <= SMEM_WORLD_SIZE_MAX && rank < size, "the rank or the number of ranks is wrong");
  require(!mine.empty() && mine.size() <= longest_gathered, "sendSize is 1..65536");
  require(all.size() == mine.size() * size, "recvSize isn't sendSize times the number of ranks");
  const auto parts = store_.allgather(name, static_cast<int>(size), static_cast<int>(rank),
                                      std::string_view(mine.data(), mine.size()), control_timeout_);
  for (const std::string& part : parts)
    require(part.size() == mine.size(), "ranks passed different values of sendSize");
  for (std::size_t i = 0; i < parts.size(); ++i) std::copy(parts[i].begin(), parts[i].end(), &all[i * mine.size()]);
}

void ShareMemory::set_context(std::span<const char> bytes) const {
  require(!bytes.empty() && bytes.size() <= longest_context, "a context has 1..65536 bytes");
  store_.set(fmt::format("context.{}", shape_.rank), std::string_view(bytes.data(), bytes.size()));
}

std::string ShareMemory::context(std::uint32_t rank) const {
  require(rank < static_cast<std::uint32_t>(shape_.size), "the rank isn't below the number of ranks");
  const auto found = store_.try_get(fmt::format("context.{}", rank));
  if (!found) throw Failure(SMEM_OBJECT_NOT_EXISTS, fmt::format("rank {} has no context", rank));
  return *found;
}

void ShareMemory::on_exit(void (*handler)(int)) {
  if (handler == nullptr) return store_.on_exit(nullptr);
  // A thread of its own: the handler may call this library, or exit().
  store_.on_exit([handler](int status) { std::thread(handler, status).detach(); });
}

}  // namespace hmc::memfabric
