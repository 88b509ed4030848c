// Counts or element sizes of a v-form that differ between ranks.
#include <algorithm>

#include "collectives/args/signature.hpp"
#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

// A send count differs from the peer's receive count: no data moves, all ranks get the error, and the team still works.
TEST_P(Mismatch, different_counts_of_a_pair_are_reported) {
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

// Counts in elements and element sizes differ, but their products (bytes) are equal. The ranks must compare elements.
TEST_P(Mismatch, different_elements_are_reported) {
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
                         : "ialltoallv(elements of " + std::to_string(element.bytes) + " bytes)";
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

// The caller can't know the largest count of all pairs, so every rank's error names it. No data moves.
TEST_P(Mismatch, wrong_largest_count_is_reported_with_the_right_one) {
  const auto n = static_cast<std::size_t>(ranks());
  const std::vector<std::size_t> ones(n, 1);
  struct Case {
    std::size_t passed, by_last;
    Code code;
    const char* text;
    bool is_usable;  // all ranks cut the call into as many pieces
  };
  for (const Case& each : {Case{5, 5, Code::invalid_argument, "all ranks passed a `largest` of 5 ", true},
                           Case{7, 5, Code::mismatch, "the ranks passed a `largest` of 5 to 7 ", true},
                           Case{7, 9, Code::mismatch, "the ranks passed a `largest` of 7 to 9 ", true},
                           Case{7, 9'000'000, Code::mismatch, "of 7 to 9000000 ", false},
                           Case{0, 0, Code::invalid_argument, "all ranks passed a `largest` of 0 ", true}}) {
    for (const bool is_planned : {false, true}) {
      SCOPED_TRACE(testing::Message() << each.text << (is_planned ? ", planned" : ""));
      const auto outcomes = run([&](Team& world, int rank) {
        auto out = output();
        std::vector<std::size_t> sent = ones, received = ones;
        if (rank == 0) sent[n - 1] = 7;
        if (rank == ranks() - 1) received[0] = 7;
        const std::size_t largest = rank == ranks() - 1 ? each.by_last : each.passed;
        const auto call = [&](std::size_t passed) {
          if (!is_planned) return world.ialltoallv(in.data(), sent, {}, out.data(), received, {}, passed, 8).wait();
          Plan plan = world.plan_alltoallv(in.data(), sent, {}, out.data(), received, {}, passed, 8);
          for (int run = 0; run < 2; ++run) {
            plan.start();
            plan.wait();
          }
        };
        for (int again = 0; again < 2; ++again) {
          try {
            call(largest);
            ADD_FAILURE() << "rank " << rank << " got no error";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), each.code) << error.what();
            const std::string text = error.what();
            EXPECT_NE(text.find(each.text), std::string::npos) << text;
            EXPECT_NE(text.find("the largest count that two ranks exchange is 7"), std::string::npos) << text;
          }
          EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](std::uint64_t word) { return word == 0; }));
        }
        if (each.is_usable) {
          call(7);
          EXPECT_EQ(out[0], 1U);
        }
        world.barrier();
      });
      for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome.code, each.is_usable ? Code::success : each.code) << outcome.text;
        EXPECT_LT(outcome.took, at_most) << outcome.text;
      }
    }
  }
}

// Sizes beyond those of a real job. Bits that don't fit into the word must still change the word.
TEST(Signatures, elements_of_any_size_are_compared) {
  using collectives::Signature;
  std::vector<std::uint64_t> words;
  for (int bit = 0; bit < 32; ++bit) {
    words.push_back(Signature::alltoallv(std::uint32_t{1} << bit).word());
    words.push_back(Signature::alltoallv(std::uint32_t{1} << bit).non_blocking().word());
  }
  std::ranges::sort(words);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
  EXPECT_EQ(Signature::alltoallv(8'388'607).text(), "alltoallv(elements of 8388607 bytes)");
  EXPECT_EQ(Signature::alltoallv(12).non_blocking().text(), "ialltoallv(elements of 12 bytes)");
}

// A v-form's counts are reported by their hash, not as a number of bytes.
TEST_P(Mismatch, different_counts_of_v_forms_are_reported) {
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
      // The text has two calls, of rank 1 and of the others: eight digits of the hash, then `ends`.
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

}  // namespace
}  // namespace hmc
