// Ranks that call with other arguments, or something else: every rank gets an Error within the deadline, and none a
// wrong result.
#include <algorithm>
#include <cstring>

#include "collectives/signature.hpp"
#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

void reduce_nothing(void*, const void*, std::size_t, DType, void*) {}
void keep_last(void* accumulated, const void* next, std::size_t count, DType type, void*) {
  std::memcpy(accumulated, next, count * size_of(type));
}

TEST_P(Mismatch, of_counts) {
  using Counts = std::pair<std::size_t, std::size_t>;
  for (const auto& [one, other] : {Counts{1, 2}, {0, 1}, {6, 7}, {512, 513}, {5, 100'000}, {100'000, 100'001}}) {
    SCOPED_TRACE(testing::Message() << one << " against " << other);
    for (const int odd : {0, ranks() - 1}) {
      expect_mismatch(
          run([&, one = one, other = other](Team& world, int rank) {
            auto out = output();
            world.allreduce(in.data(), out.data(), rank == odd ? other : one, DType::u64, sum);
            world.barrier();
          }),
          {"allreduce(" + std::to_string(one) + " x u64, sum)", "allreduce(" + std::to_string(other) + " x u64, sum)"});
    }
  }
}

// The other tests leave a busy machine seconds; here the best of many jobs counts.
TEST_P(Mismatch, is_told_in_milliseconds) {
  constexpr std::chrono::milliseconds soon(100);
  std::chrono::nanoseconds best = std::chrono::hours(1);
  for (int job = 0; job < 20 && best > soon; ++job) {
    std::vector<std::vector<std::uint64_t>> out(static_cast<std::size_t>(ranks()), output());
    const auto outcomes = run([&](Team& world, int rank) {
      const std::size_t count = rank == job % ranks() ? 100'000 : 6;
      world.allreduce(in.data(), out[static_cast<std::size_t>(rank)].data(), count, DType::u64, sum);
      world.barrier();
    });
    expect_mismatch(outcomes);
    std::chrono::nanoseconds last{};
    for (const Outcome& outcome : outcomes) last = std::max(last, outcome.took);
    best = std::min(best, last);
  }
  EXPECT_LE(best, soon);
}

TEST_P(Mismatch, of_types) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(
        run([&](Team& world, int rank) {
          auto out = output();
          world.allreduce(in.data(), out.data(), count, rank == 1 ? DType::f64 : DType::u64, sum);
          world.barrier();
        }),
        {"allreduce(" + std::to_string(count) + " x f64, sum)", "allreduce(" + std::to_string(count) + " x u64, sum)"});
  }
}

TEST_P(Mismatch, of_operations) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(
        run([&](Team& world, int rank) {
          auto out = output();
          world.allreduce(in.data(), out.data(), count, DType::u64, rank == 1 ? max : sum);
          world.barrier();
        }),
        {"allreduce(" + std::to_string(count) + " x u64, max)", "allreduce(" + std::to_string(count) + " x u64, sum)"});
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      if (rank == 1) {
        world.allreduce(in.data(), out.data(), count, DType::u64, reduce_nothing, nullptr);
      } else {
        world.allreduce(in.data(), out.data(), count, DType::u64, sum);
      }
      world.barrier();
    }));
  }
}

// How a reduction is done chooses the algorithm, so it is part of what was called.
TEST_P(Mismatch, of_how_a_reduction_is_done) {
  expect_mismatch(run([&](Team& world, int rank) {
    auto out = output();
    world.reduce_scatter(in.data(), out.data(), 6, DType::u64, rank == 1 ? deterministic(sum) : Reduction(sum));
    world.barrier();
  }));
  expect_mismatch(run([&](Team& world, int rank) {
    auto out = output();
    world.reduce_scatter(in.data(), out.data(), 6, DType::u64, Reduction(reduce_nothing, nullptr, rank == 1));
    world.barrier();
  }));
}

// Whose function it is, ranks can't compare; all else of the call they do.
TEST_P(Mismatch, of_calls_with_users_functions) {
  struct Asked {
    Reduction how = Reduction(reduce_nothing, nullptr, true);
    DType type = DType::u64;
    std::size_t count = 6;
  };
  const Asked plain;
  const auto outcomes_of = [&](const Asked& odd) {
    return run([&](Team& world, int rank) {
      const Asked& mine = rank == 1 ? odd : plain;
      auto out = output();
      world.allreduce(in.data(), out.data(), mine.count, mine.type, mine.how);
      world.reduce_scatter(in.data(), out.data(), mine.count, mine.type, mine.how);
      world.barrier();
    });
  };
  for (const Outcome& outcome : outcomes_of({.how = Reduction(keep_last, nullptr, true)}))
    EXPECT_EQ(outcome.code, Code::success) << outcome.text;
  const std::string text = "allreduce(6 x u64, user's function)";
  expect_mismatch(outcomes_of({.count = 7}), {text, "allreduce(7 x u64, user's function)"});
  expect_mismatch(outcomes_of({.type = DType::f64}), {text, "allreduce(6 x f64, user's function)"});
  expect_mismatch(outcomes_of({.how = Reduction(reduce_nothing, nullptr, false)}),
                  {text, "allreduce(6 x u64, user's function in rank order)"});
  expect_mismatch(outcomes_of({.how = deterministic(plain.how)}),
                  {text, "allreduce(6 x u64, deterministic user's function)"});
  expect_mismatch(outcomes_of({.how = sum}), {text, "allreduce(6 x u64, sum)"});
}

