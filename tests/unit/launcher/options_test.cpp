#include "launcher/options.hpp"

#include <gtest/gtest.h>

#include "launcher/report.hpp"

namespace hmc::launcher {
namespace {

using Words = std::vector<std::string>;

/// The text of the error; empty if the options are accepted.
std::string refusal(const Words& words) {
  try {
    parse_options(words);
    return {};
  } catch (const LaunchError& failure) {
    EXPECT_EQ(failure.status(), exit_usage);
    return failure.what();
  }
}

TEST(Options, every_spelling_of_the_number_of_ranks_is_accepted) {
  for (const Words& words : std::vector<Words>{{"-n", "5", "app"},
                                               {"-n5", "app"},
                                               {"-np", "5", "app"},
                                               {"-np=5", "app"},
                                               {"--np", "5", "app"},
                                               {"--np=5", "app"}})
    EXPECT_EQ(parse_options(words).ranks, 5) << words.front();
}

TEST(Options, defaults_are_as_documented) {
  const Options options = parse_options({"-n", "1", "app"});
  EXPECT_EQ(options.nodes, 1);
  EXPECT_EQ(options.bind_to, BindTo::none);
  EXPECT_FALSE(options.timeout || options.tag_output || options.report_bindings || options.dry_run);
  EXPECT_TRUE(options.env.empty() && options.output_dir.empty() && options.print.empty());
}

TEST(Options, all_options_are_parsed) {
  const Options options =
      parse_options({"-np", "6", "--nodes", "3", "-x", "A", "-x", "B=c d", "--tag-output", "--output-filename", "dir",
                     "--timeout", "2.5", "--bind-to", "numa", "--report-bindings", "--dry-run", "app"});
  EXPECT_EQ(options.nodes, 3);
  EXPECT_EQ(options.env, (Words{"A", "B=c d"}));
  EXPECT_TRUE(options.tag_output && options.report_bindings && options.dry_run);
  EXPECT_EQ(options.output_dir, "dir");
  EXPECT_EQ(options.timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(options.bind_to, BindTo::numa);
}

TEST(Options, program_and_its_arguments_are_unchanged) {
  const Words command{"app", "-np", "3", "-x", "--", "--help", "", "--nodes=9"};
  Words words{"-np", "2"};
  words.insert(words.end(), command.begin(), command.end());
  const Options options = parse_options(words);
  EXPECT_EQ(options.command, command);
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.nodes, 1);
}

TEST(Options, x_has_one_argument) {
  const Options options = parse_options({"-np", "2", "-x", "A", "app", "B"});
  EXPECT_EQ(options.env, Words{"A"});
  EXPECT_EQ(options.command, (Words{"app", "B"}));
}

TEST(Options, double_dash_allows_a_program_with_a_dash) {
  EXPECT_EQ(parse_options({"-np", "2", "--", "-app", "-np"}).command, (Words{"-app", "-np"}));
}

TEST(Options, program_named_like_an_option_value_is_found) {
  EXPECT_EQ(parse_options({"-np", "2", "./-np"}).command, Words{"./-np"});
}

TEST(Options, help_and_version_need_no_program) {
  EXPECT_NE(parse_options({"--help"}).print.find("--bind-to"), std::string::npos);
  EXPECT_NE(parse_options({"--version"}).print.find("hmcrun "), std::string::npos);
}

TEST(Options, errors_name_the_option_and_the_value) {
  EXPECT_NE(refusal({"-np", "0", "app"}).find("-np 0"), std::string::npos);
  EXPECT_NE(refusal({"-np", "4x", "app"}).find("-np 4x"), std::string::npos);
  EXPECT_NE(refusal({"-np", "70000", "app"}).find("65536"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--nodes", "0", "app"}).find("--nodes 0"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--nodes", "3", "app"}).find("only 2 ranks"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--timeout", "-1", "app"}).find("--timeout -1"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--timeout", "nan", "app"}).find("--timeout nan"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--bind-to", "cpu", "app"}).find("core"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--frob", "app"}).find("--frob"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "-z", "app"}).find("-z"), std::string::npos);
  EXPECT_NE(refusal({"app"}).find("number of ranks"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2"}).find("program is missing"), std::string::npos);
  EXPECT_NE(refusal({}).find("number of ranks"), std::string::npos);
}

}  // namespace
}  // namespace hmc::launcher
