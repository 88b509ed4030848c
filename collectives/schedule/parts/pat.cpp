#include "collectives/schedule/parts/pat.hpp"

#include <cmath>
#include <vector>

#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Some of the blocks that a rank sends in one round: at most `largest_message_` bytes, or one block.
struct PatMessage {
  std::vector<int> blocks;
  std::uint64_t at = 0;  ///< in the receiver's scratch
  std::uint64_t bytes = 0;
};

class Pat {
 public:
  explicit Pat(Builder& builder)
      : b(builder), blocks_(b.size, b.call), largest_message_(segment_size(b.call, pat_message)) {}

  void allgather() {
    towards_owner_ = false;
    b.reserve_scratch(received_before(b.rank, rounds()).bytes);
    held_.assign(static_cast<std::size_t>(b.size), Operand{});
    held_[index(b.rank)] = input();
    for (int round = 0; round < rounds(); ++round) {
      send_round(round);
      for (const PatMessage& message : receive_round(round)) hold(message);
    }
    for (int i = 0; i < b.size; ++i) {
      const int block = (b.rank + i) % b.size;
      b.copy(held_[index(block)], output(blocks_.offset(block)), blocks_.bytes(block));
    }
  }

  void reduce_scatter() {
    towards_owner_ = true;
    b.reserve_scratch(received_before(b.rank, rounds()).bytes);
    for (int block = 0; block < b.size; ++block) held_.push_back(input(blocks_.offset(block)));
    for (int round = 0; round < rounds(); ++round) {
      send_round(round);
      for (const PatMessage& message : receive_round(round)) reduce_into(message);
    }
    b.flush_local_in_place();
    b.copy(held_[index(b.rank)], output(), blocks_.bytes(b.rank));
    b.scale(output(), blocks_.bytes(b.rank));
  }

 private:
  /// Scratch and slots of the messages that a rank has received: the offset and the slot of the next message.
  struct Received {
    std::uint64_t bytes = 0;
    std::uint32_t messages = 0;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int rounds() const { return rounds_of(b.size); }
  int distance(int round) const { return 1 << (towards_owner_ ? round : rounds() - 1 - round); }
  int receiver(int sender, int round) const {
    return (sender + (towards_owner_ ? b.size - distance(round) : distance(round))) % b.size;
  }
  int sender(int receiver, int round) const {
    return (receiver + (towards_owner_ ? distance(round) : b.size - distance(round))) % b.size;
  }

  /// The messages that `rank` sends in a round; both sides compute them. They carry the blocks for which the rank's
  /// distance v is a multiple of 2d and has a partner (towards the owner: for which the rank is that partner).
  std::vector<PatMessage> messages(int rank, int round) const {
    std::vector<PatMessage> all;
    const int d = distance(round);
    for (int v = towards_owner_ ? d : 0; towards_owner_ ? v < b.size : v + d < b.size; v += 2 * d) {
      const int block = (rank - v + b.size) % b.size;
      const std::uint64_t bytes = blocks_.bytes(block);
      if (bytes == 0) continue;
      if (all.empty() || all.back().bytes + bytes > largest_message_) all.emplace_back();
      all.back().blocks.push_back(block);
      all.back().bytes += bytes;
    }
    return all;
  }

  /// The sum of the messages that `sender` sends in a round. O(1) for blocks of equal size.
  Received received_in(int sender, int round) const {
    Received sum;
    if (b.call.irregular()) {
      for (const PatMessage& message : messages(sender, round)) {
        sum.bytes += align_to_line(message.bytes);
        ++sum.messages;
      }
      return sum;
    }
    const std::uint64_t bytes = blocks_.bytes(0), d = static_cast<std::uint64_t>(distance(round));
    const auto size = static_cast<std::uint64_t>(b.size);
    if (bytes == 0 || d >= size) return sum;
    const std::uint64_t count = (size - d + 2 * d - 1) / (2 * d),
                        fit = std::max<std::uint64_t>(largest_message_ / bytes, 1);
    sum.messages = static_cast<std::uint32_t>((count + fit - 1) / fit);
    sum.bytes = count / fit * align_to_line(fit * bytes) + align_to_line(count % fit * bytes);
    return sum;
  }

