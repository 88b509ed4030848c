#include "tests/fake_drivers/streams.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

namespace fake {

Stream::Stream(int device, bool blocking) : device_(device), blocking_(blocking), thread_([this] { serve(); }) {}
Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::append(Work work) {
  {
    const std::scoped_lock lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}
void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}
bool Stream::idle() {
  const std::scoped_lock lock(mutex_);
  return work_.empty() && !busy_;
}

void Stream::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !work_.empty() || closing_; });
    if (work_.empty()) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    if (work.is_mark) {
      work.run();  // under the lock: a thread that has seen the mark finds no earlier work in flight
    } else {
      busy_ = true;
      lock.unlock();
      work.run();
      lock.lock();
      busy_ = false;
    }
    changed_.notify_all();
  }
}

std::uint64_t Event::recorded() {
  const std::scoped_lock lock(mutex_);
  return recorded_;
}
std::uint64_t Event::record() {
  const std::scoped_lock lock(mutex_);
  return ++recorded_;
}
void Event::pass(std::uint64_t number) {
  {
    const std::scoped_lock lock(mutex_);
    passed_ = std::max(passed_, number);
    passed_at_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}
void Event::wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_ >= number; });
}
bool Event::passed(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  return passed_ >= number;
}
std::chrono::steady_clock::time_point Event::passed_at() {
  const std::scoped_lock lock(mutex_);
  return passed_at_;
}

bool WordWait::is_over(std::uint64_t word) const noexcept {
  const std::uint64_t whole = bytes == 4 ? 0xFFFFFFFF : ~std::uint64_t{0};
  const std::uint64_t seen = word & mask & whole, wanted = value & whole;
  switch (until) {
    case Until::at_least:  // 32-bit words are compared modulo 2^32
      return bytes == 4 ? static_cast<std::int32_t>(seen - wanted) >= 0 : seen >= wanted;
    case Until::equal: return seen == wanted;
    case Until::any_bit: return (seen & wanted) != 0;
    case Until::not_all_bits: return (~(seen | (wanted & mask)) & whole) != 0;
  }
  return false;
}

Streams& streams() {
  static Streams* const one = new Streams;
  return *one;
}

std::shared_ptr<Stream> Streams::find(const StreamName& name) {
  if (name.handle == nullptr || name.handle == legacy_handle) {
    std::shared_ptr<Stream>& legacy = legacy_[name.device];
    if (legacy == nullptr) legacy = std::make_shared<Stream>(name.device, true);
    return legacy;
  }
  if (name.handle == per_thread_handle) {
    std::shared_ptr<Stream>& own = per_thread_[{std::this_thread::get_id(), name.device}];
    if (own == nullptr) own = std::make_shared<Stream>(name.device, true);
    return own;
  }
  const auto found = streams_.find(name.handle);
  return found == streams_.end() ? nullptr : found->second;
}

namespace {

/// Orders work queued later in `later` after the work that `first` holds now.
void order(Stream& first, Stream& later) {
  if (first.idle()) return;
  const auto mark = std::make_shared<Event>(EventTraits{});
  const std::uint64_t number = mark->record();
  first.put_mark([=] { mark->pass(number); });
  later.put([=] { mark->wait(number); });
}

}  // namespace

std::shared_ptr<Stream> Streams::find_in_order(const StreamName& name) {
  const auto found = find(name);
  if (found == nullptr || !found->blocking()) return found;
  const auto legacy = legacy_.find(found->device());
  if (legacy == legacy_.end()) return found;
  if (legacy->second != found) {
    order(*legacy->second, *found);
    return found;
  }
  for (const auto& [handle, each] : streams_)
    if (each->blocking() && each->device() == found->device()) order(*each, *found);
  for (const auto& [key, each] : per_thread_)
    if (key.second == found->device()) order(*each, *found);
  return found;
}

Result Streams::check_here(const StreamName& stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = find(stream);
  if (found == nullptr) return Result::invalid_handle;
  return found->device() == stream.device ? Result::ok : Result::other_context;
}

