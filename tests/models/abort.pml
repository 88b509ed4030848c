// Abort: several threads set the abort word at the same time; every waiting rank returns, with the same cause.
//
// Models runtime/base/node_page.cpp (raise_abort: writes its own text, compare-exchanges the word, then rings every
// bell; abort_status; abort_text) and runtime/base/wait.cpp (until_slowly: poll, load the abort word, sleep for a
// bounded time; sleep_on_bell). Threads outside the waits set the word (the agent that detects a death, a rank that
// calls abort): two of them, at any time. The ranks execute barriers. The last rank dies before its last arrival.
//
// Properties: the word is written once and has the first cause. Every rank returns, although one rank never arrives.
// All ranks that return because of the abort see the same cause, and read its whole text. The time limit of a sleep is
// part of the protocol: raise_abort may ring after a rank has loaded the word and before it loads the bell.
// Not modelled: deadlines of waits; more causes at the same time than texts.
// Seeded bugs: SEED_STORE, the word is stored without compare-exchange. SEED_NO_BOUND, only the bell ends a sleep.
// SEED_RELAXED, the exchange isn't a release.
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define N 2 /* the threads that set the abort word; only their stores go through buffers */
#define text_begin(raiser) (2 * (raiser))
#define text_end(raiser) (2 * (raiser) + 1)
#define PLACES (2 * N)
#include "memory.pml"

byte abort_word; // 1 + raiser; only read-modify-writes, so each is visible at once
byte winner;     // only for assertions: the first cause
byte arrived[RANKS]; // visible at once: no other store is ordered by it, so a late arrival is like a slow rank
byte bell[RANKS];
bit asleep[RANKS];

// Waiting for one line after the other is the same as waiting for all: arrivals aren't withdrawn.
#define all_arrived(s) (arrived[0] >= s && arrived[1] >= s && arrived[RANKS - 1] >= s && arrived[RANKS - 2] >= s)

proctype Rank(byte me) {
  byte s = 1, heard, seen;
  do
  :: s <= ROUNDS && seen == 0 ->
     if
     :: me == RANKS - 1 && s == ROUNDS -> break // dies
     :: else
     fi;
     arrived[me] = s;
     do
     :: all_arrived(s) -> break
     :: else ->
        if
        :: abort_word != 0 -> seen = abort_word; break
        :: else
        fi;
        heard = bell[me];
        if
        :: all_arrived(s) -> break
        :: else
        fi;
        if
        :: atomic { bell[me] == heard -> asleep[me] = 1 };
           if
           :: asleep[me] == 0
#ifndef SEED_NO_BOUND
           :: asleep[me] == 1 -> asleep[me] = 0
#endif
           fi
        :: bell[me] != heard
        fi
     od;
     heard = 0;
     s++
  :: else -> break
  od;
  if
  :: seen != 0 ->
     assert(seen == winner);
     assert(memory[text_begin(abort_word - 1)] == abort_word && memory[text_end(abort_word - 1)] == abort_word)
  :: else -> assert(me == RANKS - 1 || s > ROUNDS)
  fi;
  atomic { finished++; s = 0; seen = 0 }
}

// raise_abort by cause `me + 1`.
proctype Raise(byte me) {
  byte i;
  store(plain, text_begin(me), me + 1);
  store(plain, text_end(me), me + 1);
  if
#if defined(SEED_STORE)
  :: atomic {
       buffer[me].length == 0 ->
       abort_word = me + 1;
       if
       :: winner == 0 -> winner = me + 1
       :: else
       fi
     }
#elif defined(SEED_RELAXED)
  :: atomic { abort_word == 0 -> abort_word = me + 1; winner = me + 1 }
  :: abort_word != 0 -> i = RANKS
#else
  // The compare-exchange: a successful one (0 before) is a release. A failed one orders nothing and ends raise_abort.
  :: atomic { abort_word == 0 && buffer[me].length == 0 -> abort_word = me + 1; winner = me + 1 }
  :: abort_word != 0 -> i = RANKS
#endif
  fi;
  do
  :: atomic { i < RANKS -> bell[i]++; asleep[i] = 0; i++ } // a rank that sleeps later sees the new value of the bell
  :: else -> break
  od;
  atomic { finished++; i = 0 }
}

init {
  byte r;
  atomic {
    do
    :: r < RANKS -> run Rank(r); r++
    :: else -> break
    od;
    r = 0;
    do
    :: r < N -> run Raise(r); run Drain(r); r++
    :: else -> break
    od;
    r = 0
  };
  finished == RANKS + N
}
