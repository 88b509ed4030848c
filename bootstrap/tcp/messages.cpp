#include "bootstrap/tcp/messages.hpp"

#include <algorithm>

namespace hmc::bootstrap {

namespace {

/// Reads a count and checks it against the remaining bytes, so that memory is allocated only for data that has arrived.
std::size_t read_count(base::ByteReader& in, std::size_t least_bytes_each) {
  const auto count = in.number<std::uint32_t>();
  if (count <= in.left() / least_bytes_each) return count;
  (void)in.raw(in.left() + 1);  // puts the reader into the error state
  return 0;
}

template <typename Each> void write_count(base::ByteWriter& out, const std::vector<Each>& list) {
  out.number(static_cast<std::uint32_t>(list.size()));
}

base::Bytes read_bytes(base::ByteReader& in) {
  const base::ByteView view = in.blob();
  return {view.begin(), view.end()};
}

void write_facts(base::ByteWriter& out, const std::vector<RankFacts>& ranks) {
  write_count(out, ranks);
  for (const RankFacts& each : ranks) {
    out.number(each.rank).number(each.node).number(each.local_index).number(each.pid);
    out.number(each.machine).number(each.network);
    for (const std::uint64_t word : each.cpus) out.number(word);
    out.number(each.further_cpus);
  }
}

std::vector<RankFacts> read_facts(base::ByteReader& in) {
  std::vector<RankFacts> ranks(read_count(in, rank_facts_bytes));
  for (RankFacts& each : ranks) {
    each.rank = in.number<std::int32_t>();
    each.node = in.number<std::int32_t>();
    each.local_index = in.number<std::int32_t>();
    each.pid = in.number<std::int32_t>();
    each.machine = in.number<std::uint64_t>();
    each.network = in.number<std::uint64_t>();
    for (std::uint64_t& word : each.cpus) word = in.number<std::uint64_t>();
    each.further_cpus = in.number<std::uint32_t>();
  }
  return ranks;
}

/// Reads an enumerator of one byte. A value above `last` puts the reader into the error state.
template <typename Enum> Enum read_enum(base::ByteReader& in, Enum last) {
  const auto value = in.number<std::uint8_t>();
  if (value > static_cast<std::uint8_t>(last)) (void)in.raw(in.left() + 1);
  return static_cast<Enum>(value);
}

}  // namespace

std::optional<std::size_t> payload_limit(MessageType type) noexcept {
  constexpr std::size_t small = 256;
  constexpr std::size_t text = 16U << 10;
  constexpr std::size_t table = 128U << 20;  // a million ranks
  switch (type) {
    case MessageType::hello: return 32;
    case MessageType::welcome: return 0;
    case MessageType::page:
    case MessageType::missing_query:
    case MessageType::goodbye: return small;
    case MessageType::node_hello:
    case MessageType::round_failed:
    case MessageType::abort:
    case MessageType::death:
    case MessageType::failure:
    case MessageType::refusal:
    case MessageType::lookup:
    case MessageType::share_result: return text;
    case MessageType::join:
    case MessageType::table:
    case MessageType::missing_reply: return table;
    case MessageType::share_offer:  // a node may have many ranks
    case MessageType::publish:
    case MessageType::reply: return longest_value_bytes + text;
    case MessageType::contribution:
    case MessageType::result: return largest_round_bytes + table;
  }
  return std::nullopt;
}

const char* name_of(RoundKind kind) noexcept { return kind == RoundKind::barrier ? "barrier" : "allgather"; }

void NodeHello::write(base::ByteWriter& out) const { out.number(job_size).number(pid).text(label); }
NodeHello NodeHello::read(base::ByteReader& in) {
  NodeHello message;
  message.job_size = in.number<std::int32_t>();
  message.pid = in.number<std::int32_t>();
  message.label = in.text();
  return message;
}

void Join::write(base::ByteWriter& out) const {
  out.number(job_size);
  write_facts(out, ranks);
}
Join Join::read(base::ByteReader& in) {
  Join message;
  message.job_size = in.number<std::int32_t>();
  message.ranks = read_facts(in);
  return message;
}

void Page::write(base::ByteWriter& out) const { out.number(nonce); }
Page Page::read(base::ByteReader& in) {
  Page message;
  message.nonce = in.number<std::uint64_t>();
  return message;
}

void Table::write(base::ByteWriter& out) const { write_facts(out, ranks); }
Table Table::read(base::ByteReader& in) { return {read_facts(in)}; }

void Contribution::write(base::ByteWriter& out) const {
  out.number(round).number(kind);
  write_count(out, entries);
  for (const Entry& each : entries) out.number(each.rank).blob(each.bytes);
}
Contribution Contribution::read(base::ByteReader& in) {
  Contribution message;
  message.round = in.number<std::uint64_t>();
  message.kind = read_enum(in, RoundKind::barrier);
  message.entries.resize(read_count(in, 8));
  for (Entry& each : message.entries) {
    each.rank = in.number<std::int32_t>();
    each.bytes = read_bytes(in);
  }
  return message;
}

void Result::write(base::ByteWriter& out) const {
  out.number(round);
  write_count(out, by_rank);
  for (const base::Bytes& each : by_rank) out.blob(each);
}
Result Result::read(base::ByteReader& in) {
  Result message;
  message.round = in.number<std::uint64_t>();
  message.by_rank.resize(read_count(in, 4));
  for (base::Bytes& each : message.by_rank) each = read_bytes(in);
  return message;
}

void RoundFailed::write(base::ByteWriter& out) const {
  out.number(scope).number(round).number(code).number(peer).text(text);
}
RoundFailed RoundFailed::read(base::ByteReader& in) {
  RoundFailed message;
  message.scope = read_enum(in, Scope::node);
  message.round = in.number<std::uint64_t>();
  message.code = in.number<Code>();
  message.peer = in.number<std::int32_t>();
  message.text = in.text();
  return message;
}

void ShareOffer::write(base::ByteWriter& out) const {
  out.number(round).number(bytes).number(file_offset);
  write_count(out, local_indexes);
  for (const std::uint32_t each : local_indexes) out.number(each);
}
ShareOffer ShareOffer::read(base::ByteReader& in) {
  ShareOffer message;
  message.round = in.number<std::uint64_t>();
  message.bytes = in.number<std::uint64_t>();
  message.file_offset = in.number<std::uint64_t>();
  message.local_indexes.resize(read_count(in, 4));
  for (std::uint32_t& each : message.local_indexes) each = in.number<std::uint32_t>();
  return message;
}

void ShareResult::write(base::ByteWriter& out) const {
  out.number(round);
  write_count(out, items);
  for (const Item& each : items) out.number(each.what).number(each.bytes).number(each.file_offset);
}
ShareResult ShareResult::read(base::ByteReader& in) {
  ShareResult message;
  message.round = in.number<std::uint64_t>();
  message.items.resize(read_count(in, 17));
  for (Item& each : message.items) {
    each.what = read_enum(in, What::descriptor);
    each.bytes = in.number<std::uint64_t>();
    each.file_offset = in.number<std::uint64_t>();
  }
  return message;
}

void Publish::write(base::ByteWriter& out) const { out.number(id).number(rank).text(key).blob(value); }
Publish Publish::read(base::ByteReader& in) {
  Publish message;
  message.id = in.number<std::uint64_t>();
  message.rank = in.number<std::int32_t>();
  message.key = in.text();
  message.value = read_bytes(in);
  return message;
}

void Lookup::write(base::ByteWriter& out) const { out.number(id).number(rank).text(key); }
Lookup Lookup::read(base::ByteReader& in) {
  Lookup message;
  message.id = in.number<std::uint64_t>();
  message.rank = in.number<std::int32_t>();
  message.key = in.text();
  return message;
}

void Reply::write(base::ByteWriter& out) const { out.number(id).number(rank).number(code).blob(value); }
Reply Reply::read(base::ByteReader& in) {
  Reply message;
  message.id = in.number<std::uint64_t>();
  message.rank = in.number<std::int32_t>();
  message.code = in.number<Code>();
  message.value = read_bytes(in);
  return message;
}

void MissingQuery::write(base::ByteWriter& out) const { out.number(id).number(rank).number(what).number(round); }
MissingQuery MissingQuery::read(base::ByteReader& in) {
  MissingQuery message;
  message.id = in.number<std::uint64_t>();
  message.rank = in.number<std::int32_t>();
  message.what = read_enum(in, What::share);
  message.round = in.number<std::uint64_t>();
  return message;
}

void MissingReply::write(base::ByteWriter& out) const {
  out.number(id).number(rank);
  write_count(out, missing);
  for (const std::int32_t each : missing) out.number(each);
}
MissingReply MissingReply::read(base::ByteReader& in) {
  MissingReply message;
  message.id = in.number<std::uint64_t>();
  message.rank = in.number<std::int32_t>();
  message.missing.resize(read_count(in, 4));
  for (std::int32_t& each : message.missing) each = in.number<std::int32_t>();
  return message;
}

void Notice::write(base::ByteWriter& out) const { out.number(code).number(rank).number(exit_code).text(text); }
void Notice::read_fields(base::ByteReader& in) {
  code = in.number<Code>();
  rank = in.number<std::int32_t>();
  exit_code = in.number<std::int32_t>();
  text = in.text();
}

void Goodbye::write(base::ByteWriter& out) const { out.number(rank); }
Goodbye Goodbye::read(base::ByteReader& in) { return {in.number<std::int32_t>()}; }

}  // namespace hmc::bootstrap
