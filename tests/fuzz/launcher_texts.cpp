// Texts of launchers: rank 0's record, a PMI-1 line, host lists and files, Slurm's counts, the order to a part.
#include "bootstrap/launchers/texts.hpp"

#include "launcher/hosts.hpp"
#include "launcher/part.hpp"
#include "launcher/report.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace hmc::fuzz {

namespace {

template <typename Parse> void parse_hosts(const Parse& parse) {
  try {
    const auto hosts = parse();
    require(!hosts.empty());
    for (const launcher::Host& each : hosts) require(!each.name.empty() && each.name.front() != '-' && each.slots > 0);
    launcher::Options options;
    options.ranks = 1;
    require(launcher::assign_ranks(hosts, options).size() == 1);
  } catch (const launcher::UsageError&) {
  }
}

}  // namespace

void run(base::ByteView input) {
  const std::string_view text = base::as_text(input);
  if (const auto record = bootstrap::Record::parse(text)) {
    const auto again = bootstrap::Record::parse(record->text());
    require(again && again->text() == record->text());
  }
  for (const char* const key : {"cmd", "rc", "value"}) require(bootstrap::pmi1_value(text, key).size() <= text.size());
  parse_hosts([&] { return launcher::parse_host_list(text); });
  parse_hosts([&] { return launcher::parse_host_file(text, "file"); });
  for (const int count : launcher::parse_slurm_counts(text)) require(count > 0);
  if (const auto order = launcher::PartOrder::decode(input)) {
    const base::Bytes encoded = order->encode();
    require(launcher::PartOrder::decode(base::ByteView(encoded).subspan(sizeof(std::uint32_t))).has_value());
  }
}

void add_seeds(const std::function<void(base::ByteView)>& add) {
  bootstrap::Record record{"-", 1, 2, 3, "4711", {"10.0.0.7", "[fd00::1]"}};
  for (const std::string& text : {record.text(), std::string("cmd=get_result rc=0 value=x"), std::string("a:4,b"),
                                  std::string("# c\na slots=4\nb:2\n"), std::string("4(x2),1")})
    add(base::as_bytes(text));
  launcher::PartOrder order;
  order.host = "a";
  order.options.programs = {{0, {"app"}, {}, ""}};
  order.options.numbers = {0, 2};
  order.options.job_size = 3;
  const base::Bytes encoded = order.encode();
  add(base::ByteView(encoded).subspan(sizeof(std::uint32_t)));
}

}  // namespace hmc::fuzz