  /// The scratch and slots of the messages that `rank` has received before `round`.
  Received received_before(int rank, int round) const {
    Received received;
    for (int earlier = 0; earlier < round; ++earlier) {
      const Received sum = received_in(sender(rank, earlier), earlier);
      received.bytes += sum.bytes;
      received.messages += sum.messages;
    }
    return received;
  }

  /// Sends a single block without a copy; packs several blocks.
  void send_round(int round) {
    const int to = receiver(b.rank, round);
    Received received = received_before(to, round);
    for (const PatMessage& message : messages(b.rank, round)) {
      const Operand from = message.blocks.size() > 1 ? pack(message) : held_[index(message.blocks[0])];
      b.send(from, to, received.bytes, message.bytes, received.messages++);
      received.bytes += align_to_line(message.bytes);
    }
  }

  Operand pack(const PatMessage& message) {
    const Operand packed = scratch(b.allocate_scratch(message.bytes));
    std::uint64_t at = 0;
    for (const int block : message.blocks) {
      b.copy(held_[index(block)], packed + at, blocks_.bytes(block));
      at += blocks_.bytes(block);
    }
    return packed;
  }

  std::vector<PatMessage> receive_round(int round) {
    const int from = sender(b.rank, round);
    Received received = received_before(b.rank, round);
    std::vector<PatMessage> all = messages(from, round);
    for (PatMessage& message : all) {
      message.at = received.bytes;
      received.bytes += align_to_line(message.bytes);
      b.receive(from, received.messages++, message.bytes);
    }
    return all;
  }

  void hold(const PatMessage& message) {
    std::uint64_t at = message.at;
    for (const int block : message.blocks) {
      held_[index(block)] = scratch(at);
      at += blocks_.bytes(block);
    }
  }

  void reduce_into(const PatMessage& message) {
    std::uint64_t at = message.at;
    for (const int block : message.blocks) {
      b.reduce(held_[index(block)], scratch(at), blocks_.bytes(block));
      held_[index(block)] = scratch(at);
      at += blocks_.bytes(block);
    }
  }

  Builder& b;
  Blocks blocks_;
  std::uint64_t largest_message_;
  bool towards_owner_ = false;
  std::vector<Operand> held_;  ///< each block, or its partial sum
};

}  // namespace

void build_allgather_pat(Builder& b) { Pat(b).allgather(); }
void build_reduce_scatter_pat(Builder& b) { Pat(b).reduce_scatter(); }

/// The scratch for the messages received and packed in all rounds. In a v-form, blocks may be smaller than `count`, so
/// each message may need up to one cache line more.
ScratchSize pat_size(const Shape& shape, const Call& call) {
  ScratchSize scratch_size;
  const std::uint64_t block = vector_bytes(call), size = static_cast<std::uint64_t>(shape.size);
  if (block == 0) return scratch_size;
  const std::uint64_t fit = std::max<std::uint64_t>(segment_size(call, pat_message) / block, 1);
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    const std::uint64_t count = (size - distance + 2 * distance - 1) / (2 * distance), rest = count % fit;
    const std::uint64_t full = count / fit * align_to_line(fit * block);
    scratch_size.scratch +=
        full + align_to_line(rest * block) + (fit > 1 ? full + (rest > 1 ? align_to_line(rest * block) : 0) : 0);
    const std::uint64_t messages = (count + fit - 1) / fit;
    scratch_size.slots += static_cast<std::uint32_t>(messages);
    if (call.irregular()) scratch_size.scratch += 64 * messages * (fit > 1 ? 2 : 1);
  }
  return scratch_size;
}

void cost_of_pat_round(CriticalPath& path, const Call& call, double distance, bool reduces) {
  const double block = cost_bytes(call), largest = static_cast<double>(segment_size(call, pat_message));
  const double fit = block > 0 ? std::max(1.0, std::floor(largest / block)) : 1;
  const double count = std::ceil((path.size - distance) / (2 * distance)), messages = std::ceil(count / fit);
  if (fit > 1 && count > 1) path.copy(count * block);
  path.shift(distance, count * block / messages, messages);
  if (reduces) path.reduce(count * block);
}

}  // namespace hmc::collectives::schedule