TEST_P(Mismatch, of_collectives) {
  const auto call = [&](Team& world, int kind, std::size_t bytes) {
    auto out = output();
    switch (kind) {
      case 0: return world.barrier();
      case 1: return world.broadcast(out.data(), bytes, 0);
      case 2: return world.allgather(in.data(), out.data(), bytes);
      default: return world.allreduce(in.data(), out.data(), bytes / 8, DType::u64, sum);
    }
  };
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{3000}, std::size_t{400'000}}) {
    for (int kind = 0; kind < 4; ++kind) {
      for (int other = 0; other < 4; ++other) {
        if (kind == other || (kind == 0 && bytes > 16 && other == 0)) continue;
        SCOPED_TRACE(testing::Message() << "kind " << kind << " against " << other << ", " << bytes << " bytes");
        expect_mismatch(run([&](Team& world, int rank) {
          call(world, rank == 0 ? kind : other, bytes);
          world.barrier();
        }));
      }
    }
  }
}

TEST_P(Mismatch, of_roots_and_sizes) {
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{3000}, std::size_t{400'000}}) {
    SCOPED_TRACE(bytes);
    expect_mismatch(run([&](Team& world, int rank) {
                      auto out = output();
                      world.broadcast(out.data(), bytes, rank == 0 ? 0 : 1);
                      world.barrier();
                    }),
                    {"broadcast(" + std::to_string(bytes) + " bytes, root 0)",
                     "broadcast(" + std::to_string(bytes) + " bytes, root 1)"});
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.broadcast(out.data(), bytes + static_cast<std::size_t>(rank == 1), 0);
      world.barrier();
    }));
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.allgather(in.data(), out.data(), bytes + static_cast<std::size_t>(rank == 1));
      world.barrier();
    }));
  }
}

// A ring of ranks, none of which gets anything that it could compare.
TEST_P(Mismatch, of_ranks_that_all_wait_for_another_root) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{100'000}}) {
    const auto text = [&](int root) {
      return "broadcast(" + std::to_string(bytes) + " bytes, root " + std::to_string(root) + ")";
    };
    expect_mismatch(run([&](Team& world, int rank) {
                      world.barrier();
                      world.broadcast(output().data(), bytes, (rank + 1) % ranks());
                    }),
                    {text(0), text(1), text(ranks() - 1)});
  }
}

