// Streams of a fake device: one thread each, first in, first out, every piece of work late by
// FAKE_DELAY_US, so that who forgets to wait sees what was there before.
#pragma once

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

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();  ///< after all that was put in
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  int device() const noexcept { return device_; }
  void put(std::function<void()> work);
  void put_mark(std::function<void()> mark);  ///< of an event; it waits for nothing
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
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;
};

class Event {
 public:
  virtual ~Event() = default;
  virtual std::uint64_t recorded();
  virtual std::uint64_t record();
  virtual void pass(std::uint64_t number);
  virtual void wait(std::uint64_t number);
  virtual bool passed(std::uint64_t number);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t passed_ = 0;
};

/// Handles by number: a stale one is refused, never followed.
class Streams {
 public:
  Result create_stream(void*& stream, int device);
  Result destroy_stream(void* stream);
  Result synchronize_stream(void* stream);
  Result query_stream(void* stream);
  Result create_event(void*& event);
  void* add_event(std::shared_ptr<Event> event);
  Result destroy_event(void* event);
  Result record_event(void* event, void* stream);
  Result synchronize_event(void* event);
  Result query_event(void* event);
  Result stream_wait(void* stream, void* event);
  std::shared_ptr<Event> event_of(void* handle);

  /// Sides are checked now, bytes move later.
  Result copy(void* to, Side to_side, const void* from, Side from_side, std::size_t bytes, void* stream);
  Result copy_2d(void* to, Side to_side, std::size_t to_pitch, const void* from, Side from_side, std::size_t from_pitch,
                 std::size_t width, std::size_t height, void* stream);
  Result fill(void* to, unsigned char value, std::size_t bytes, void* stream);
  /// Anything, late by the delay.
  Result run(std::function<void()> work, void* stream);
  /// A function of the host's; of all streams one at a time, where the driver is to be such a one.
  Result call_host(void* stream, void (*function)(void*), void* data);
  /// Words of host memory.
  Result write_word(void* stream, void* word, unsigned value);
  Result wait_word(void* stream, void* word, unsigned value);

 private:
  std::shared_ptr<Stream> stream_of(void* handle);

  std::mutex mutex_;
  std::uintptr_t next_ = 0x5000;
  std::map<void*, std::shared_ptr<Stream>> streams_;
  std::map<void*, std::shared_ptr<Event>> events_;
};

Streams& streams();

}  // namespace fake
