// Small calls: the payload rides in the arrival line or stands in a slot beside it, TURNS of each, in turn.
// Allreduce waits for everyone; a broadcast's root waits for nobody, its readers for the root alone.
//
// Mirrors collectives/node/allreduce.cpp (small), collectives/node/broadcast.cpp (small) and, of
// collectives/node/direct_team.cpp, begin and let_others_catch_up (who is TURNS - 1 calls ahead of where it has seen
// everyone waits until they are half of that behind), arrive (plain stores of signature and payload, then the release
// store of `sequence`), wait_line and wait_arrivals. Signature, payload and slot are one place here: all three are
// plain stores before the flag. Not modelled: the code has twice as many lines as slots, so that those of calls that
// are behind can be compared; here their flags alone are looked at.
//
// Holds: what is read for call s is what its owner wrote for call s: neither older nor overwritten by
// call s + TURNS, which uses the same line. Seeded: SEED_ONE_LESS, a line less than begin takes for granted;
// SEED_NO_BEGIN_WAIT, begin doesn't wait; SEED_RELAXED, the arrival is stored without release.
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

bit broadcast[ROUNDS + 1]; // what call s is, the same on every rank; the root is rank 0

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
             assert(memory[payload((me + i) % N, s)] == s) // wait_line looks at the signature
           };
           i++
        :: else -> break
        od;
        all_arrived = s;
        i = 1;
        do // reduce: all payloads, in time that others may use
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
