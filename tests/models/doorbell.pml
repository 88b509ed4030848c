// The last step of a wait: the waiting rank sleeps, and a rank that makes data visible wakes it.
//
// Models runtime/base/wait.cpp (sleep_until_rung, wake), runtime/base/wait.hpp (someone_sleeps, ring_sleeper) and
// collectives/node/direct_team.cpp (ring_all after arrive): a barrier in which all waits sleep. `sleepers` is
// incremented by a read-modify-write whose store may become visible late, as on arm64; the fence orders it. The futex
// call is a fence, and compares and sleeps in one step. A wake-up before it has no effect.
//
// The first FENCELESS ranks ring without a fence. membarrier waits until each rank has executed a fence, one rank after
// the other.
//
// Property: without the time limit of a sleep (1 ms) no rank sleeps forever (Spin reports an invalid end state).
// Not modelled: yields and spinning, which only poll; writers that don't ring, for which the time limit exists.
// Seeded bugs: SEED_NO_RINGER_FENCE, SEED_NO_SLEEPER_FENCE, SEED_NO_MEMBARRIER, SEED_LATE_STATE (the state is stored
// after the last poll).
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef FENCELESS
#define FENCELESS 0
#endif
#define PLACES (3 * N + 2)
#include "memory.pml"

#define line(rank, s) (2 * (rank) + ((s) & 1))
#define state(rank) (2 * N + (rank)) /* Doorbell::state; other ranks change it only by read-modify-writes */
#define sleepers (3 * N)
#define fenceless (3 * N + 1)

bit asleep[N]; // in the kernel

// Waiting for one line after the other is the same as waiting for all: arrivals aren't withdrawn. A rank doesn't wait
// for its own line, which may still be in its buffer.
#define here(rank, s) (me == (rank) || memory[line(rank, s)] >= s)
#define all_arrived(s) (here(0, s) && here(1, s) && here(N - 1, s) && here(N - 2, s))

proctype Rank(byte me) {
  byte s = 1, i;
  bit counted; // this rank, in sleepers
  if
  :: me < FENCELESS -> store(add, fenceless, 1); fence
  :: else
  fi;
  do
  :: s <= ROUNDS ->
     store(release, line(me, s), s); // arrive
     // ring_all: someone_sleeps, then ring_sleeper for each
#ifndef SEED_NO_RINGER_FENCE
     if
     :: me < FENCELESS
     :: else -> fence
     fi;
#endif
     if
     :: memory[sleepers] > 0 ->
        i = 1;
        do
        :: i < N ->
           if
           :: d_step { memory[state((me + i) % N)] == 1 -> memory[state((me + i) % N)] = 0 };
              asleep[(me + i) % N] = 0 // FUTEX_WAKE
           :: memory[state((me + i) % N)] == 0
           fi;
           i++
        :: else -> break
        od
     :: else
     fi;
     do
     :: all_arrived(s) -> break // until_slowly: polls
     :: else ->                 // sleep_until_rung
#ifndef SEED_LATE_STATE
        store(plain, state(me), 1);
#endif
        if
        :: !counted -> store(add, sleepers, 1); counted = 1
        :: else
        fi;
#ifndef SEED_NO_SLEEPER_FENCE
        fence;
#endif
#ifndef SEED_NO_MEMBARRIER
        if
        :: memory[fenceless] > 0 ->
           i = 0;
           do
           :: i < N -> buffer[i].length == 0; i++
           :: else -> break
           od
        :: else
        fi;
#endif
        if
        :: all_arrived(s)
        :: else ->
#ifdef SEED_LATE_STATE
           store(plain, state(me), 1);
#endif
           fence; // in the futex call
           if
           :: d_step { memory[state(me)] == 1 -> asleep[me] = 1 };
              asleep[me] == 0
           :: memory[state(me)] == 0
           fi
        fi
     od;
     if
     :: counted -> store(plain, state(me), 0); store(sub, sleepers, 1); counted = 0 // end_sleep
     :: else
     fi;
     i = 0;
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
