#include "tests/conformance/fixture.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/am/tcp/tcp_wire.hpp"
#include "runtime/transport/load_store.hpp"
#include "runtime/transport/shm/shm_wire.hpp"
#include "tests/support/sim_wire.hpp"
#ifdef HMC_HAVE_UCX
#include "runtime/transport/ucx/ucx_wire.hpp"
#endif
#ifdef HMC_HAVE_VERBS
#include "runtime/transport/rdma/verbs_wire.hpp"
#endif

namespace hmc::conformance {

Fixture::Fixture(spmd::TestRank& rank) : me(rank), log_(rank.env.log, rank.rank) {
  const auto& facts = me.bootstrap->facts();
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  waiter_ = base::Waiter(me.bootstrap->node_page(), facts[static_cast<std::size_t>(me.rank)].local_index,
                         me.options.setting("wait") == "sleep" ? base::WaitMode::sleep : base::WaitMode::adapt,
                         me.size > cores);
  wire_ = make(me.options.setting("wire", "sim"));
  wire_->set_peer_addresses(allgather(wire_->address()));
  for (int peer = 0; peer < me.size; ++peer)
    if (wire_->reaches(peer).yes) peers_.push_back(peer);
  HMC_CHECK(std::ranges::count(peers_, me.rank) == 1);
  waiter_.add_progress(wire_.get());
}

Fixture::~Fixture() = default;

std::unique_ptr<transport::Wire> Fixture::make(const std::string& name) {
  if (name == "shm") return std::make_unique<transport::ShmWire>(me.rank, me.bootstrap->node_link(), waiter_);
  if (name == "sim") {
    if (me.options.processes) spmd::skip("the sim wire is for ranks of one process");
    const auto fault = spmd::SimWire::fault_named(me.options.setting("fault", "none"));
    return std::make_unique<spmd::SimWire>(me.rank, me.options.seed, fault);
  }
#ifdef HMC_HAVE_VERBS
  if (name == "verbs") {
    const transport::VerbsState state = transport::verbs_state();
    if (!state.is_usable) spmd::skip(state.why);
    transport::WireContext context;
    context.rank = me.rank;
    context.size = me.size;
    context.waiter = &waiter_;
    context.log = &log_;
    context.env = &me.env;
    return transport::make_verbs_wire(context);
  }
#endif
  transport::am::Options options;
  options.rank = me.rank;
  options.size = me.size;
  options.waiter = &waiter_;
  options.log = log_;
  if (name == "tcp") return transport::make_tcp_wire(options);
#ifdef HMC_HAVE_UCX
  if (name == "ucx") return transport::make_ucx_wire(options, me.options.setting("transports", "^sm"));
#endif
  throw spmd::CheckFailed("this build has no wire '" + name + "'");
}

std::vector<base::Bytes> Fixture::allgather(base::ByteView mine) {
  return me.bootstrap->allgather(mine, base::Deadline::after(wait_timeout));
}

int Fixture::index_of(int peer) const {
  return static_cast<int>(std::ranges::lower_bound(peers_, peer) - peers_.begin());
}
int Fixture::next() const { return peers_[static_cast<std::size_t>(index_of(me.rank) + 1) % peers_.size()]; }
int Fixture::previous() const {
  return peers_[(static_cast<std::size_t>(index_of(me.rank)) + peers_.size() - 1) % peers_.size()];
}

void Fixture::barrier() { me.bootstrap->barrier(base::Deadline::after(wait_timeout)); }

void Fixture::require(base::Status status, const char* what) const {
  if (status.ok()) return;
  throw spmd::CheckFailed(fmt::format("{}: {} (peer {}, {})", what, name_of(status.code), status.peer,
                                      status.what == nullptr ? "" : status.what));
}

void Fixture::wait(Ticket ticket) {
  base::Status status = wire_->test(ticket);
  if (status.code == Code::in_progress) {
    until([&]() noexcept {
      status = wire_->test(ticket);
      return status.code != Code::in_progress;
    });
  }
  require(status, "transfer");
}

void Fixture::flush(int peer) {
  Ticket ticket = transport::done;
  require(wire_->flush(peer, ticket), "flush");
  wait(ticket);
}

void Fixture::fence() { require(wire_->fence(), "fence"); }

void Fixture::settle() {
  flush();
  barrier();
  // Another thread of this rank's wire may have written bytes; after this call this thread may read them.
  wire_->progress();
}

Window::Window(Fixture& fixture, std::size_t bytes) : fixture_(fixture), segment_(base::Segment::create(bytes)) {
  region_ = {segment_->base(), bytes, MemoryType::CPU, segment_, 0};
  const auto keys = fixture.allgather(fixture.wire().register_region(region_));
  channels_ = fixture.wire().connect(region_, keys, fixture.peers(), base::Deadline::after(wait_timeout));
  HMC_CHECK_EQ(channels_.size(), fixture.peers().size());
  fixture.barrier();
}

Window::~Window() {
  channels_.clear();
  if (open_) fixture_.wire().deregister_region(region_);
}

void Window::close() {
  fixture_.settle();
  channels_.clear();
  fixture_.barrier();
  // As at the end of a job: no rank connects after this, unless the test creates another window, which it also closes.
  fixture_.wire().all_left();
  fixture_.wire().deregister_region(region_);
  open_ = false;
}

Ticket Window::put_nb(int peer, std::uint64_t offset, std::span<const std::byte> source) const {
  Ticket ticket = transport::done;
  fixture_.require(to(peer).put(offset, source.data(), source.size(), ticket), "put");
  return ticket;
}
Ticket Window::get_nb(int peer, std::uint64_t offset, std::span<std::byte> destination) const {
  Ticket ticket = transport::done;
  fixture_.require(to(peer).get(offset, destination.data(), destination.size(), ticket), "get");
  return ticket;
}
Ticket Window::put_signal_nb(int peer, std::uint64_t offset, std::span<const std::byte> source,
                             std::uint64_t signal_offset, std::uint64_t value) const {
  Ticket ticket = transport::done;
  fixture_.require(to(peer).put_signal(offset, source.data(), source.size(), signal_offset, value, ticket),
                   "put_signal");
  return ticket;
}
void Window::put(int peer, std::uint64_t offset, std::span<const std::byte> source) const {
  fixture_.wait(put_nb(peer, offset, source));
}
void Window::get(int peer, std::uint64_t offset, std::span<std::byte> destination) const {
  fixture_.wait(get_nb(peer, offset, destination));
}
void Window::put_signal(int peer, std::uint64_t offset, std::span<const std::byte> source, std::uint64_t signal_offset,
                        std::uint64_t value) const {
  fixture_.wait(put_signal_nb(peer, offset, source, signal_offset, value));
}

std::uint64_t Window::atomic(int peer, std::uint64_t offset, AtomicOp op, int width, std::uint64_t operand,
                             std::uint64_t compare) const {
  Ticket ticket = transport::done;
  std::uint64_t result = 0;
  const Atomic atomic{op, static_cast<std::uint8_t>(width), operand, compare};
  std::uint64_t* const to_result = transport::returns_value(op) ? &result : nullptr;
  fixture_.require(to(peer).atomic(atomic, offset, to_result, ticket), "atomic");
  fixture_.wait(ticket);
  return result;
}

void Window::wait_signal(std::uint64_t offset, std::uint64_t value) const {
  fixture_.until([&]() noexcept { return transport::load_signal(region_.base + offset) >= value; });
}

std::vector<std::byte> bytes_of(const spmd::Pattern& pattern, std::size_t bytes, std::uint64_t from) {
  std::vector<std::byte> all(bytes);
  pattern.fill(all, from);
  return all;
}

std::uint64_t number(const spmd::TestRank& me, const std::string& key, std::uint64_t fallback) {
  const std::string text = me.options.setting(key);
  return text.empty() ? fallback : std::stoull(text);
}

}  // namespace hmc::conformance
