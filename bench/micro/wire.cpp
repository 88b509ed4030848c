// Messages between nodes: the cost of writing, checking and executing one, without a network.
#include <benchmark/benchmark.h>

#include <cstring>
#include <span>
#include <vector>

#include "runtime/transport/am/target.hpp"
#include "tests/unit/transport/silent_link.hpp"

namespace {

using namespace hmc::transport;
using namespace hmc::transport::am;
namespace base = hmc::base;

constexpr std::size_t chunk_bytes = 60 * 1024;
constexpr std::uint64_t secret = 0x1122334455667788;
constexpr std::uint32_t origin = 1;

/// A target with one region, and a rank 1 that sends to it.
class Wire {
 public:
  Wire() : memory_(chunk_bytes + 64), data_(chunk_bytes, std::byte{0x5a}) {
    peers_.create(2, 0, secret);
    region_ = regions_.add(memory_.data(), memory_.size());
  }
  Message write(MessageKind kind) {
    Message message;
    message.origin = origin;
    message.kind = kind;
    message.sequence = sequence_++;
    message.tag = tags_.at(message.sequence);
    message.region = region_.index;
    message.nonce = region_.nonce;
    message.width = 8;
    return message;
  }
  /// Same as receipt from a link: the header is copied before it is checked.
  void read(const Message& sent, std::size_t bytes) {
    Message message;
    std::memcpy(&message, &sent, sizeof message);
    benchmark::DoNotOptimize(message);
    message.bytes = bytes;
    target_.receive(message, data_.data(), bytes);
  }
  bool took_all() const {
    return target_.refusals().strangers + target_.refusals().requests == 0 && peers_.at(1).failure.ok();
  }

 private:
  SilentLink link_;
  Tickets tickets_;
  Regions regions_;
  base::Log quiet_{static_cast<base::LogLevel>(-1)};
  Peers peers_{link_, tickets_, quiet_};
  Target target_{peers_, tickets_, regions_, quiet_};
  std::vector<std::byte> memory_;
  std::vector<std::byte> data_;
  Regions::Key region_;
  // As Peers computes them, with the key that it has by default.
  Keystream tags_{{Keystream::Key{}, std::as_bytes(std::span(&secret, 1)), std::as_bytes(std::span(&origin, 1))}};
  std::uint64_t sequence_ = 0;
};

void header_write(benchmark::State& state) {
  Wire wire;
  for (auto _ : state) {
    Message message = wire.write(MessageKind::put);
    benchmark::DoNotOptimize(message);
  }
}
BENCHMARK(header_write);

void check_all_read(benchmark::State& state, const Wire& wire) {
  if (!wire.took_all()) state.SkipWithError("a message was refused");
}

void put_read(benchmark::State& state) {
  Wire wire;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) wire.read(wire.write(MessageKind::put), bytes);
  check_all_read(state, wire);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(put_read)->Arg(8)->Arg(1024)->Arg(static_cast<std::int64_t>(chunk_bytes));

void put_signal_read(benchmark::State& state) {
  Wire wire;
  for (auto _ : state) {
    Message message = wire.write(MessageKind::put_signal);
    message.first = chunk_bytes;
    message.second = 7;
    wire.read(message, static_cast<std::size_t>(state.range(0)));
  }
  check_all_read(state, wire);
}
BENCHMARK(put_signal_read)->Arg(8)->Arg(1024);

void atomic_read(benchmark::State& state) {
  Wire wire;
  for (auto _ : state) {
    Message message = wire.write(MessageKind::atomic);
    message.op = static_cast<std::uint8_t>(AtomicOp::add);
    message.first = 1;
    wire.read(message, 0);
  }
  check_all_read(state, wire);
}
BENCHMARK(atomic_read);

/// The cost of dropping a message without its tag.
void stranger_refuse(benchmark::State& state) {
  Wire wire;
  Message message = wire.write(MessageKind::put);
  ++message.tag;
  for (auto _ : state) wire.read(message, 8);
  if (wire.took_all()) state.SkipWithError("a stranger's message was taken");
}
BENCHMARK(stranger_refuse);

}  // namespace
