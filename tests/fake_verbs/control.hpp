// A test's control over the fake libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

extern "C" {

/// All objects must be destroyed. Restores the defaults of `fake_verbs_set` and sets all counters to zero.
void fake_verbs_reset();
/// Before the wire opens the device: devices, active, gids, atomics, queue_depth, inline_max, max_reads.
/// At any time:
///   reorder       1: READs and atomics may pass and be passed as the specification allows; 0: they execute in order
///   seed          of the order in which queue pairs execute
///   read_delay    the number of polls of its completion queue before a READ or atomic executes (with reorder)
///   drop          the number of further datagrams that are lost
void fake_verbs_set(const char* name, int value);
/// The requests on this queue pair start after `polls` polls of its completion queue. Queue pairs of reliable
/// connections have the numbers 1, 2, ... in the order of their creation; 0: all. Requests that are ready on a queue
/// pair without a delay of its own execute before those with one.
void fake_verbs_delay(int pair, int polls);
/// After `after` successful calls, `count` calls of the function fail with this errno.
void fake_verbs_refuse(const char* function, int after, int count, int error);
/// After `after` further requests, the next request of this queue pair fails with this status.
void fake_verbs_fail(int pair, int after, ibv_wc_status status);

/// Objects that exist: context, pd, mr, cq, qp, ah, channel, all.
long fake_verbs_live(const char* kind);
/// Successful calls of a function; also `completions`, `datagrams`, `requests`, `fenced`; `patience_ms`: the time after
/// which the queue pair that was connected last gives up, if no request is acknowledged.
long fake_verbs_count(const char* name);
/// The uses that the specification forbids, one a line; empty: none.
const char* fake_verbs_violations();

/// Called before each request on a reliable connection executes, by the device's thread.
using FakeVerbsObserver = void (*)(void* context, int pair, ibv_wr_opcode opcode, std::uint64_t remote,
                                   std::uint32_t bytes);
void fake_verbs_observe(FakeVerbsObserver observer, void* context);
}