std::shared_ptr<Event> Streams::event_of(void* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

Result Streams::create_stream(void*& stream, int device, bool blocking) {
  auto made = std::make_shared<Stream>(device, blocking);
  const std::scoped_lock lock(mutex_);
  stream = reinterpret_cast<void*>(next_++);
  streams_[stream] = std::move(made);
  control().gained(Live::stream);
  return Result::ok;
}
Result Streams::destroy_stream(const StreamName& stream) {
  std::shared_ptr<Stream> last;  // destroyed after the lock is released, because the destructor waits for queued work
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(stream.handle);
  if (found == streams_.end()) return Result::invalid_handle;
  last = std::move(found->second);
  streams_.erase(found);
  control().lost(Live::stream);
  return Result::ok;
}
Result Streams::synchronize_stream(const StreamName& stream) {
  std::unique_lock lock(mutex_);
  const auto found = find_in_order(stream);
  lock.unlock();
  if (found == nullptr) return Result::invalid_handle;
  found->synchronize();
  return Result::ok;
}
Result Streams::query_stream(const StreamName& stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = find_in_order(stream);
  if (found == nullptr) return Result::invalid_handle;
  return found->idle() ? Result::ok : Result::not_ready;
}

Result Streams::create_event(void*& event, const EventTraits& traits) {
  event = add_event(std::make_shared<Event>(traits));
  return Result::ok;
}
void* Streams::add_event(std::shared_ptr<Event> event) {
  const std::scoped_lock lock(mutex_);
  void* const handle = reinterpret_cast<void*>(next_++);
  events_[handle] = std::move(event);
  control().gained(Live::event);
  return handle;
}
Result Streams::destroy_event(void* event) {
  const std::scoped_lock lock(mutex_);
  if (events_.erase(event) != 1) return Result::invalid_handle;
  control().lost(Live::event);
  return Result::ok;
}
Result Streams::record_event(void* event, const StreamName& stream) {
  const auto mark = event_of(event);
  const std::scoped_lock lock(mutex_);
  const auto on = find_in_order(stream);
  if (on == nullptr || mark == nullptr) return Result::invalid_handle;
  if (on->device() != mark->traits.device) return Result::other_context;
  on->put_mark([mark, number = mark->record()] { mark->pass(number); });
  return Result::ok;
}
Result Streams::synchronize_event(void* event) {
  const auto mark = event_of(event);
  if (mark == nullptr) return Result::invalid_handle;
  mark->wait(mark->recorded());
  return Result::ok;
}
Result Streams::query_event(void* event) {
  const auto mark = event_of(event);
  if (mark == nullptr) return Result::invalid_handle;
  return mark->passed(mark->recorded()) ? Result::ok : Result::not_ready;
}
Result Streams::elapsed(float& milliseconds, void* from, void* to) {
  const auto first = event_of(from), last = event_of(to);
  if (first == nullptr || last == nullptr || !first->traits.times || !last->traits.times) return Result::invalid_handle;
  if (first->recorded() == 0 || last->recorded() == 0 || first->traits.device != last->traits.device)
    return Result::invalid_handle;
  if (!first->passed(first->recorded()) || !last->passed(last->recorded())) return Result::not_ready;
  milliseconds = std::chrono::duration<float, std::milli>(last->passed_at() - first->passed_at()).count();
  return Result::ok;
}
Result Streams::stream_wait(const StreamName& stream, void* event) {
  const auto mark = event_of(event);
  const std::scoped_lock lock(mutex_);
  const auto on = find_in_order(stream);
  if (on == nullptr || mark == nullptr) return Result::invalid_handle;
  if (!mark->traits.waitable) return Result::not_supported;
  on->put([mark, number = mark->recorded()] { mark->wait(number); });
  return Result::ok;
}

namespace {

void delay() {
  const int us = control().delay_us;
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

}  // namespace

Result Streams::copy(void* to, Side to_side, const void* from, Side from_side, std::size_t bytes,
                     const StreamName& stream) {
  return copy_2d(to, to_side, bytes, from, from_side, bytes, bytes, 1, stream);
}

Result Streams::copy_2d(void* to, Side to_side, std::size_t to_pitch, const void* from, Side from_side,
                        std::size_t from_pitch, std::size_t width, std::size_t height, const StreamName& stream) {
  if (width == 0 || height == 0) {
    const std::scoped_lock lock(mutex_);
    return find(stream) == nullptr ? Result::invalid_handle : Result::ok;
  }
  if (to_pitch < width || from_pitch < width) return Result::invalid_value;
  std::byte* const target = memory().resolve(to, (height - 1) * to_pitch + width, to_side, {stream.device, true});
  const std::byte* const source =
      memory().resolve(from, (height - 1) * from_pitch + width, from_side, {stream.device, false});
  if (target == nullptr || source == nullptr) return Result::invalid_value;
  return run(
      [=] {
        for (std::size_t row = 0; row < height; ++row)
          std::memcpy(target + row * to_pitch, source + row * from_pitch, width);
      },
      stream);
}

Result Streams::fill(void* to, unsigned char value, std::size_t bytes, const StreamName& stream) {
  std::byte* const target = memory().resolve(to, bytes, Side::device, {stream.device, true});
  if (target == nullptr) return Result::invalid_value;
  return run([=] { std::memset(target, value, bytes); }, stream);
}

Result Streams::run(std::function<void()> work, const StreamName& stream) {
  const std::scoped_lock lock(mutex_);
  const auto on = find_in_order(stream);
  if (on == nullptr) return Result::invalid_handle;
  on->put([work = std::move(work)] {
    delay();
    work();
  });
  return Result::ok;
}

Result Streams::call_host(const StreamName& stream, void (*function)(void*), void* data) {
  static std::mutex& one_at_a_time = *new std::mutex;
  return run(
      [=] {
        std::unique_lock lock(one_at_a_time, std::defer_lock);
        if (control().one_function_at_a_time != 0) lock.lock();
        function(data);
      },
      stream);
}

Result Streams::allocate(void*& address, std::size_t bytes, const StreamName& stream) {
  if (const Result result = check_here(stream); result != Result::ok) return result;
  if (const Result result = memory().allocate_dormant(address, bytes, stream.device); result != Result::ok)
    return result;
  return run([made = address] { memory().come_alive(made); }, stream);
}

Result Streams::free(void* address, const StreamName& stream) {
  if (const Result result = check_here(stream); result != Result::ok) return result;
  if (const Result result = memory().free_soon(address); result != Result::ok) return result;
  return run([=] { (void)memory().free(address); }, stream);
}

Result Streams::write_word(const StreamName& stream, void* word, std::uint64_t value, std::size_t bytes) {
  std::byte* const at = memory().word(word, bytes);
  if (at == nullptr) return Result::invalid_value;
  return run(
      [=] {
        if (bytes == 4)
          std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)).store(static_cast<std::uint32_t>(value));
        else
          std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).store(value);
      },
      stream);
}

Result Streams::wait_word(const StreamName& stream, void* word, const WordWait& wait) {
  std::byte* const at = memory().word(word, wait.bytes);
  if (at == nullptr) return Result::invalid_value;
  const auto load = [=]() -> std::uint64_t {
    if (wait.bytes == 4) return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)).load();
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).load();
  };
  return run(
      [=] {
        while (!wait.is_over(load())) std::this_thread::sleep_for(std::chrono::microseconds(20));
      },
      stream);
}

}  // namespace fake
