// Small calls: the payload is in the arrival line or in a slot. A rank uses TURNS lines and slots in turn. In an
// allreduce each rank waits for all others. In a broadcast the root waits for no rank, and the others wait for the root.
//
// Models collectives/node/allreduce.cpp (small), collectives/node/broadcast.cpp (small), and of
// collectives/node/direct_team.cpp:
// - begin and let_others_catch_up: a rank that is TURNS - 1 calls ahead of the last call in which it has seen all ranks
//   waits until the others are at most TURNS / 2 calls behind
// - arrive: plain stores of signature and payload, then the release store of `sequence`
// - wait_line, wait_arrivals
// Signature, payload and slot are one place in the model, because all three are plain stores before the flag.
// Not modelled: the code has twice as many lines as slots, so that the signatures of late calls can be compared.
//
// Property: a rank that reads the payload of call s gets the bytes that the owner wrote for call s, not older ones and
// not those of call s + TURNS, which uses the same line.
// Seeded bugs: SEED_ONE_LESS, there is one line less than begin assumes. SEED_NO_BEGIN_WAIT, begin doesn't wait.
// SEED_RELAXED, the arrival is stored without release.
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif
#ifndef TURNS
#define TURNS 2
#endif
#define PLACES (2 * TURNS * N)
#include "memory.pml"

#ifdef SEED_ONE_LESS
#define turn(s) ((s) % (TURNS - 1))
#else
#define turn(s) ((s) % TURNS)
#endif
#ifdef SEED_RELAXED
#define arrival plain
#else
#define arrival release
#endif
#define line(rank, s) (2 * (TURNS * (rank) + turn(s)))        /* ArrivalLine::sequence */
#define payload(rank, s) (2 * (TURNS * (rank) + turn(s)) + 1) /* its signature and payload */

bit broadcast[ROUNDS + 1]; // 1: call s is a broadcast from rank 0, on every rank; 0: an allreduce

proctype Rank(byte me) {
  byte s = 1, i, all_arrived;
  do
  :: s <= ROUNDS ->
     // begin
     if
#ifndef SEED_NO_BEGIN_WAIT
     :: s - 1 - all_arrived >= TURNS - 1 ->
        i = 1;
        do
        :: i < N -> memory[line((me + i) % N, s - TURNS / 2)] >= s - TURNS / 2; i++
        :: else -> break
        od;
        all_arrived = s - TURNS / 2
#endif
     :: else
     fi;
     // arrive
     store(plain, payload(me, s), s);
     store(arrival, line(me, s), s);
     if
     :: broadcast[s] && me == 0 // the root returns at once
     :: broadcast[s] && me != 0 ->
        d_step { memory[line(0, s)] >= s -> assert(memory[payload(0, s)] == s) };
        assert(memory[payload(0, s)] == s)
     :: !broadcast[s] ->
        i = 1;
        do // wait_arrivals
        :: i < N ->
           d_step {
             memory[line((me + i) % N, s)] >= s ->
             assert(memory[payload((me + i) % N, s)] == s) // wait_line compares the signature
           };
           i++
        :: else -> break
        od;
        all_arrived = s;
        i = 1;
        do // reduce: reads all payloads; the other ranks may continue meanwhile
        :: i < N -> assert(memory[payload((me + i) % N, s)] == s); i++
        :: else -> break
        od
     fi;
     i = 0;
     s++
  :: else -> break
  od;
  finished++
}

init {
  byte r = 1;
  do
  :: r <= ROUNDS ->
     if
     :: broadcast[r] = 1
     :: skip
     fi;
     r++
  :: else -> break
  od;
  atomic {
    r = 0;
    do
    :: r < N -> run Rank(r); run Drain(r); r++
    :: else -> break
    od
  };
  finished == N
}
