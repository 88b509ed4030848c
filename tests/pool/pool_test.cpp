// Pools of host memory: addresses, copies in all forms, joins and leaves.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "members.hpp"

namespace hmc::test {
namespace {

using spmd::Pattern;

constexpr std::size_t part_bytes = std::size_t{3} << 20;
constexpr std::size_t stride = std::size_t{4} << 20;

PoolOptions options_for(Process& me, const std::string& name, std::size_t bytes = part_bytes) {
  PoolOptions options;
  options.name = name;
  options.most_members = me.size() + 1;
  options.rank = me.rank();
  options.host_bytes = bytes;
  options.host_stride = stride;
  return options;
}

std::byte* host_of(Pool& pool, int rank, std::uint64_t offset = 0) {
  return static_cast<std::byte*>(pool.address(rank, PoolPart::host, offset));
}

/// All processes join; the barrier makes every member visible.
Pool joined(Process& me, const PoolOptions& options) {
  Pool pool = Pool::create(me.store(), options);
  (void)pool.join();
  me.barrier();
  return pool;
}

std::vector<std::byte> filled(const Pattern& pattern, std::size_t bytes, std::uint64_t from = 0) {
  std::vector<std::byte> data(bytes);
  pattern.fill(data, from);
  return data;
}

/// This process's own part, at an address that is always accessible.
std::byte* own(Process& me, Pool& pool) { return host_of(pool, me.rank()); }

void addresses_are_equal_and_lead_to_their_rank(Process& me) {
  // Parts of different sizes, below the stride.
  Pool pool =
      Pool::create(me.store(), options_for(me, me.new_name(), part_bytes - static_cast<std::size_t>(me.rank()) * 4096));
  std::string mine;
  for (int rank = 0; rank < me.size(); ++rank) mine += fmt::format("{};", static_cast<void*>(host_of(pool, rank)));
  HMC_CHECK_MSG(pool.has_one_address_space(), "{}", pool.why_not_one());
  for (const std::string& theirs : me.allgather(mine)) HMC_CHECK_EQ(theirs, mine);
  HMC_CHECK_EQ(pool.join(), me.rank());
  me.barrier();
  for (int rank = 0; rank < me.size(); ++rank) {
    const std::size_t bytes = part_bytes - static_cast<std::size_t>(rank) * 4096;
    HMC_CHECK_EQ(pool.bytes(PoolPart::host, rank), bytes);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{bytes - 1}, std::uint64_t{stride - 1}}) {
      const PoolPlace place = pool.place_of(host_of(pool, rank, offset));
      HMC_CHECK_EQ(place.rank, rank);
      HMC_CHECK_EQ(place.offset, offset);
    }
  }
  HMC_CHECK_EQ(pool.rank_of(host_of(pool, 0) - 1), -1);
  HMC_CHECK_EQ(pool.rank_of(&mine), -1);
  HMC_CHECK(pool.address(pool.most_members(), PoolPart::host) == nullptr);
  HMC_CHECK(pool.address(-1, PoolPart::host) == nullptr);
  HMC_CHECK(pool.address(0, PoolPart::host, stride) == nullptr);
  me.barrier();
}

void parts_are_verified_in_their_owners_memory(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  std::uint64_t call = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{65537},
                                  (std::size_t{1} << 20) + 7, part_bytes}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4095}}) {
      if (offset + bytes > part_bytes) continue;
      ++call;
      const auto data = filled({me.rank(), call}, bytes);
      pool.copy(host_of(pool, next, offset), data.data(), bytes, PoolDirection::host_to_global_host);
      me.barrier();
      check_pattern({previous, call}, own(me, pool) + offset, bytes);
      std::vector<std::byte> back(bytes);
      pool.copy(back.data(), host_of(pool, next, offset), bytes);
      check_pattern({me.rank(), call}, back.data(), bytes);
      me.barrier();
    }
  }
}

