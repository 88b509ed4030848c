// Large allreduce: every rank reduces its own slice from all inputs, and stores the result for each rank: into the
// rank's output, or into staging.
//
// Models collectives/node/allreduce.cpp (Sliced: run, stage, stage_and_show, finish, reduce_own, take_results, with
// and without `pair`), and of collectives/node/direct_team.*: publish, wait_phases, wait_staging_free and
// staging_in_use_until. In every call each rank's input and output may be in a window or private. The caller writes
// its input before a call and reads its output after it. There are two calls, of one or two pieces.
//
// The model checks accesses to bytes, not to flags. Each place has its readers, its writer, and whether a release of
// the writer has published the written value. Errors: an access to a place that another rank writes or hasn't
// published, a write to a place that another rank reads, and an unexpected value. Results for other ranks' windows are
// non-temporal stores: a release publishes them only after stream_fence. Flags are visible at once, because a late
// flag has the same effect as a slow rank.
//
// Not modelled: growth of the staging (a collective step with its own barrier), in-place calls, the use of arrival
// lines in turn (small_allreduce.pml), the blocks of the kernel.
// Seeded bugs: SEED_NO_FREE_WAIT, a rank writes staging without waiting for its readers of the last call.
// SEED_NO_STREAM_FENCE. SEED_NO_REDUCED_WAIT, a call ends without waiting for the others' `reduced`.
#ifndef N
#define N 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef PIECES
#define PIECES 2
#endif
#define pair (N == 2)

// ---- bytes: one place per (rank, slice), of staging, inputs and outputs
// The position of a slice in staging depends on the sizes of the call and the piece. So a slice of one call overlaps
// another slice of the next call.
#define staging(owner, slice) ((owner) * N + (pair -> 0 : ((slice) + call * PIECES + piece) % N))
#define input(owner, slice) (N * N + (owner) * N + (slice))
#define output(owner, slice) (2 * N * N + (owner) * N + (slice))
#define places (3 * N * N)
byte value[places];
byte readers[places]; // bits, by rank
byte writer[places];  // rank + 1 of the rank that is writing; 0: none
byte owed[places];    // rank + 1 of the writer that hasn't published it yet; | 8: non-temporal, not yet fenced

#define settled(p) (owed[p] == 0 || (owed[p] & 7) == me + 1)
#define begin_read(p, expected) \
  assert(writer[p] == 0 && settled(p) && value[p] == (expected)); \
  readers[p] = readers[p] | (1 << me)
#define end_read(p) readers[p] = readers[p] & ~(1 << me)
#define begin_write(p) \
  assert(writer[p] == 0 && (readers[p] & ~(1 << me)) == 0 && settled(p)); \
  writer[p] = me + 1
#define end_write(p, new, streamed) \
  writer[p] = 0; \
  value[p] = new; \
  owed[p] = (me + 1) | ((streamed) -> 8 : 0)

// ---- flags
byte arrived[N], staged[N], reduced[N], all_read[N]; // all_read: Phase::finished
bit in_window[N], out_window[N];                     // Announcement
byte finished;

// A release store publishes all writes of the rank, except non-temporal ones without a fence.
#define publish(flag, tag) \
  d_step { \
    k = 0; \
    do \
    :: k < places -> \
       if \
       :: owed[k] == me + 1 -> owed[k] = 0 \
       :: else \
       fi; \
       k++ \
    :: else -> break \
    od; \
    k = 0; \
    flag[me] = tag \
  }
#define reached(flag, rank, tag) (me == (rank) || flag[rank] >= (tag))
#if N == 2
#define all(flag, tag) (reached(flag, 0, tag) && reached(flag, 1, tag))
#elif N == 3
#define all(flag, tag) (reached(flag, 0, tag) && reached(flag, 1, tag) && reached(flag, 2, tag))
#else
#define all(flag, tag) \
  (reached(flag, 0, tag) && reached(flag, 1, tag) && reached(flag, 2, tag) && reached(flag, 3, tag))
#endif

#define tag_of(call, piece) ((call) * PIECES + (piece))
#define result(call, piece) (100 + tag_of(call, piece))
#define each_slice_but_mine(statements) \
  k = 0; \
  do \
  :: k < N -> \
     if \
     :: k != me -> statements \
     :: else \
     fi; \
     k++ \
  :: else -> break \
  od; \
  k = 0

inline stage(piece) {
  if
  :: !in_window[me] ->
     if
#ifndef SEED_NO_FREE_WAIT
     :: piece == 0 -> all(all_read, busy)
#else
     :: piece == 0 -> skip
#endif
     :: piece > 0 && results_wait && !pair -> all(all_read, tag_of(call, piece - 1))
     :: else
     fi;
     d_step { each_slice_but_mine(begin_write(staging(me, k))) };
     d_step { each_slice_but_mine(end_write(staging(me, k), tag_of(call, piece), 0)) }
  :: else
  fi
}

