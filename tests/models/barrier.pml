// The barrier of a node, and the visibility of direct puts before it.
//
// Models collectives/node/barrier.cpp, and of collectives/node/direct_team.cpp: arrive (the release store of
// `sequence`) and wait_line (its acquire load, compared with >=). Each rank uses two arrival lines in turn. The code
// has more lines, which barriers don't need.
//
// Properties: no rank leaves barrier s before all ranks have entered it. A put before the barrier is visible to all
// ranks after it.
// Seeded bugs: SEED_RELAXED, the arrival is stored without release. SEED_SKIP, the last peer isn't awaited.
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#define PLACES (3 * N)
#include "memory.pml"

#define line(rank, s) (2 * (rank) + ((s) & 1)) /* ArrivalLine::sequence */
#define put_at(rank) (2 * N + (rank))          /* bytes that a direct put of that rank has stored */

#ifdef SEED_RELAXED
#define arrival plain
#else
#define arrival release
#endif
#ifdef SEED_SKIP
#define awaited (N - 1)
#else
#define awaited N
#endif

byte entered[N]; // only for assertions: the last barrier that each rank has entered

proctype Rank(byte me) {
  byte s = 1, i;
  do
  :: s <= ROUNDS ->
     store(plain, put_at(me), s);
     entered[me] = s;
     store(arrival, line(me, s), s); // arrive
     i = 1;
     do // wait_arrivals: rank + 1, rank + 2, ...
     :: i < awaited -> memory[line((me + i) % N, s)] >= s; i++
     :: else -> break
     od;
     i = 0;
     d_step {
       i = 0;
       do
       :: i < N ->
          assert(entered[i] >= s);
          assert(i == me || memory[put_at(i)] >= s);
          i++
       :: else -> break
       od;
       i = 0
     };
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
  finished == N
}