void copies_between_two_other_members_work(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  constexpr std::size_t bytes = (std::size_t{1} << 20) + 13;
  Pattern{me.rank(), 1}.fill({own(me, pool), bytes});
  me.barrier();
  // Rank 0 moves each part into the next rank's.
  if (me.rank() == 0)
    for (int rank = 0; rank < me.size(); ++rank)
      pool.copy(host_of(pool, (rank + 1) % me.size(), bytes + 5), host_of(pool, rank), bytes,
                PoolDirection::global_host_to_global_host);
  me.barrier();
  check_pattern({(me.rank() + me.size() - 1) % me.size(), 1}, own(me, pool) + bytes + 5, bytes);
  me.barrier();
}

void wrong_copies_are_errors_and_move_nothing(Process& me) {
  Pool pool = Pool::create(me.store(), options_for(me, me.new_name()));
  std::vector<std::byte> data(4096), other(4096);
  HMC_CHECK(code_of([&] { pool.copy(host_of(pool, 0), data.data(), 1); }) == Code::closed);
  (void)pool.join();
  me.barrier();
  const int next = (me.rank() + 1) % me.size();
  const auto code = [&](void* to, const void* from, std::size_t bytes,
                        PoolDirection direction = PoolDirection::automatic) {
    return code_of([&] { pool.copy(to, from, bytes, direction); });
  };
  HMC_CHECK(code(other.data(), data.data(), 8) == Code::invalid_argument);  // local to local
  HMC_CHECK(code(host_of(pool, next), data.data(), 0) == Code::invalid_argument);
  HMC_CHECK(code(host_of(pool, next), nullptr, 8) == Code::invalid_argument);
  HMC_CHECK(code(host_of(pool, next, part_bytes - 7), data.data(), 8) == Code::out_of_range);
  HMC_CHECK(code(host_of(pool, next, part_bytes), data.data(), 1) == Code::out_of_range);
  HMC_CHECK(code(host_of(pool, next), data.data(), SIZE_MAX) == Code::out_of_range ||
            code(host_of(pool, next), data.data(), SIZE_MAX) == Code::invalid_argument);
  HMC_CHECK(code(host_of(pool, me.size()), data.data(), 8) == Code::peer_failed);  // no such member
  for (int wanted = 1; wanted <= static_cast<int>(PoolDirection::global_to_global); ++wanted) {
    const auto direction = static_cast<PoolDirection>(wanted);
    const bool is_right = direction == PoolDirection::host_to_global_host;
    HMC_CHECK(code(host_of(pool, next), data.data(), 8, direction) ==
              (is_right ? Code::success : Code::invalid_argument));
  }
  // One wrong piece: none of the batch is copied.
  me.barrier();
  std::memset(own(me, pool), 0x11, 64);
  me.barrier();
  Pattern{1, 1}.fill(data);
  const PoolCopy pieces[] = {{host_of(pool, next), data.data(), 8}, {host_of(pool, next, part_bytes), data.data(), 8}};
  HMC_CHECK(code_of([&] { pool.copy_batch(pieces); }) == Code::out_of_range);
  const PoolCopy same[] = {{host_of(pool, next), data.data(), 8}, {host_of(pool, next, 7), data.data(), 8}};
  HMC_CHECK(code_of([&] { pool.copy_batch(same); }) == Code::invalid_argument);
  me.barrier();
  for (int i = 0; i < 64; ++i) HMC_CHECK_EQ(static_cast<int>(own(me, pool)[i]), 0x11);
  me.barrier();
}

