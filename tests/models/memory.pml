// The memory model. Each rank has a store buffer, and a process (Drain) that commits its stores to memory.
//
// A plain store may commit at any time, even before older stores to other places. A release store commits after all
// older stores. This is weaker than x86, where stores commit in order. For stores it is as weak as C++ permits for the
// code's memory orders. Loads execute in program order, as acquire loads and later loads must. Not modelled: loads
// that no acquire load orders, and torn accesses of a word. Each place has one writer, so a reader reads from memory
// and not from a store buffer.
//
// A model defines N (ranks), PLACES and, if it needs more than 2, DEPTH (entries of a store buffer).
#ifndef DEPTH
#define DEPTH 2
#endif

#define plain 0
#define release 1
#define add 2 /* the store of a relaxed or seq_cst read-modify-write on a counter */
#define sub 3

typedef Store {
  byte place;
  byte value;
  byte kind
}
typedef Buffer {
  byte length;
  Store at[DEPTH]
}
Buffer buffer[N];
byte memory[PLACES];
byte finished; // ranks that have ended

inline store(_kind, _place, _value) {
  d_step {
    buffer[me].length < DEPTH;
    buffer[me].at[buffer[me].length].place = _place;
    buffer[me].at[buffer[me].length].value = _value;
    buffer[me].at[buffer[me].length].kind = _kind;
    buffer[me].length++
  }
}

// std::atomic_thread_fence(seq_cst). A release read-modify-write has the same effect on older stores.
#define fence buffer[me].length == 0

#define entry(i) buffer[me].at[i]
#define older_place(i, j) (entry(i).place == entry(j).place)
#define may_leave_0 (buffer[me].length > 0)
#define may_leave_1 (buffer[me].length > 1 && entry(1).kind != release && !older_place(0, 1))
#define may_leave_2 \
  (buffer[me].length > 2 && entry(2).kind != release && !older_place(0, 2) && !older_place(1, 2))

// Commits entry _i, and moves the younger entries up. The free entry is zeroed, so that Spin recognizes equal states.
inline leave(_i) {
  if
  :: entry(_i).kind == add -> memory[entry(_i).place] = memory[entry(_i).place] + entry(_i).value
  :: entry(_i).kind == sub -> memory[entry(_i).place] = memory[entry(_i).place] - entry(_i).value
  :: else -> memory[entry(_i).place] = entry(_i).value
  fi;
  j = _i;
  do
  :: j + 1 < buffer[me].length ->
     entry(j).place = entry(j + 1).place;
     entry(j).value = entry(j + 1).value;
     entry(j).kind = entry(j + 1).kind;
     j++
  :: else -> break
  od;
  buffer[me].length--;
  entry(buffer[me].length).place = 0;
  entry(buffer[me].length).value = 0;
  entry(buffer[me].length).kind = 0;
  j = 0
}

proctype Drain(byte me) {
  byte j;
end:
  do
  :: d_step { may_leave_0 -> leave(0) }
  :: d_step { may_leave_1 -> leave(1) }
#if DEPTH > 2
  :: d_step { may_leave_2 -> leave(2) }
#endif
  od
}
