// The wait ladder's last rung: ranks that outnumber cores sleep on a doorbell, and whoever makes something
// visible rings.
//
// Mirrors runtime/base/wait.cpp (sleep_on_bell, ring_now), runtime/base/wait.hpp (someone_sleeps) and
// collectives/node/direct_team.cpp (ring_all after arrive): a barrier whose waits all sleep. `sleepers`
// is counted up by a read-modify-write whose store half may be late, as it may be on arm64: what orders it
// is the fence. The futex is the kernel's: comparing and falling asleep are one step, and a wake that comes
// before finds nobody.
//
// Holds, without the bound of 1 ms on a sleep: nobody sleeps for ever (Spin finds an end that is none).
// Not modelled: yields and spinning, which only look; writers that don't ring, which the bound is for.
// Seeded: SEED_NO_RINGER_FENCE, SEED_NO_SLEEPER_FENCE, SEED_LATE_BELL (the bell is read after the last look).
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

byte bell[N];   // Doorbell::bell: read-modify-writes only, so never late
bit asleep[N];  // in the kernel

// Waiting for one line after the other is waiting for all: a line that has arrived stays so. My own line is
// in my buffer until it is in memory, and I don't wait for it.
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
           atomic { fence -> bell[(me + i) % N]++ }; // release: older stores first
           asleep[(me + i) % N] = 0;                 // FUTEX_WAKE
           i++
        :: else -> break
        od
     :: else
     fi;
     do
     :: all_arrived(s) -> break // until_slowly: a look
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
  // Who sleeps no more is counted no more.
  r = 0;
  do
  :: r < N -> buffer[r].length == 0; r++
  :: else -> break
  od;
  assert(memory[sleepers] == 0)
}
