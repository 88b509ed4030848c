// The last step of a wait: if ranks outnumber cores, a waiting rank sleeps on its doorbell, and a rank that makes data
// visible rings it.
//
// Models runtime/base/wait.cpp (sleep_on_bell, ring_now), runtime/base/wait.hpp (someone_sleeps) and
// collectives/node/direct_team.cpp (ring_all after arrive): a barrier in which all waits sleep. `sleepers` is
// incremented by a read-modify-write whose store may become visible late, as on arm64; the fence orders it. The futex
// call compares and sleeps in one step, and a wake-up before it has no effect.
//
// Property: without the time limit of a sleep (1 ms) no rank sleeps forever (Spin reports an invalid end state).
// Not modelled: yields and spinning, which only poll; writers that don't ring, for which the time limit exists.
// Seeded bugs: SEED_NO_RINGER_FENCE, SEED_NO_SLEEPER_FENCE, SEED_LATE_BELL (the bell is loaded after the last poll).
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define PLACES (2 * N + 1)
#include "memory.pml"

#define line(rank, s) (2 * (rank) + ((s) & 1))
#define sleepers (2 * N)

byte bell[N];   // Doorbell::bell: only read-modify-writes, so each is visible at once
bit asleep[N];  // in the kernel

// Waiting for one line after the other is the same as waiting for all: arrivals aren't withdrawn. A rank doesn't wait
// for its own line, which may still be in its buffer.
#define here(rank, s) (me == (rank) || memory[line(rank, s)] >= s)
#define all_arrived(s) (here(0, s) && here(1, s) && here(N - 1, s) && here(N - 2, s))

proctype Rank(byte me) {
  byte s = 1, i, heard;
  do
  :: s <= ROUNDS ->
     store(release, line(me, s), s); // arrive
     // ring_all: someone_sleeps, then ring_now for each
#ifndef SEED_NO_RINGER_FENCE
     fence;
#endif
     if
     :: memory[sleepers] > 0 ->
        i = 1;
        do
        :: i < N ->
           atomic { fence -> bell[(me + i) % N]++ }; // a release: older stores commit first
           asleep[(me + i) % N] = 0;                 // FUTEX_WAKE
           i++
        :: else -> break
        od
     :: else
     fi;
     do
     :: all_arrived(s) -> break // until_slowly: polls
     :: else ->                 // sleep_on_bell
#ifndef SEED_LATE_BELL
        heard = bell[me];
#endif
        store(add, sleepers, 1);
#ifndef SEED_NO_SLEEPER_FENCE
        fence;
#endif
        if
        :: all_arrived(s) -> store(sub, sleepers, 1); break
        :: else
        fi;
#ifdef SEED_LATE_BELL
        heard = bell[me];
#endif
        if
        :: atomic { bell[me] == heard -> asleep[me] = 1 };
           asleep[me] == 0
        :: bell[me] != heard
        fi;
        store(sub, sleepers, 1)
     od;
     i = 0;
     heard = 0;
     s++
  :: else -> break
  od;
  finished++
}

init {
  byte r;
  atomic {
    do
    :: r < N -> run Rank(r); run Drain(r); r++
    :: else -> break
    od
  };
  finished == N;
  // No rank sleeps, so none is counted.
  r = 0;
  do
  :: r < N -> buffer[r].length == 0; r++
  :: else -> break
  od;
  assert(memory[sleepers] == 0)
}