inline begin_reduction() {
  k = 0;
  do
  :: k < N ->
     if
     :: k == me || in_window[k] -> begin_read(input(k, me), call)
     :: else -> begin_read(staging(k, me), tag_of(call, piece))
     fi;
     if
     :: k == me || out_window[k] -> begin_write(output(k, me))
     :: k != me && !out_window[k] && pair -> begin_write(staging(k, me)) // the place of its input, if that was staged
     :: else -> waits_here = 1
     fi;
     k++
  :: else -> break
  od;
  if
  :: waits_here -> begin_write(staging(me, me))
  :: else
  fi;
  k = 0
}

inline end_reduction() {
  k = 0;
  do
  :: k < N ->
     if
     :: k == me || in_window[k] -> end_read(input(k, me))
     :: else -> end_read(staging(k, me))
     fi;
     if
     :: k == me || out_window[k] -> end_write(output(k, me), result(call, piece), k != me)
     :: k != me && !out_window[k] && pair -> end_write(staging(k, me), result(call, piece), 0)
     :: else
     fi;
     k++
  :: else -> break
  od;
  if
  :: waits_here -> end_write(staging(me, me), result(call, piece), 0)
  :: else
  fi;
  waits_here = 0;
  k = 0
}

inline stream_fence() {
  d_step {
    k = 0;
    do
    :: k < places ->
       if
       :: owed[k] == ((me + 1) | 8) -> owed[k] = me + 1
       :: else
       fi;
       k++
    :: else -> break
    od;
    k = 0
  }
}

proctype Rank(byte me) {
  byte call = 1, piece, pieces, busy, k;
  bit someone_stages, results_wait, waits_here;
  do
  :: call <= CALLS ->
     // The caller writes its input. If another rank still reads it, begin_write fails.
     d_step {
       k = 0;
       do
       :: k < N -> begin_write(input(me, k)); end_write(input(me, k), call, 0); k++
       :: else -> break
       od;
       k = 0;
       someone_stages = 0;
       results_wait = 0
     };
     if
     :: in_window[me] = 0
     :: in_window[me] = 1
     fi;
     if
     :: out_window[me] = 0
     :: out_window[me] = 1
     fi;
     piece = 0;
     stage(0);
     publish(arrived, call);
     all(arrived, call);
     d_step { // read_announcements
       k = 0;
       do
       :: k < N ->
          someone_stages = someone_stages | !in_window[k] | !out_window[k];
          results_wait = results_wait | !out_window[k];
          k++
       :: else -> break
       od;
       k = 0;
       pieces = (someone_stages -> PIECES : 1)
     };
     do
     :: piece < pieces ->
        if
        :: piece > 0 -> stage(piece); publish(staged, tag_of(call, piece)); all(staged, tag_of(call, piece))
        :: else
        fi;
        // finish
        if
        :: results_wait && !pair && in_window[me] && piece == 0 -> all(all_read, busy)
        :: results_wait && !pair && in_window[me] && piece > 0 -> all(all_read, tag_of(call, piece - 1))
        :: else
        fi;
        d_step { begin_reduction() };
        d_step { end_reduction() };
#ifndef SEED_NO_STREAM_FENCE
        stream_fence();
#endif
        publish(reduced, tag_of(call, piece));
#ifndef SEED_NO_REDUCED_WAIT
        all(reduced, tag_of(call, piece));
#endif
        if
        :: !out_window[me] -> // take_results
           d_step {
             each_slice_but_mine(begin_read(staging((pair -> me : k), k), result(call, piece)))
           };
           d_step {
             each_slice_but_mine(end_read(staging((pair -> me : k), k)));
             each_slice_but_mine(begin_write(output(me, k)));
             each_slice_but_mine(end_write(output(me, k), result(call, piece), 0))
           }
        :: else
        fi;
        if
        :: results_wait && !pair -> busy = tag_of(call, piece); publish(all_read, tag_of(call, piece))
        :: else
        fi;
        piece++
     :: else -> break
     od;
     k = 0;
     d_step { // the caller reads its output
       do
       :: k < N -> begin_read(output(me, k), result(call, pieces - 1)); end_read(output(me, k)); k++
       :: else -> break
       od;
       k = 0;
       piece = 0;
       pieces = 0
     };
     call++
  :: else -> break
  od;
  finished++
}

init {
  byte r;
  atomic {
    do
    :: r < N -> run Rank(r); r++
    :: else -> break
    od
  };
  finished == N
}
