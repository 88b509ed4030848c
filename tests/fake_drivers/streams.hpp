// Streams of a fake device: one thread each, first in, first out. Every piece of work is late by FAKE_DELAY_US, so that
// a caller that forgets to wait sees the bytes from before.
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

#include "tests/fake_drivers/memory.hpp"

namespace fake {

/// A stream as a call names it: its handle, and the device that is current for the call. Null and `legacy_handle` are
/// that device's legacy default stream: its work runs after all that the device's blocking streams hold, and what these
/// get later runs after it. Non-blocking streams have no part in that.
struct StreamName {
  void* handle = nullptr;
  int device = 0;
};
inline void* const legacy_handle = reinterpret_cast<void*>(1);

class Stream {
 public:
  Stream(int device, bool blocking);
  ~Stream();  ///< after all that was put in
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  int device() const noexcept { return device_; }
  bool blocking() const noexcept { return blocking_; }
  void put(std::function<void()> work) { append({std::move(work), false}); }
  void put_mark(std::function<void()> mark) { append({std::move(mark), true}); }  ///< of an event; it waits for nothing
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

/// As the call that makes an event wants it.
struct EventTraits {
  int device = 0;
  bool times = true;     ///< elapsed() takes it
  bool waitable = true;  ///< streams wait for it
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

/// What a stream waits for: a word and a value, compared as CUDA's and HIP's wait-value calls have it.
struct WordWait {
  enum class Until { at_least, equal, any_bit, not_all_bits };
  std::size_t bytes = 4;  ///< of the word
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  Until until = Until::at_least;
  bool is_over(std::uint64_t word) const noexcept;
};

/// Handles by number: one that is unknown or stale is refused, never followed.
class Streams {
 public:
  Result create_stream(void*& stream, int device, bool blocking);
  Result destroy_stream(const StreamName& stream);
  Result synchronize_stream(const StreamName& stream);
  Result query_stream(const StreamName& stream);
  Result create_event(void*& event, const EventTraits& traits);
  void* add_event(std::shared_ptr<Event> event);
  Result destroy_event(void* event);
  /// The event and the stream are of one device.
  Result record_event(void* event, const StreamName& stream);
  Result synchronize_event(void* event);
  Result query_event(void* event);
  Result elapsed(float& milliseconds, void* from, void* to);
  Result stream_wait(const StreamName& stream, void* event);
  std::shared_ptr<Event> event_of(void* handle);
  /// Whether the stream is there, and of the current device.
  Result check_here(const StreamName& stream);

  /// Sides are checked now, bytes move later.
  Result copy(void* to, Side to_side, const void* from, Side from_side, std::size_t bytes, const StreamName& stream);
  Result copy_2d(void* to, Side to_side, std::size_t to_pitch, const void* from, Side from_side, std::size_t from_pitch,
                 std::size_t width, std::size_t height, const StreamName& stream);
  Result fill(void* to, unsigned char value, std::size_t bytes, const StreamName& stream);
  /// Anything, late by the delay.
  Result run(std::function<void()> work, const StreamName& stream);
  /// A function of the host's; of all streams one at a time, where the driver is to be such a one.
  Result call_host(const StreamName& stream, void (*function)(void*), void* data);
  /// Memory that is there from the stream's coming past on, and until then.
  Result allocate(void*& address, std::size_t bytes, const StreamName& stream);
  Result free(void* address, const StreamName& stream);
  Result write_word(const StreamName& stream, void* word, std::uint64_t value, std::size_t bytes);
  Result wait_word(const StreamName& stream, void* word, const WordWait& wait);

 private:
  /// Null if there is no such stream. Under the lock.
  std::shared_ptr<Stream> find(const StreamName& name);
  /// The same, and what the legacy default stream's order asks for is put in.
  std::shared_ptr<Stream> find_in_order(const StreamName& name);

  std::mutex mutex_;
  std::uintptr_t next_ = 0x5000;
  std::map<void*, std::shared_ptr<Stream>> streams_;
  std::map<int, std::shared_ptr<Stream>> legacy_;  ///< by device, from their first use on
  std::map<void*, std::shared_ptr<Event>> events_;
};

Streams& streams();

}  // namespace fake
