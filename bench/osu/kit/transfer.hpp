// The loops of the programs in which pairs of ranks transfer: put, get, signals, atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/session.hpp"

namespace bench {

/// Who pairs with whom. first_last: rank 0 with the last rank (on another node, where there are two);
/// the others wait in a barrier. halves: rank i with rank i + half.
enum class Pairing { first_last, halves };
/// Where the data start. put: at the lower rank of a pair; get: at the higher one, which the lower one
/// reads; both: at both, and both transfer.
enum class Direction { put, get, both };

/// One rank's side of a pair.
struct Side {
  hmc::Window& window;
  int peer;
  bool acts;    // runs the loop
  bool timed;   // and its time counts
  bool starts;  // the lower rank
  bool writes;  // has the input
  bool reads;   // gets the result
  std::byte* local;
  int window_size;             // -W
  std::size_t slots;           // transfers of one window take turns in so many places
  std::uint64_t round = 0;     // for signals: grows, never restarts
  std::uint64_t returned = 0;  // for atomics: the last result

  std::byte* from(int transfer, std::size_t bytes) const { return local + place(transfer, bytes); }
  std::uint64_t to(int transfer, std::size_t bytes) const { return Buffers::remote_offset + place(transfer, bytes); }

 private:
  std::size_t place(int transfer, std::size_t bytes) const {
    return static_cast<std::size_t>(transfer) % slots * bytes;
  }
};

/// The program's own loop: so that nothing of ours stands between its calls.
using TransferLoop = void (*)(Side& side, std::size_t bytes, int repeat);

struct TransferSpec {
  Pairing pairing = Pairing::first_last;
  Direction direction = Direction::put;
  Metric metric = Metric::latency;
  bool windowed = false;  // the loop makes -W transfers per repeat
  bool message_rate = false;
  double one_way = 1;  // of a repeat's time: 0.5 for a ping-pong
};

/// What is timed at one size, or for one operation.
struct TransferCase {
  TransferLoop loop;
  std::size_t bytes;
  std::function<void(int iteration)> write;  // called on sides that write
  std::function<bool(int iteration)> read;   // called on sides that read
  std::function<void()> spoil;
};

/// Runs one case on all ranks. Collective.
Figures measure_transfer(Session& session, const TransferSpec& spec, Side& side, const TransferCase& the_case);
Side side_of(Session& session, const TransferSpec& spec, Buffers& buffers, std::size_t slots);

/// A whole program: a row per size.
int run_transfers(int argc, char** argv, const Spec& program, const TransferSpec& spec, TransferLoop loop);

}  // namespace bench
