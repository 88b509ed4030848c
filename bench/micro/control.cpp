// The control plane: the cost of encoding, signing and decoding a message.
#include <benchmark/benchmark.h>

#include "bootstrap/tcp/protocol.hpp"

namespace {

using namespace hmc::bootstrap;
namespace base = hmc::base;
namespace control = hmc::control;

base::Bytes payload_of(std::size_t bytes) {
  base::Bytes payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 7);
  return payload;
}

Table table_of(std::int64_t ranks) {
  Table table;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    RankFacts facts;
    facts.rank = rank;
    facts.node = rank / 8;
    facts.local_index = rank % 8;
    table.ranks.push_back(facts);
  }
  return table;
}

void numbers_write(benchmark::State& state) {
  for (auto _ : state) {
    base::ByteWriter out;
    for (std::uint64_t i = 0; i < 64; ++i) out.number(i).number(static_cast<std::uint32_t>(i));
    benchmark::DoNotOptimize(out.view().data());
  }
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(numbers_write);

void numbers_read(benchmark::State& state) {
  base::ByteWriter out;
  for (std::uint64_t i = 0; i < 64; ++i) out.number(i).number(static_cast<std::uint32_t>(i));
  for (auto _ : state) {
    base::ByteReader in(out.view());
    std::uint64_t sum = 0;
    for (int i = 0; i < 64; ++i) sum += in.number<std::uint64_t>() + in.number<std::uint32_t>();
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(numbers_read);

void table_encode(benchmark::State& state) {
  const Table table = table_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(encode(table));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(table_encode)->Arg(8)->Arg(64)->Arg(1024);

void table_decode(benchmark::State& state) {
  const control::Frame frame{on_wire(Table::type), 0, encode(table_of(state.range(0)))};
  for (auto _ : state) {
    const auto table = decode<Table>(frame);
    if (!table) state.SkipWithError("the table didn't decode");
    benchmark::DoNotOptimize(table);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(table_decode)->Arg(8)->Arg(64)->Arg(1024);

void mac_sign(benchmark::State& state) {
  const control::Secret secret = control::Secret::random();
  const base::Bytes payload = payload_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(secret.sign(payload));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(mac_sign)->Arg(64)->Arg(4096)->Arg(1 << 20);

void frame_seal(benchmark::State& state) {
  control::FrameSealer sealer;
  sealer.rekey(control::Secret::random(), control::Direction::to_server);
  const base::Bytes payload = payload_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(sealer.seal(on_wire(MessageType::contribution), payload));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(frame_seal)->Arg(64)->Arg(4096)->Arg(1 << 20);

void frame_seal_and_open(benchmark::State& state) {
  const control::Secret secret = control::Secret::random();
  control::FrameSealer sealer;
  control::FrameOpener opener(&payload_limit);
  sealer.rekey(secret, control::Direction::to_server);
  opener.rekey(secret, control::Direction::to_server);
  opener.hello_only(false);
  const base::Bytes payload = payload_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    opener.feed(sealer.seal(on_wire(MessageType::contribution), payload));
    const auto frame = opener.next();
    if (!frame) state.SkipWithError(name_of(opener.fault()));
    benchmark::DoNotOptimize(frame);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(frame_seal_and_open)->Arg(64)->Arg(4096)->Arg(1 << 20);

}  // namespace
