#include "launcher/hosts.hpp"

#include <gtest/gtest.h>

#include "launcher/part.hpp"
#include "launcher/report.hpp"

namespace hmc::launcher {
namespace {

std::string text_of(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& each : hosts)
    text.append(each.name).append(each.has_slots ? ":" : "~").append(std::to_string(each.slots)).append(" ");
  return text;
}

std::string text_of(const std::vector<HostRanks>& hosts) {
  std::string text;
  for (const HostRanks& each : hosts) {
    text += each.host;
    for (const int number : each.numbers) text.append(" ").append(std::to_string(number));
    text += "; ";
  }
  return text;
}

TEST(Hosts, list_has_names_and_slots) {
  EXPECT_EQ(text_of(parse_host_list("a:4,b,10.0.0.7:2")), "a:4 b~1 10.0.0.7:2 ");
  EXPECT_EQ(text_of(parse_host_list("a,b,a,b:3")), "a~2 b:4 ") << "a host that is named twice";
  for (const char* const wrong : {"", ",", "a:", "a:0", "a:x", "a:4:5", "a b", "-oProxyCommand=x", "a;b", "$(x)"})
    EXPECT_THROW(parse_host_list(wrong), UsageError) << wrong;
}

TEST(Hosts, file_accepts_both_forms_and_comments) {
  EXPECT_EQ(text_of(parse_host_file("# comment\n\na slots=4\n b:2 # more\r\nc\n", "f")), "a:4 b:2 c~1 ");
  for (const char* const wrong :
       {"", "# only\n", "a slots=0", "a slots=", "a slot=4", "a:4 slots=4", "a b", "a slots=4 x"})
    EXPECT_THROW(parse_host_file(wrong, "f"), UsageError) << wrong;
  try {
    parse_host_file("a\nb slots=x\n", "the.file");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("the.file: line 2"), std::string::npos) << error.what();
  }
}

TEST(Hosts, counts_of_slurm_are_expanded) {
  EXPECT_EQ(parse_slurm_counts("4(x2),1"), (std::vector<int>{4, 4, 1}));
  EXPECT_EQ(parse_slurm_counts("8"), std::vector<int>{8});
  for (const char* const wrong : {"x", "4(x)", "4(x0)", "4(x2", "-1", "1(x99999999)"})
    EXPECT_TRUE(parse_slurm_counts(wrong).empty()) << wrong;
}

TEST(Hosts, ranks_are_assigned_by_slot_or_by_node) {
  const std::vector<Host> hosts = parse_host_list("a:2,b:3,c:1");
  Options options;
  EXPECT_EQ(text_of(assign_ranks(hosts, options)), "a 0 1; b 2 3 4; c 5; ");
  EXPECT_EQ(options.ranks, 6);
  options.ranks = 3;
  EXPECT_EQ(text_of(assign_ranks(hosts, options)), "a 0 1; b 2; ");
  options.map_by = MapBy::node;
  EXPECT_EQ(text_of(assign_ranks(hosts, options)), "a 0; b 1; c 2; ");
  options.ranks = 6;
  EXPECT_EQ(text_of(assign_ranks(hosts, options)), "a 0 3; b 1 4 5; c 2; ");
  options.ranks = 7;
  EXPECT_THROW(assign_ranks(hosts, options), UsageError);
}

TEST(Hosts, number_of_ranks_per_host_can_be_given) {
  Options options;
  options.per_host = 2;
  EXPECT_EQ(text_of(assign_ranks(parse_host_list("a,b:4"), options)), "a 0 1; b 2 3; ");
  options.per_host = 5;
  EXPECT_THROW(assign_ranks(parse_host_list("a,b:4"), options), UsageError);
}

TEST(Hosts, order_to_a_part_arrives_unchanged) {
  PartOrder order;
  order.host = "a";
  order.store = "10.0.0.1:1,[fe80::1]:1";
  order.secret = std::string(64, 'a');
  order.folder = "/tmp/with space";
  order.variables = {"HMC_LOG=info", "EMPTY="};
  order.options.programs = {{2, {"app", "", "--x"}, {"A=b"}, ""}, {4, {"other"}, {}, "/folder"}};
  order.options.numbers = {1, 4, 5};
  order.options.job_size = 6;
  order.options.tag_output = order.options.keep_going = true;
  order.options.respawns = 2;
  order.options.bind_to = BindTo::numa;
  order.options.map_by = MapBy::numa;
  const base::Bytes bytes = order.encode();
  const auto back = PartOrder::decode(base::ByteView(bytes).subspan(sizeof(std::uint32_t)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->encode(), bytes);
  EXPECT_EQ(back->options.ranks, 3);
  EXPECT_EQ(back->options.number(1), 4);
  EXPECT_EQ(back->options.program_name(4), "other");
  for (const std::vector<int>& wrong : {std::vector<int>{}, {1, 1}, {4, 1}, {1, 6}, {-1, 2}}) {
    order.options.numbers = wrong;
    order.options.ranks = static_cast<int>(wrong.size());
    const base::Bytes encoded = order.encode();
    EXPECT_FALSE(PartOrder::decode(base::ByteView(encoded).subspan(sizeof(std::uint32_t))));
  }
}

}  // namespace
}  // namespace hmc::launcher