/// Random pieces in both directions, against a model of the own and the peer's part.
void batches_mix_directions(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  // Each rank uses its own slice of every part, so the models don't interfere.
  const std::size_t slice = part_bytes / static_cast<std::size_t>(me.size());
  const std::size_t begin = slice * static_cast<std::size_t>(me.rank());
  std::mt19937 random(static_cast<unsigned>(me.rank()) + 7);
  std::vector<std::vector<std::byte>> model(static_cast<std::size_t>(me.size()), std::vector<std::byte>(slice));
  for (int rank = 0; rank < me.size(); ++rank) {
    Pattern{me.rank(), static_cast<std::uint64_t>(rank)}.fill(model[static_cast<std::size_t>(rank)]);
    pool.copy(host_of(pool, rank, begin), model[static_cast<std::size_t>(rank)].data(), slice);
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<std::byte>> local;
    local.reserve(16);
    std::vector<PoolCopy> pieces;
    std::vector<std::function<void()>> checks;
    std::size_t at = 0;
    for (int i = 0; i < 16; ++i) {
      const std::size_t bytes = 1 + random() % (slice / 40);
      at += bytes / 2;
      const int rank = static_cast<int>(random() % static_cast<unsigned>(me.size()));
      auto& known = model[static_cast<std::size_t>(rank)];
      local.push_back(filled({me.rank(), random()}, bytes));
      std::vector<std::byte>* const mine = &local.back();
      std::byte* const there = host_of(pool, rank, begin + at);
      if (random() % 2 == 0) {
        pieces.push_back({there, mine->data(), bytes});
        std::copy(mine->begin(), mine->end(), known.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        pieces.push_back({mine->data(), there, bytes});
        checks.emplace_back(
            [mine, want = std::vector<std::byte>(known.begin() + static_cast<std::ptrdiff_t>(at),
                                                 known.begin() + static_cast<std::ptrdiff_t>(at + bytes))] {
              HMC_CHECK(*mine == want);
            });
      }
      at += bytes;
    }
    if (round % 2 == 0) {
      pool.copy_batch(pieces);
    } else {
      pool.copy_async(pieces);
      pool.wait();
    }
    for (const auto& each : checks) each();
  }
  // Verified at the owner.
  me.barrier();
  const auto digests = me.allgather(std::string(reinterpret_cast<const char*>(own(me, pool)), part_bytes));
  for (int rank = 0; rank < me.size(); ++rank)
    HMC_CHECK(std::memcmp(digests[static_cast<std::size_t>(rank)].data() + begin,
                          model[static_cast<std::size_t>(rank)].data(), slice) == 0);
  me.barrier();
}

void pitched_copies_leave_the_gaps(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  std::uint64_t call = 10;
  for (const auto& [width, height, to_pitch, from_pitch] :
       {std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>{1, 1, 1, 1},
        {100, 7, 128, 100},
        {4096, 33, 4096, 4096},
        {513, 300, 1031, 777}}) {
    ++call;
    std::memset(own(me, pool), 0x5a, to_pitch * height);
    me.barrier();
    const auto data = filled({me.rank(), call}, from_pitch * height);
    pool.copy_2d(host_of(pool, next), to_pitch, data.data(), from_pitch, width, height);
    me.barrier();
    for (std::size_t row = 0; row < height; ++row) {
      check_pattern({previous, call}, own(me, pool) + row * to_pitch, width, row * from_pitch);
      for (std::size_t gap = width; gap < to_pitch; ++gap)
        HMC_CHECK_EQ(static_cast<int>(own(me, pool)[row * to_pitch + gap]), 0x5a);
    }
    std::vector<std::byte> back(from_pitch * height, std::byte{0x33});
    pool.copy_2d(back.data(), from_pitch, host_of(pool, next), to_pitch, width, height);
    for (std::size_t row = 0; row < height; ++row)
      check_pattern({me.rank(), call}, back.data() + row * from_pitch, width, row * from_pitch);
    me.barrier();
  }
  HMC_CHECK(code_of([&] { pool.copy_2d(host_of(pool, next), 8, &call, 8, 9, 2); }) == Code::invalid_argument);
  HMC_CHECK(code_of([&] { pool.copy_2d(host_of(pool, next), 8, &call, 8, 8, 0); }) == Code::invalid_argument);
}

void adopted_memory_shows_the_members_copies(Process& me) {
  const int fd = ::memfd_create("business", MFD_CLOEXEC);
  HMC_CHECK(::ftruncate(fd, static_cast<off_t>(part_bytes)) == 0);
  const auto* const view = static_cast<const std::byte*>(::mmap(nullptr, part_bytes, PROT_READ, MAP_SHARED, fd, 0));
  PoolOptions options = options_for(me, me.new_name());
  options.host_fd = fd;
  {
    Pool pool = joined(me, options);
    const int next = (me.rank() + 1) % me.size();
    const auto data = filled({me.rank(), 5}, 70000);
    pool.copy(host_of(pool, next, 1000), data.data(), data.size());
    me.barrier();
    check_pattern({(me.rank() + me.size() - 1) % me.size(), 5}, view + 1000, data.size());
    me.barrier();
  }
  check_pattern({(me.rank() + me.size() - 1) % me.size(), 5}, view + 1000, 70000);  // the pool is closed
  ::munmap(const_cast<std::byte*>(view), part_bytes);
  ::close(fd);
}

void a_member_without_memory_can_copy(Process& me) {
  PoolOptions options = options_for(me, me.new_name());
  if (me.rank() == 0) options.host_bytes = 0;
  Pool pool = joined(me, options);
  HMC_CHECK_EQ(pool.bytes(PoolPart::host, 0), std::size_t{0});
  const auto data = filled({me.rank(), 3}, 5000);
  HMC_CHECK(code_of([&] { pool.copy(host_of(pool, 0), data.data(), 1); }) == Code::out_of_range);
  if (me.rank() == 0)
    for (int rank = 1; rank < me.size(); ++rank) pool.copy(host_of(pool, rank), data.data(), data.size());
  me.barrier();
  if (me.rank() != 0) check_pattern({0, 3}, own(me, pool), data.size());
  me.barrier();
}

void ranks_are_assigned_and_all_members_see_one_order(Process& me) {
  PoolOptions options = options_for(me, me.new_name());
  options.rank = -1;
  options.most_members = me.size();
  std::mutex lock;
  std::string seen;
  Pool pool = Pool::create(me.store(), options);
  pool.on_change([&](const PoolChange& change) {
    const std::lock_guard guard(lock);
    seen += fmt::format("{}:{}{}{} ", change.version, change.joined ? '+' : '-', change.rank, change.died ? "!" : "");
  });
  const int rank = pool.join();
  auto ranks = me.allgather(std::to_string(rank));
  std::sort(ranks.begin(), ranks.end());
  for (int i = 0; i < me.size(); ++i) HMC_CHECK_EQ(ranks[static_cast<std::size_t>(i)], std::to_string(i));
  pool.wait_version(static_cast<std::uint64_t>(me.size()));
  HMC_CHECK_EQ(static_cast<int>(pool.members().size()), me.size());
  // The world is full.
  if (me.rank() == 0) {
    Pool late = Pool::create(Store::connect(), options);
    HMC_CHECK(code_of([&] { (void)late.join(); }) == Code::unavailable);
  }
  me.barrier();
  // Leaves and joins again, one after another.
  for (int turn = 0; turn < me.size(); ++turn) {
    if (turn == me.rank()) {
      pool.leave();
      HMC_CHECK(!pool.is_member());
      HMC_CHECK_EQ(pool.join(), rank);  // the free one
    }
    me.barrier();
  }
  const auto last = static_cast<std::uint64_t>(3 * me.size());
  pool.wait_version(last);
  HMC_CHECK_EQ(pool.version(), last);
  // Each has seen the changes since its own last join, and they are equal from there on.
  wait_until([&] {
    const std::lock_guard guard(lock);
    return seen.find(fmt::format("{}:", last)) != std::string::npos;
  });
  const std::string end = fmt::format("{}:", last);
  for (const std::string& theirs : me.allgather(seen)) {
    const auto common = std::min(theirs.size() - theirs.rfind(' ', theirs.size() - 2), seen.size());
    HMC_CHECK(theirs.find(end) != std::string::npos);
    HMC_CHECK_EQ(theirs.substr(theirs.size() - common), seen.substr(seen.size() - common));
  }
  me.barrier();
}

void a_leave_ends_the_access_and_a_join_restores_it(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  const int gone = me.size() - 1;
  const auto data = filled({me.rank(), 9}, 1000);
  std::vector<std::byte> back(1000);
  if (me.rank() == gone) Pattern{gone, 1}.fill({own(me, pool), 1000});
  me.barrier();
  const auto before = static_cast<std::uint64_t>(me.size());  // the joins
  if (me.rank() == gone) pool.leave();
  if (me.rank() != gone) {
    pool.wait_version(before + 1);
    HMC_CHECK(code_of([&] { pool.copy(host_of(pool, gone), data.data(), 1); }) == Code::peer_failed);
    HMC_CHECK(code_of([&] { pool.copy(back.data(), host_of(pool, gone), 1); }) == Code::peer_failed);
    HMC_CHECK_EQ(static_cast<int>(pool.members().size()), me.size() - 1);
    HMC_CHECK(pool.pointer(gone, PoolPart::host) == nullptr);
  }
  me.barrier();
  if (me.rank() == gone) HMC_CHECK_EQ(pool.join(), gone);
  pool.wait_version(before + 2);
  pool.copy(back.data(), host_of(pool, gone), back.size());
  check_pattern({gone, 1}, back.data(), back.size());
  me.barrier();
}

/// The barrier isn't ordered with the events of the pool's connection.
void a_member_can_be_accessed_when_its_join_has_returned(Process& me) {
  const Store store = Store::connect();
  const std::string name = me.new_name();
  for (std::uint64_t round = 0; round < 30; ++round) {
    Pool pool = Pool::create(store, options_for(me, name));
    (void)pool.join();
    me.barrier();
    for (int rank = 0; rank < me.size(); ++rank) {
      HMC_CHECK(pool.path(rank, PoolPart::host).way != PoolWay::none);
      const auto data = filled({me.rank(), round}, 64);
      pool.copy(host_of(pool, rank, static_cast<std::uint64_t>(me.rank()) * 64), data.data(), data.size());
    }
    me.barrier();
    for (int rank = 0; rank < me.size(); ++rank) check_pattern({rank, round}, own(me, pool) + rank * 64, 64);
    me.barrier();
  }
}

void different_settings_are_a_mismatch(Process& me) {
  PoolOptions options = options_for(me, me.new_name());
  Pool pool;
  if (me.rank() == 0) pool = Pool::create(me.store(), options), (void)pool.join();
  me.barrier();
  if (me.rank() == 1) {
    options.host_stride *= 2;
    Pool other = Pool::create(me.store(), options);
    HMC_CHECK(code_of([&] { (void)other.join(); }) == Code::mismatch);
    options.host_stride /= 2;
    options.rules = "a:tcp:b";
    Pool third = Pool::create(me.store(), options);
    HMC_CHECK(code_of([&] { (void)third.join(); }) == Code::mismatch);
  }
  me.barrier();
  for (const char* const rules : {"a:b", "a:fast:b", "a-:tcp:b", ":tcp:b", "a:tcp:b,"}) {
    options.rules = rules;
    const bool is_trailing_comma = std::string_view(rules).back() == ',';
    HMC_CHECK(code_of([&] { (void)Pool::create(me.store(), options); }) ==
              (is_trailing_comma ? Code::success : Code::invalid_argument));
  }
}

void rules_select_the_way(Process& me) {
  for (const auto& [way, name] : {std::pair(PoolWay::tcp, "tcp"),
                                  {PoolWay::process_copy, "process"},
                                  {PoolWay::staged, "staged"},
                                  {PoolWay::load_store, "shm"}}) {
    PoolOptions options = options_for(me, me.new_name());
    options.tag = me.rank() % 2 == 0 ? "even" : "odd";
    options.rules = fmt::format("even:{}:odd", name);
    Pool pool = joined(me, options);
    for (int rank = 0; rank < me.size(); ++rank) {
      const PoolPath path = pool.path(rank, PoolPart::host);
      const bool on_node = me.node_of(rank) == me.node_of(me.rank());
      PoolWay expected = on_node ? PoolWay::load_store : PoolWay::tcp;
      if (rank % 2 != me.rank() % 2 && (on_node || way == PoolWay::staged)) expected = way;
      if (rank == me.rank()) expected = PoolWay::own;
      HMC_CHECK_MSG(path.way == expected, "rank {}: {} ({}), not {}", rank, name_of(path.way), path.why,
                    name_of(expected));
      HMC_CHECK(!path.why.empty());
    }
    const int next = (me.rank() + 1) % me.size();
    const auto data = filled({me.rank(), 4}, (std::size_t{2} << 20) + 77);
    pool.copy(host_of(pool, next, 3), data.data(), data.size());
    me.barrier();
    check_pattern({(me.rank() + me.size() - 1) % me.size(), 4}, own(me, pool) + 3, data.size());
    std::vector<std::byte> back(data.size());
    pool.copy(back.data(), host_of(pool, next, 3), back.size());
    HMC_CHECK(back == data);
    me.barrier();
  }
}

void requests_reach_the_handler_of_a_member(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  const int next = (me.rank() + 1) % me.size();
  HMC_CHECK(code_of([&] { (void)pool.call(next, "x"); }) == Code::unsupported);
  me.barrier();
  std::atomic<bool> was_refused_call_served = false;
  pool.on_call([&](int from, std::string_view request) {
    if (request == "throw") throw Error(Code::not_found, "handler", "nothing here");
    if (request == "refused") was_refused_call_served = true;
    return fmt::format("{}:{}:{}", from, me.rank(), request.size());
  });
  me.barrier();
  HMC_CHECK_EQ(pool.call(next, std::string(1000, 'r')), fmt::format("{}:{}:1000", me.rank(), next));
  HMC_CHECK(code_of([&] { (void)pool.call(next, "throw"); }) == Code::not_found);
  // Several at once, whose answers are taken in another order, or dropped.
  PoolCall one = pool.start_call(next, "1"), two = pool.start_call(next, "22"), wrong = pool.start_call(next, "throw");
  (void)pool.start_call(next, "333");
  HMC_CHECK_EQ(two.wait(), fmt::format("{}:{}:2", me.rank(), next));
  HMC_CHECK(code_of([&] { (void)wrong.wait(); }) == Code::not_found);
  HMC_CHECK(one.in_flight() && !two.in_flight() && !wrong.in_flight());
  // A wrong timeout: nothing is executed, and no answer is lost.
  constexpr std::chrono::nanoseconds negative(-5);
  HMC_CHECK(code_of([&] { (void)pool.call(next, "refused", negative); }) == Code::invalid_argument);
  HMC_CHECK(code_of([&] { (void)one.wait(negative); }) == Code::invalid_argument);
  HMC_CHECK_EQ(one.wait(), fmt::format("{}:{}:1", me.rank(), next));
  HMC_CHECK(code_of([&] { (void)one.wait(); }) == Code::closed);
  HMC_CHECK_THROWS(Code::peer_failed, (void)pool.call(me.size(), "x"));
  me.barrier();
  HMC_CHECK(!was_refused_call_served);
  pool.on_call(nullptr);
  me.barrier();
}

void counters_match_the_calls(Process& me) {
  Pool pool = joined(me, options_for(me, me.new_name()));
  std::vector<std::byte> data(1000);
  const int next = (me.rank() + 1) % me.size();
  const PoolCopy pieces[] = {{host_of(pool, next), data.data(), 10}, {data.data() + 500, host_of(pool, next, 100), 20}};
  for (int i = 0; i < 3; ++i) pool.copy(host_of(pool, next, 200), data.data(), 100);
  (void)code_of([&] { pool.copy(host_of(pool, next, 200), data.data(), 0); });
  pool.copy_batch(pieces);
  pool.copy_async(pieces);
  pool.wait();
  pool.copy_2d(host_of(pool, next, 300), 32, data.data(), 16, 16, 5);
  const auto expect = [&](std::string_view operation, std::uint64_t calls, std::uint64_t failures,
                          std::uint64_t number_of_pieces, std::uint64_t bytes) {
    for (const PoolCounter& each : pool.counters()) {
      if (each.operation != operation) continue;
      HMC_CHECK_EQ(each.calls, calls);
      HMC_CHECK_EQ(each.failures, failures);
      HMC_CHECK_EQ(each.pieces, number_of_pieces);
      HMC_CHECK_EQ(each.bytes, bytes);
      return;
    }
    HMC_CHECK_MSG(false, "no counter {}", operation);
  };
  expect("copy", 4, 1, 3, 300);
  expect("copy_batch", 1, 0, 2, 30);
  expect("copy_async", 1, 0, 2, 30);
  expect("copy_2d", 1, 0, 5, 80);
  expect("join", 1, 0, 0, 0);
  me.barrier();
}

/// Without an accelerator device parts are host memory; between nodes they have the way of device memory.
void device_parts_are_verified_in_their_owners_memory(Process& me) {
  PoolOptions options = options_for(me, me.new_name());
  options.device_bytes = part_bytes + 4097;
  options.device_type = MemoryType::CPU;
  Pool pool = joined(me, options);
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  const auto* const own = static_cast<const std::byte*>(pool.pointer(me.rank(), PoolPart::device));
  std::uint64_t call = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{9000}, part_bytes + 4000}) {
    const auto data = filled({me.rank(), ++call}, bytes);
    void* const there = pool.address(next, PoolPart::device, 97);
    pool.copy(there, data.data(), bytes);
    me.barrier();
    check_pattern({previous, call}, own + 97, bytes);
    std::vector<std::byte> back(bytes);
    pool.copy(back.data(), there, bytes);
    HMC_CHECK(back == data);
    me.barrier();
  }
  HMC_CHECK(pool.path(next, PoolPart::device).way != PoolWay::staged);
  me.barrier();
}

