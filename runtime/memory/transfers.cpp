#include "runtime/memory/transfers.hpp"
#include "runtime/base/fork.hpp"

#include <algorithm>
#include <utility>

namespace hmc::detail {

namespace {

void check(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "Buffer", status.what == nullptr ? "transfer" : status.what);
}

}  // namespace

Transfers::~Transfers() {
  bool all_over = true;
  for (const Pending& each : pending_)
    if (each.is_own && !each.mark->event->synchronize().ok()) all_over = false;
  if (!all_over) drain();  // the memory that the transfers access is freed next
}

void Transfers::use(const memory::Provider& provider, int device, void* native) {
  lanes_.push_back({&provider, device, provider.borrow_stream(device, native), true});
}

std::shared_ptr<Transfers> Transfers::alike() const {
  auto made = base::make_owned<Transfers>();
  for (const Lane& lane : lanes_)
    if (lane.is_users) made->use(*lane.provider, lane.device, lane.stream->native());
  return made;
}

memory::Stream& Transfers::stream(const memory::Provider& provider, int device) {
  for (const Lane& lane : lanes_)
    if (lane.provider == &provider && lane.device == device) return *lane.stream;
  lanes_.push_back({&provider, device, provider.make_stream(device), false});
  return *lanes_.back().stream;
}

void Transfers::come_before(memory::Stream& stream, const memory::Provider& provider, Keep& keep) {
  for (const Lane& lane : lanes_) {
    if (lane.stream.get() == &stream) continue;
    if (lane.provider != &provider) {  // only the host can order the streams of two vendors
      check(lane.stream->synchronize());
      continue;
    }
    std::shared_ptr<memory::Event> here = provider.make_event(lane.device);
    check(here->record(*lane.stream));
    check(stream.wait(*here));
    keep.push_back(std::move(here));  // some vendors read the event only when the stream reaches the wait
  }
  for (const Pending& each : pending_) {
    if (each.is_own) continue;
    if (each.mark->provider == &provider) {
      check(stream.wait(*each.mark->event));
      keep.push_back(each.mark);
    } else {
      check(each.mark->event->synchronize());
    }
  }
}

base::Status Transfers::put(const memory::Provider& provider, const memory::Transfer& copy, int device, Keep keep,
                            Transfers* other) {
  if (other == this) other = nullptr;
  forget_passed();
  memory::Stream& stream = this->stream(provider, device);
  try {
    come_before(stream, provider, keep);
    if (other != nullptr) other->come_before(stream, provider, keep);
    const auto mark = std::make_shared<Mark>(Mark{&provider, provider.make_event(device)});
    pending_.reserve(pending_.size() + 1);
    if (other != nullptr) other->pending_.reserve(other->pending_.size() + 1);
    if (const base::Status copied = provider.copy_async(copy, stream); !copied.ok()) {
      (void)stream.synchronize();
      if (copied.code == Code::unsupported) return copied;
      check(copied);
    }
    check(mark->event->record(stream));
    pending_.push_back({mark, true, std::move(keep)});
    if (other != nullptr) other->pending_.push_back({mark, false, {}});
  } catch (...) {
    (void)stream.synchronize();  // the copy may be in flight, and the stream waits for events that are destroyed next
    throw;
  }
  return {};
}

void Transfers::wait_for_last() {
  const base::Status status = pending_.back().mark->event->synchronize();
  if (!status.ok()) drain();  // after the error the caller may free the memory, or it is on the stack
  check(status);
  forget_passed();
}

/// The fallback after a failed wait for a mark: waits for all streams.
void Transfers::drain() noexcept {
  for (const Lane& lane : lanes_) (void)lane.stream->synchronize();
}

void Transfers::synchronize() {
  base::Status first;
  const auto take = [&](const base::Status& status) {
    if (first.ok()) first = status;
  };
  for (const Lane& lane : lanes_) take(lane.stream->synchronize());
  for (const Pending& each : pending_) take(each.mark->event->synchronize());
  check(first);
  pending_.clear();
}

/// Removes the entries before the first mark that isn't complete. A stream completes its marks in order, and a full
/// scan isn't worth its cost.
void Transfers::forget_passed() noexcept {
  const auto first_left = std::find_if(pending_.begin(), pending_.end(),
                                       [](const Pending& each) { return !each.mark->event->query().ok(); });
  pending_.erase(pending_.begin(), first_left);
}

}  // namespace hmc::detail
