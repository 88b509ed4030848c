// Abort: several find a reason to end the job at once; every waiting rank leaves, with the same cause.
//
// Mirrors runtime/base/node_page.cpp (raise_abort: a text of one's own, then the compare-exchange of the word,
// then every bell; abort_status; abort_text) and runtime/base/wait.cpp (until_slowly: a look, the abort word, a
// bounded sleep; sleep_on_bell). Causes come from outside the ranks' waits (the agent that sees a death, a rank
// that calls abort): two of them here, at any time. Ranks go through barriers; the last one dies before its last
// arrival.
//
// Holds: the word is written once and is the first cause; every rank leaves, although one never arrives; all who
// leave by abort saw the same cause, and read that cause's text, whole. The bound on a sleep is part of the
// protocol: raise_abort may ring between a rank's look at the word and its look at the bell.
// Not modelled: the waits' own deadline; more causes at once than there are texts.
// Seeded: SEED_STORE, the word is stored without compare-exchange; SEED_NO_BOUND, a sleep ends by the bell only;
// SEED_RELAXED, the exchange isn't a release.
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define N 2 /* those who raise; only their stores go through buffers */
#define text_begin(raiser) (2 * (raiser))
#define text_end(raiser) (2 * (raiser) + 1)
#define PLACES (2 * N)
#include "memory.pml"

byte abort_word; // 1 + raiser; read-modify-writes only, so never late
byte winner;     // ghost: the first cause
byte arrived[RANKS]; // an arrival that is seen late is an arrival that happens late: no other store hangs on it
byte bell[RANKS];
bit asleep[RANKS];

// Waiting for one line after the other is waiting for all: a line that has arrived stays so.
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
  // The compare-exchange: one that finds 0 is a release, one that doesn't orders nothing and ends it.
  :: atomic { abort_word == 0 && buffer[me].length == 0 -> abort_word = me + 1; winner = me + 1 }
  :: abort_word != 0 -> i = RANKS
#endif
  fi;
  do
  :: atomic { i < RANKS -> bell[i]++; asleep[i] = 0; i++ } // a sleeper between the two finds another bell
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