void registered_memory_arrives_in_its_owners_memory(Process& me) {
  std::vector<std::byte> early = filled({me.rank(), 1}, part_bytes), late = filled({me.rank(), 2}, part_bytes);
  Pool pool = Pool::create(me.store(), options_for(me, me.new_name()));
  pool.register_memory(early.data(), early.size());  // before there is a wire
  (void)pool.join();
  me.barrier();
  pool.register_memory(late.data(), late.size());
  pool.register_memory(late.data(), late.size());
  HMC_CHECK_THROWS(Code::invalid_argument, pool.register_memory(late.data(), late.size() - 1));
  HMC_CHECK_THROWS(Code::invalid_argument, pool.register_memory(host_of(pool, me.rank()), 4096));
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  std::uint64_t call = 0;
  for (std::vector<std::byte>* const data : {&early, &late}) {
    pool.copy(host_of(pool, next), data->data(), part_bytes);
    me.barrier();
    check_pattern({previous, ++call}, own(me, pool), part_bytes);
    const auto sent = *data;
    std::fill(data->begin(), data->end(), std::byte{0});
    pool.copy(data->data(), host_of(pool, next), part_bytes);
    HMC_CHECK(*data == sent);
    pool.deregister_memory(data->data());
    pool.deregister_memory(data->data());
    pool.copy(data->data(), host_of(pool, next), 4096);
    me.barrier();
  }
}

}  // namespace
}  // namespace hmc::test

int main(int argc, char** argv) {
  using namespace hmc::test;
#define CASE(name) \
  { #name, &name }
  return run_cases(
      argc, argv,
      {CASE(addresses_are_equal_and_lead_to_their_rank), CASE(parts_are_verified_in_their_owners_memory),
       CASE(device_parts_are_verified_in_their_owners_memory), CASE(registered_memory_arrives_in_its_owners_memory),
       CASE(copies_between_two_other_members_work), CASE(wrong_copies_are_errors_and_move_nothing),
       CASE(batches_mix_directions), CASE(pitched_copies_leave_the_gaps), CASE(adopted_memory_shows_the_members_copies),
       CASE(a_member_without_memory_can_copy), CASE(ranks_are_assigned_and_all_members_see_one_order),
       CASE(a_member_can_be_accessed_when_its_join_has_returned), CASE(a_leave_ends_the_access_and_a_join_restores_it),
       CASE(different_settings_are_a_mismatch), CASE(rules_select_the_way),
       CASE(requests_reach_the_handler_of_a_member), CASE(counters_match_the_calls)});
}
