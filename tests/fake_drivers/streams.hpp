// Streams of a fake device: one thread each, first in, first out. All work is delayed by FAKE_DELAY_US, so that a
// caller that doesn't wait sees the old bytes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/fake_drivers/memory.hpp"

namespace fake {

/// A stream argument: the handle, and the current device of the call. Null and `legacy_handle` are that device's legacy
/// default stream. Its work runs after all work queued in the device's blocking streams, and their later work runs
/// after it. Non-blocking streams aren't ordered with it.
struct StreamName {
  void* handle = nullptr;
  int device = 0;
};
inline void* const legacy_handle = reinterpret_cast<void*>(1);
/// A blocking stream of the calling thread and the current device.
inline void* const per_thread_handle = reinterpret_cast<void*>(2);

class Stream {
 public:
  Stream(int device, bool blocking);
  ~Stream();  ///< waits for all queued work
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  int device() const noexcept { return device_; }
  bool blocking() const noexcept { return blocking_; }
  void put(std::function<void()> work) { append({std::move(work), false}); }
  void put_mark(std::function<void()> mark) { append({std::move(mark), true}); }  ///< records an event; must not block
  void synchronize();
  bool idle();

 private:
  struct Work {
    std::function<void()> run;
    bool is_mark;
  };
  void append(Work work);
  void serve();
  int device_;
  bool blocking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;
};

/// Properties of an event, set at creation.
struct EventTraits {
  int device = 0;
  bool times = true;     ///< elapsed() accepts it
  bool waitable = true;  ///< streams can wait for it
};

class Event {
 public:
  explicit Event(EventTraits with) : traits(with) {}
  virtual ~Event() = default;
  const EventTraits traits;
  virtual std::uint64_t recorded();
  virtual std::uint64_t record();
  virtual void pass(std::uint64_t number);
  virtual void wait(std::uint64_t number);
  virtual bool passed(std::uint64_t number);
  std::chrono::steady_clock::time_point passed_at();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t passed_ = 0;
  std::chrono::steady_clock::time_point passed_at_;
};

/// A stream's wait for a word, with the comparisons of CUDA's and HIP's wait-value calls.
struct WordWait {
  enum class Until { at_least, equal, any_bit, not_all_bits };
  std::size_t bytes = 4;  ///< size of the word
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  Until until = Until::at_least;
  bool is_over(std::uint64_t word) const noexcept;
};

/// Handles are numbers, so an unknown or stale handle is refused and never dereferenced.
class Streams {
 public:
  Result create_stream(void*& stream, int device, bool blocking);
  Result destroy_stream(const StreamName& stream);
  Result synchronize_stream(const StreamName& stream);
  Result query_stream(const StreamName& stream);
  Result create_event(void*& event, const EventTraits& traits);
  void* add_event(std::shared_ptr<Event> event);
  Result destroy_event(void* event);
  /// The event and the stream must be of the same device.
  Result record_event(void* event, const StreamName& stream);
  Result synchronize_event(void* event);
  Result query_event(void* event);
  Result elapsed(float& milliseconds, void* from, void* to);
  Result stream_wait(const StreamName& stream, void* event);
  std::shared_ptr<Event> event_of(void* handle);
  /// Checks that the stream exists and is of the current device.
  Result check_here(const StreamName& stream);

  /// Addresses are checked in the call; the bytes are copied on the stream.
  Result copy(void* to, Side to_side, const void* from, Side from_side, std::size_t bytes, const StreamName& stream);
  Result copy_2d(void* to, Side to_side, std::size_t to_pitch, const void* from, Side from_side, std::size_t from_pitch,
                 std::size_t width, std::size_t height, const StreamName& stream);
  Result fill(void* to, unsigned char value, std::size_t bytes, const StreamName& stream);
  /// Queues any work, with the delay.
  Result run(std::function<void()> work, const StreamName& stream);
  /// Queues a host function. With FAKE_ONE_FUNCTION the functions of all streams run one at a time.
  Result call_host(const StreamName& stream, void (*function)(void*), void* data);
  /// Stream-ordered memory: exists from the stream's allocation to its free.
  Result allocate(void*& address, std::size_t bytes, const StreamName& stream);
  Result free(void* address, const StreamName& stream);
  Result write_word(const StreamName& stream, void* word, std::uint64_t value, std::size_t bytes);
  Result wait_word(const StreamName& stream, void* word, const WordWait& wait);

 private:
  /// Null if there is no such stream. Call with the lock held.
  std::shared_ptr<Stream> find(const StreamName& name);
  /// As find(), and queues the waits that the legacy default stream's order requires.
  std::shared_ptr<Stream> find_in_order(const StreamName& name);

  std::mutex mutex_;
  std::uintptr_t next_ = 0x5000;
  std::map<void*, std::shared_ptr<Stream>> streams_;
  std::map<int, std::shared_ptr<Stream>> legacy_;  ///< by device, created at first use
  std::map<std::pair<std::thread::id, int>, std::shared_ptr<Stream>> per_thread_;
  std::map<void*, std::shared_ptr<Event>> events_;
};

Streams& streams();

}  // namespace fake
