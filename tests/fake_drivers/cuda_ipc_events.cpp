// libcuda's inter-process events: two counters in a page that both processes map.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/fake_drivers/call.hpp"
#include "tests/fake_drivers/cuda_ipc_events.hpp"

namespace fake {

namespace {

struct Counters {
  std::atomic<std::uint64_t> recorded, passed;
};
constexpr std::size_t page = 4096;
constexpr std::uint64_t event_magic = 0x46414b4545564e54;

struct EventHandle {
  std::uint64_t magic, pid, fd;
};

class SharedEvent final : public Event {
 public:
  SharedEvent(int fd, const EventTraits& traits)
      : Event(traits),
        fd_(fd),
        counters_(static_cast<Counters*>(::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))) {}
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;
  ~SharedEvent() override {
    ::munmap(counters_, page);
    ::close(fd_);
  }
  int fd() const noexcept { return fd_; }
  std::uint64_t recorded() override { return counters_->recorded; }
  std::uint64_t record() override { return ++counters_->recorded; }
  void pass(std::uint64_t number) override { counters_->passed = number; }
  void wait(std::uint64_t number) override {
    while (!passed(number)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  bool passed(std::uint64_t number) override { return counters_->passed >= number; }

 private:
  int fd_;
  Counters* counters_;
};

Result add(void*& event, int fd, const EventTraits& traits) {
  if (fd < 0) return Result::out_of_memory;
  event = streams().add_event(std::make_shared<SharedEvent>(fd, traits));
  return Result::ok;
}

}  // namespace

Result create_shared_event(void*& event, const EventTraits& traits) {
  const int fd = ::memfd_create("fake-event", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, page) == 0) return add(event, fd, traits);
  if (fd >= 0) ::close(fd);
  return Result::out_of_memory;
}

Result get_event_handle(void* handle, void* event) {
  const auto shared = std::dynamic_pointer_cast<SharedEvent>(streams().event_of(event));
  if (shared == nullptr) return Result::invalid_handle;
  const EventHandle made{event_magic, static_cast<std::uint64_t>(::getpid()), static_cast<std::uint64_t>(shared->fd())};
  std::memcpy(handle, &made, sizeof made);
  return Result::ok;
}

Result open_event_handle(void*& event, const void* handle, int device) {
  EventHandle given;
  std::memcpy(&given, handle, sizeof given);
  if (given.magic != event_magic) return Result::invalid_value;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lu/fd/%lu", static_cast<unsigned long>(given.pid),
                static_cast<unsigned long>(given.fd));
  return add(event, ::open(path, O_RDWR | O_CLOEXEC), {.device = device, .times = false});
}

}  // namespace fake
