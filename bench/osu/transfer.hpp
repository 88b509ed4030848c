// The loops of the programs with transfers between pairs of ranks: put, get, signals, atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/osu/data.hpp"
#include "bench/osu/session.hpp"

namespace bench {

/// The pairs. first_last: rank 0 with the last rank (on another node, if there are two); the others wait in a barrier.
/// halves: rank i with rank i + half.
enum class Pairing { first_last, halves };
/// The source of the data. put: the lower rank of a pair; get: the higher rank, which the lower one reads.
enum class Direction { put, get };
/// 64-bit words are added to the target's words. and_fetches: the old values are returned.
enum class Accumulates { no, yes, and_fetches };

/// One rank's side of a pair.
struct Side {
  hmc::Team& team;
  hmc::Window& window;
  int peer;
  bool acts;    // runs the loop
  bool timed;   // its time counts
  bool starts;  // the lower rank
  bool writes;  // has the input
  bool reads;   // gets the result
  std::byte* local;
  std::byte* fetched;          // for Accumulates::and_fetches: the returned words
  int window_size;             // -W
  std::size_t slots;           // number of offsets that the transfers of one window use in turn
  std::uint64_t round = 0;     // for signals: increases, never restarts
  std::uint64_t returned = 0;  // for atomics: the last result

  std::byte* from(int transfer, std::size_t bytes) const { return local + place(transfer, bytes); }
  std::uint64_t to(int transfer, std::size_t bytes) const { return Buffers::remote_offset + place(transfer, bytes); }
  /// Where a message is received: at the offset to which the peer would put it.
  std::byte* into(int transfer, std::size_t bytes) const { return window.data() + to(transfer, bytes); }

 private:
  std::size_t place(int transfer, std::size_t bytes) const {
    return static_cast<std::size_t>(transfer) % slots * bytes;
  }
};

/// The program's own loop, so that no other code runs between its calls.
using TransferLoop = void (*)(Side& side, std::size_t bytes, int repeat);

struct TransferSpec {
  Pairing pairing = Pairing::first_last;
  Direction direction = Direction::put;
  bool both = false;       // both ranks of a pair transfer
  bool two_sided = false;  // messages: both ranks of a pair run the loop
  Accumulates accumulates = Accumulates::no;
  bool windowed = false;  // the loop makes -W transfers per repeat

  Metric metric() const { return windowed ? Metric::bandwidth : Metric::latency; }
  bool ping_pong() const { return both && !windowed; }  // half of a repeat's time is printed
  bool message_rate() const { return windowed && pairing == Pairing::halves; }
};

/// The timed work at one size, or for one operation.
struct TransferCase {
  TransferLoop loop;
  std::size_t bytes;
  std::function<void(int data)> write;  // called on sides that write
  std::function<bool(int data)> read;   // called on sides that read
  std::function<void()> spoil;          // the same: --corrupt flips a bit of the result
};

/// Runs one case on all ranks. Collective.
Figures measure_transfer(Session& session, const TransferSpec& spec, Side& side, const TransferCase& the_case);
Side side_of(Session& session, const TransferSpec& spec, Buffers& buffers, std::size_t slots);

/// A whole program's body: a row per size. Collective.
void measure_transfers(Session& session, const TransferSpec& spec, TransferLoop loop);

}  // namespace bench