// Two such rings at once: neither's questions may keep the other's from being asked.
TEST_P(Mismatch, of_what_is_started_and_of_the_call_that_blocks) {
  expect_mismatch(run([&](Team& world, int rank) {
    world.barrier();
    auto out = output();
    Request request = world.ibroadcast(out.data(), 80, (rank + 1) % ranks());
    world.broadcast(out.data() + 100, 100'000, (rank + 1) % ranks());
    request.wait();
  }));
}

// What one rank sends isn't what the other expects: nothing moves, all hear of it, and the team goes on.
TEST_P(Mismatch, of_counts_of_a_pair) {
  using Two = std::pair<std::size_t, std::size_t>;
  const auto n = static_cast<std::size_t>(ranks());
  using Counts = std::vector<std::size_t>;
  const auto call = [&](Team& world, int form, const Counts& counts, const Counts& at, std::vector<std::uint64_t>& out,
                        const Counts& receive_counts) {
    if (form == 0) return world.alltoallv(in.data(), counts, at, out.data(), receive_counts, at, 8);
    if (form == 1) return world.ialltoallv(in.data(), counts, at, out.data(), receive_counts, at, 100'000, 8).wait();
    Plan plan = world.plan_alltoallv(in.data(), counts, at, out.data(), receive_counts, at, 100'000, 8);
    for (int run = 0; run < 2; ++run) {
      plan.start();
      plan.wait();
    }
  };
  for (const auto& [sent, expected] : {Two{5, 6}, {6, 5}, {0, 3}, {3, 0}, {40'000, 39'999}, {1, 90'000}}) {
    const std::string text = "rank 0 sends " + std::to_string(sent) + " to rank " + std::to_string(n - 1) +
                             ", which expects " + std::to_string(expected);
    const auto outcomes = run([&, sent = sent, expected = expected](Team& world, int rank) {
      auto out = output();
      const std::vector<std::size_t> even(n, 4), displacements(n, 0);
      auto counts = even, receive_counts = even;
      if (rank == 0) counts[n - 1] = sent;
      if (rank == ranks() - 1) receive_counts[0] = expected;
      for (int form = 0; form < 3; ++form) {
        std::fill(out.begin(), out.end(), 77);
        try {
          call(world, form, counts, displacements, out, receive_counts);
          ADD_FAILURE() << "form " << form;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::mismatch) << error.what();
          EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](std::uint64_t word) { return word == 77; }));
        call(world, form, even, displacements, out, even);
        EXPECT_EQ(out[3], 1U);
        EXPECT_EQ(out[4], 77U);
      }
      world.alltoallv(in.data(), counts, displacements, out.data(), receive_counts, displacements, 8);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, Code::mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
      EXPECT_LT(outcome.took, at_most) << outcome.text;
    }
  }
}

// As many bytes at most, so that only the elements tell them apart: counts, which all agree, are in elements.
TEST_P(Mismatch, of_elements) {
  const auto n = static_cast<std::size_t>(ranks());
  struct Element {
    std::size_t bytes, largest;
  };
  for (const std::size_t count : {std::size_t{3}, std::size_t{1000}, std::size_t{40'000}}) {
    const std::vector<std::size_t> counts(n, count);
    for (int form = 0; form < 3; ++form) {
      SCOPED_TRACE(testing::Message() << count << " elements, form " << form);
      const auto text_of = [&](const Element& element) {
        return form == 0 ? "alltoallv(elements of " + std::to_string(element.bytes) + " bytes)"
                         : "ialltoallv(elements of " + std::to_string(element.bytes) + " bytes, at most " +
                               std::to_string(element.largest) + ")";
      };
      const Element one{8, count}, other{4, 2 * count};
      expect_mismatch(run([&](Team& world, int rank) {
                        const auto [bytes, largest] = rank == ranks() - 1 ? other : one;
                        auto out = output();
                        if (form == 0) world.alltoallv(in.data(), counts, {}, out.data(), counts, {}, bytes);
                        if (form == 1)
                          world.ialltoallv(in.data(), counts, {}, out.data(), counts, {}, largest, bytes).wait();
                        if (form == 2) {
                          Plan plan =
                              world.plan_alltoallv(in.data(), counts, {}, out.data(), counts, {}, largest, bytes);
                          plan.start();
                          plan.wait();
                        }
                        world.barrier();
                      }),
                      {text_of(one), text_of(other)});
    }
  }
}

// Larger ones than a job could move here: whatever of them fits into the word, and is told, the rest counts too.
TEST(Signatures, of_elements_of_any_size) {
  using collectives::Signature;
  std::vector<std::uint64_t> words;
  for (const std::uint64_t largest : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{7} << 32}) {
    for (int bit = 0; bit < 32 && largest << bit <= std::uint64_t{1} << 48; ++bit)  // more is refused
      words.push_back(Signature::alltoallv(std::uint32_t{1} << bit, largest).non_blocking().word());
  }
  std::ranges::sort(words);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
  EXPECT_EQ(Signature::alltoallv(8'388'607).text(), "alltoallv(elements of 8388607 bytes)");
  EXPECT_EQ(Signature::alltoallv(12, 4'000'000'000).non_blocking().text(),
            "ialltoallv(elements of 12 bytes, at most 4000000000)");
}

// A v-form's counts are told by their hash: not as so many bytes.
TEST_P(Mismatch, of_counts_of_v_forms) {
  const auto n = static_cast<std::size_t>(ranks());
  const std::vector<std::string> texts{"allgatherv(counts with hash ", "gatherv(counts with hash ",
                                       "reduce_scatterv(counts with hash "};
  const std::vector<std::string> ends{")", ", root 1)", " of u32, max)"};
  for (std::size_t form = 0; form < texts.size(); ++form) {
    SCOPED_TRACE(texts[form]);
    const auto outcomes = run([&](Team& world, int rank) {
      auto out = output();
      std::vector<std::size_t> counts(n, 9);
      if (rank == 1) ++counts[0];
      if (form == 0) world.allgatherv(in.data(), out.data(), counts, {}, 4);
      if (form == 1) world.gatherv(in.data(), out.data(), counts, {}, 1, 4);
      if (form == 2) world.reduce_scatterv(in.data(), out.data(), counts, DType::u32, max);
      world.barrier();
    });
    expect_mismatch(outcomes, {texts[form]});
    for (const Outcome& outcome : outcomes) {
      // Eight digits of the hash, and then what else there is to it: of rank 1, and of the others.
      std::vector<std::string> told;
      for (auto at = outcome.text.find(texts[form]); at != std::string::npos; at = outcome.text.find(texts[form], at)) {
        at += texts[form].size();
        EXPECT_EQ(outcome.text.substr(at + 8, ends[form].size()), ends[form]) << outcome.text;
        told.push_back(outcome.text.substr(at, 8));
      }
      ASSERT_EQ(told.size(), 2U) << outcome.text;
      EXPECT_NE(told[0], told[1]) << outcome.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mismatch, testing::Values(std::tuple(2, 1), std::tuple(3, 1), std::tuple(4, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
