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
                                               {"-np5", "app"},
                                               {"-c", "5", "app"},
                                               {"-c5", "app"},
                                               {"--n", "5", "app"},
                                               {"--ntasks=5", "app"},
                                               {"--oversubscribe", "-np", "5", "app"},
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
  ASSERT_EQ(options.programs.size(), 1U);
  EXPECT_EQ(options.programs.front().command, command);
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.nodes, 1);
}

TEST(Options, x_has_one_argument) {
  const Options options = parse_options({"-np", "2", "-x", "A", "app", "B"});
  EXPECT_EQ(options.env, Words{"A"});
  EXPECT_EQ(options.programs.front().command, (Words{"app", "B"}));
}

TEST(Options, double_dash_allows_a_program_with_a_dash) {
  EXPECT_EQ(parse_options({"-np", "2", "--", "-app", "-np"}).programs.front().command, (Words{"-app", "-np"}));
}

TEST(Options, program_named_like_an_option_value_is_found) {
  EXPECT_EQ(parse_options({"-np", "2", "./-np"}).programs.front().command, Words{"./-np"});
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

// ---- other launchers' spellings

TEST(Spellings, options_with_hosts_are_ours) {
  for (const char* const name : {"-H", "-host", "--host", "-hosts", "--hosts"})
    EXPECT_EQ(parse_options({name, "a:2,b", "app"}).hosts, "a:2,b") << name;
  EXPECT_EQ(parse_options({"-Ha:2", "app"}).hosts, "a:2");
  for (const char* const name : {"--hostfile", "-hostfile", "-f", "--machinefile", "-machinefile"})
    EXPECT_EQ(parse_options({name, "file", "app"}).host_file, "file") << name;
  for (const char* const name : {"-N", "-ppn", "--ppn", "-perhost", "--npernode", "--ntasks-per-node"})
    EXPECT_EQ(parse_options({name, "3", "app"}).ranks, 3) << name;
  EXPECT_EQ(parse_options({"-N3", "app"}).ranks, 3);
}

TEST(Spellings, variables_have_one_word_or_two) {
  EXPECT_EQ(parse_options({"-n", "1", "-xA=b", "-genv", "C", "d e", "-env", "F=g", "app"}).env,
            (Words{"C=d e", "A=b", "F=g"}));
}

TEST(Spellings, flags_and_binding_are_ours) {
  for (const char* const name : {"-l", "--label", "-prepend-rank", "-tag-output", "--tag-output"})
    EXPECT_TRUE(parse_options({"-n", "1", name, "app"}).tag_output) << name;
  EXPECT_EQ(parse_options({"-n", "1", "-bind-to", "core", "app"}).bind_to, BindTo::core);
  EXPECT_EQ(parse_options({"-n", "1", "--bind-to-core", "app"}).bind_to, BindTo::core);
  EXPECT_EQ(parse_options({"-n", "1", "--map-by=node", "app"}).map_by, MapBy::node);
  EXPECT_EQ(parse_options({"-n", "1", "-wd", "/tmp", "app"}).programs.front().folder, "/tmp");
  EXPECT_EQ(parse_options({"--allow-run-as-root", "-n", "1", "app"}).ranks, 1);
}

TEST(Spellings, errors_name_the_right_option) {
  EXPECT_NE(refusal({"-np", "2", "--mca", "btl", "tcp", "app"}).find("--mca: HMC is configured by variables"),
            std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "-configfile", "x"}).find("./a : -np 2 ./b"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--map-by", "ppr:2:node", "app"}).find("-N"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--nproc-per-node", "2", "app"}).find("use -N"), std::string::npos);
  EXPECT_NE(refusal({"-np", "2", "--tag-output=yes", "app"}).find("--tag-output: it takes no value"),
            std::string::npos);
  EXPECT_NE(refusal({"-np"}).find("-np: its value is missing"), std::string::npos);
}

// ---- several programs

TEST(Programs, ranks_words_and_variables_are_those_of_each) {
  const Options options = parse_options({"-genv",  "A",    "1",     "-np", "2",   "-x", "B=2", "a",  "-n", ":", "-n3",
                                         "--wdir", "/tmp", "dir/b", ":",   "-np", "1",  "--",  "-c", ":",  "x"});
  ASSERT_EQ(options.programs.size(), 3U);
  EXPECT_EQ(options.ranks, 6);
  EXPECT_EQ(options.env, Words{"A=1"});
  EXPECT_EQ(options.programs[0].env, Words{"B=2"});
  EXPECT_EQ(options.programs[0].command, (Words{"a", "-n"}));
  EXPECT_EQ(options.programs[1].folder, "/tmp");
  EXPECT_EQ(options.programs[2].command, (Words{"-c", ":", "x"}));
  std::vector<std::size_t> of_ranks;
  for (int rank = 0; rank < 6; ++rank) of_ranks.push_back(options.program_of(rank));
  EXPECT_EQ(of_ranks, (std::vector<std::size_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(options.program_name(3), "b");
}

TEST(Programs, errors_name_the_program_or_the_option) {
  EXPECT_NE(refusal({"-np", "1", "a", ":", "b"}).find("number of ranks of b"), std::string::npos);
  EXPECT_NE(refusal({"-np", "1", "a", ":"}).find("before or after ':'"), std::string::npos);
  EXPECT_NE(refusal({"-np", "1", ":", "-np", "1", "b"}).find("before or after ':'"), std::string::npos);
  EXPECT_NE(refusal({"-np", "1", "a", ":", "-np", "1", "--timeout", "9", "b"}).find("--timeout"), std::string::npos);
  EXPECT_NE(refusal({"-np", "65536", "a", ":", "-np", "1", "b"}).find("65537 ranks"), std::string::npos);
}

}  // namespace
}  // namespace hmc::launcher
