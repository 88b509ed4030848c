#include "tests/fake_drivers/streams.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

namespace fake {

Stream::Stream(int device) : device_(device), thread_([this] { serve(); }) {}
Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::put(std::function<void()> work) { append({std::move(work), false}); }
void Stream::put_mark(std::function<void()> mark) { append({std::move(mark), true}); }
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
      work.run();  // under the lock: who has seen the mark finds nothing under way before it
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

Streams& streams() {
  static Streams* const one = new Streams;
  return *one;
}

std::shared_ptr<Stream> Streams::stream_of(void* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}
std::shared_ptr<Event> Streams::event_of(void* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

Result Streams::create_stream(void*& stream, int device) {
  auto made = std::make_shared<Stream>(device);
  const std::scoped_lock lock(mutex_);
  stream = reinterpret_cast<void*>(next_++);
  streams_[stream] = std::move(made);
  control().gained(Live::stream);
  return Result::ok;
}
Result Streams::destroy_stream(void* stream) {
  std::shared_ptr<Stream> last;
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return Result::invalid_handle;
  last = std::move(found->second);
  streams_.erase(found);
  control().lost(Live::stream);
  return Result::ok;
}
Result Streams::synchronize_stream(void* stream) {
  const auto found = stream_of(stream);
  if (found == nullptr) return Result::invalid_handle;
  found->synchronize();
  return Result::ok;
}
Result Streams::query_stream(void* stream) {
  const auto found = stream_of(stream);
  if (found == nullptr) return Result::invalid_handle;
  return found->idle() ? Result::ok : Result::not_ready;
}

Result Streams::create_event(void*& event) {
  event = add_event(std::make_shared<Event>());
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
Result Streams::record_event(void* event, void* stream) {
  const auto on = stream_of(stream);
  const auto mark = event_of(event);
  if (on == nullptr || mark == nullptr) return Result::invalid_handle;
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
Result Streams::stream_wait(void* stream, void* event) {
  const auto on = stream_of(stream);
  const auto mark = event_of(event);
  if (on == nullptr || mark == nullptr) return Result::invalid_handle;
  on->put([mark, number = mark->recorded()] { mark->wait(number); });
  return Result::ok;
}

namespace {

void delay() {
  const int us = control().delay_us;
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

}  // namespace

Result Streams::copy(void* to, Side to_side, const void* from, Side from_side, std::size_t bytes, void* stream) {
  return copy_2d(to, to_side, bytes, from, from_side, bytes, bytes, 1, stream);
}

Result Streams::copy_2d(void* to, Side to_side, std::size_t to_pitch, const void* from, Side from_side,
                        std::size_t from_pitch, std::size_t width, std::size_t height, void* stream) {
  const auto on = stream_of(stream);
  if (on == nullptr) return Result::invalid_handle;
  if (width == 0 || height == 0) return Result::ok;
  if (to_pitch < width || from_pitch < width) return Result::invalid_value;
  std::byte* const target = memory().resolve(to, (height - 1) * to_pitch + width, to_side);
  const std::byte* const source = memory().resolve(from, (height - 1) * from_pitch + width, from_side);
  if (target == nullptr || source == nullptr) return Result::invalid_value;
  on->put([=] {
    delay();
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(target + row * to_pitch, source + row * from_pitch, width);
  });
  return Result::ok;
}

Result Streams::fill(void* to, unsigned char value, std::size_t bytes, void* stream) {
  const auto on = stream_of(stream);
  if (on == nullptr) return Result::invalid_handle;
  std::byte* const target = memory().resolve(to, bytes, Side::device);
  if (target == nullptr) return Result::invalid_value;
  on->put([=] {
    delay();
    std::memset(target, value, bytes);
  });
  return Result::ok;
}

Result Streams::run(std::function<void()> work, void* stream) {
  const auto on = stream_of(stream);
  if (on == nullptr) return Result::invalid_handle;
  on->put([work = std::move(work)] {
    delay();
    work();
  });
  return Result::ok;
}

Result Streams::call_host(void* stream, void (*function)(void*), void* data) {
  static std::mutex& one_at_a_time = *new std::mutex;
  return run(
      [=] {
        std::unique_lock lock(one_at_a_time, std::defer_lock);
        if (control().one_function_at_a_time != 0) lock.lock();
        function(data);
      },
      stream);
}

namespace {

std::atomic_ref<unsigned> word_at(void* word) { return std::atomic_ref<unsigned>(*static_cast<unsigned*>(word)); }

}  // namespace

Result Streams::write_word(void* stream, void* word, unsigned value) {
  if (memory().resolve(word, sizeof value, Side::device) == nullptr) return Result::invalid_value;
  return run([=] { word_at(word).store(value, std::memory_order_release); }, stream);
}

Result Streams::wait_word(void* stream, void* word, unsigned value) {
  if (memory().resolve(word, sizeof value, Side::device) == nullptr) return Result::invalid_value;
  return run(
      [=] {
        while (static_cast<int>(word_at(word).load(std::memory_order_acquire) - value) < 0)
          std::this_thread::sleep_for(std::chrono::microseconds(20));
      },
      stream);
}

}  // namespace fake
