// PAT, parallel aggregated trees: each block has its own binomial tree, and all trees advance one level per round.
// Blocks for the same rank in the same round share messages of a bounded size. ceil(log2 N) rounds. For long blocks,
// scratch and messages are no larger than a ring's.
//
// allgather: distances decrease, so the long hops carry few blocks and most bytes go to near ranks. A rank at distance
// v from a block's owner forwards the block to v + d, for d = ..., 4, 2, 1, if v is a multiple of 2d.
// reduce_scatter: the same trees backwards; commutative operations only.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Some of the blocks that a rank sends in one round: at most `most_` bytes, or one block.
struct Message {
  std::vector<int> blocks;
  std::uint64_t at = 0;  ///< in the receiver's scratch
  std::uint64_t bytes = 0;
};

class Pat {
 public:
  explicit Pat(Builder& builder)
      : b(builder), blocks_(b.size, b.call), most_(b.call.segment_bytes > 0 ? b.call.segment_bytes : pat_message) {}

  void allgather() {
    towards_owner_ = false;
    b.need_scratch(arrived_at(b.rank, rounds()).bytes);
    where_.assign(static_cast<std::size_t>(b.size), Place{});
    where_[index(b.rank)] = input();
    for (int round = 0; round < rounds(); ++round) {
      hand_over(round);
      for (const Message& message : take(round)) note_arrived(message);
    }
    for (int i = 0; i < b.size; ++i) {
      const int block = (b.rank + i) % b.size;
      b.copy(where_[index(block)], output(blocks_.place(block)), blocks_.bytes(block));
    }
    b.finish();
  }

  void reduce_scatter() {
    towards_owner_ = true;
    b.need_scratch(arrived_at(b.rank, rounds()).bytes);
    for (int block = 0; block < b.size; ++block) where_.push_back(input(blocks_.place(block)));
    for (int round = 0; round < rounds(); ++round) {
      hand_over(round);
      for (const Message& message : take(round)) add_arrived(message);
    }
    b.settle_in_place();
    b.copy(where_[index(b.rank)], output(), blocks_.bytes(b.rank));
    b.scale(output(), blocks_.bytes(b.rank));
    b.finish();
  }

 private:
  /// Scratch and slots of the messages that a rank has received: the offset and the slot of the next message.
  struct Arrived {
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
  std::vector<Message> messages(int rank, int round) const {
    std::vector<Message> all;
    const int d = distance(round);
    for (int v = towards_owner_ ? d : 0; towards_owner_ ? v < b.size : v + d < b.size; v += 2 * d) {
      const int block = (rank - v + b.size) % b.size;
      const std::uint64_t bytes = blocks_.bytes(block);
      if (bytes == 0) continue;
      if (all.empty() || all.back().bytes + bytes > most_) all.emplace_back();
      all.back().blocks.push_back(block);
      all.back().bytes += bytes;
    }
    return all;
  }

  /// The sum of the messages that `sender` sends in a round. O(1) for blocks of equal size.
  Arrived sum_of(int sender, int round) const {
    Arrived sum;
    if (b.call.irregular()) {
      for (const Message& message : messages(sender, round)) {
        sum.bytes += line_up(message.bytes);
        ++sum.messages;
      }
      return sum;
    }
    const std::uint64_t bytes = blocks_.bytes(0), d = static_cast<std::uint64_t>(distance(round));
    const auto size = static_cast<std::uint64_t>(b.size);
    if (bytes == 0 || d >= size) return sum;
    const std::uint64_t many = (size - d + 2 * d - 1) / (2 * d), fit = std::max<std::uint64_t>(most_ / bytes, 1);
    sum.messages = static_cast<std::uint32_t>((many + fit - 1) / fit);
    sum.bytes = many / fit * line_up(fit * bytes) + line_up(many % fit * bytes);
    return sum;
  }

  /// Received by `rank` before `round`.
  Arrived arrived_at(int rank, int round) const {
    Arrived arrived;
    for (int earlier = 0; earlier < round; ++earlier) {
      const Arrived sum = sum_of(sender(rank, earlier), earlier);
      arrived.bytes += sum.bytes;
      arrived.messages += sum.messages;
    }
    return arrived;
  }

  /// Sends a single block from its current place; packs several blocks.
  void hand_over(int round) {
    const int to = receiver(b.rank, round);
    Arrived arrived = arrived_at(to, round);
    for (const Message& message : messages(b.rank, round)) {
      const Place from = message.blocks.size() > 1 ? pack(message) : where_[index(message.blocks[0])];
      b.send(from, to, arrived.bytes, message.bytes, arrived.messages++);
      arrived.bytes += line_up(message.bytes);
    }
  }

  Place pack(const Message& message) {
    const Place packed = scratch(b.take_scratch(message.bytes));
    std::uint64_t at = 0;
    for (const int block : message.blocks) {
      b.copy(where_[index(block)], packed + at, blocks_.bytes(block));
      at += blocks_.bytes(block);
    }
    return packed;
  }

  std::vector<Message> take(int round) {
    const int from = sender(b.rank, round);
    Arrived arrived = arrived_at(b.rank, round);
    std::vector<Message> all = messages(from, round);
    for (Message& message : all) {
      message.at = arrived.bytes;
      arrived.bytes += line_up(message.bytes);
      b.receive(from, arrived.messages++, message.bytes);
    }
    return all;
  }

  void note_arrived(const Message& message) {
    std::uint64_t at = message.at;
    for (const int block : message.blocks) {
      where_[index(block)] = scratch(at);
      at += blocks_.bytes(block);
    }
  }

  void add_arrived(const Message& message) {
    std::uint64_t at = message.at;
    for (const int block : message.blocks) {
      b.reduce(where_[index(block)], scratch(at), blocks_.bytes(block));
      where_[index(block)] = scratch(at);
      at += blocks_.bytes(block);
    }
  }

  Builder& b;
  Blocks blocks_;
  std::uint64_t most_;
  bool towards_owner_ = false;
  std::vector<Place> where_;  ///< place of each block, or of its partial sum
};

}  // namespace

void allgather_pat(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Pat(b).allgather();
}

void reduce_scatter_pat(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Pat(b).reduce_scatter();
}

}  // namespace hmc::collectives::schedule
