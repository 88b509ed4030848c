// A trial that tests whether the host can block a device's streams.
#include <chrono>
#include <thread>

#include "runtime/base/deadline.hpp"
#include "runtime/memory/device_provider.hpp"

namespace hmc::memory {

using base::Status;

namespace {

/// A stream with a gate, an event before the gate and an event after it.
struct Stopped {
  Stopped(const Provider& provider, int device)
      : stream(provider.make_stream(device)),
        before(provider.make_event(device)),
        behind(provider.make_event(device)) {}
  Status stop(std::unique_ptr<Gate>& gate) noexcept {
    Status status = before->record(*stream);
    if (status.ok()) status = stream->stop(gate);
    return status.ok() ? behind->record(*stream) : status;
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> before, behind;
};

Status passes(Event& event, std::chrono::milliseconds within) noexcept {
  const auto limit = base::Deadline::after(within);
  for (;;) {
    const Status status = event.query();
    if (status.code != Code::in_progress || limit.expired()) return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

std::string DeviceProvider::why_no_gates(int device) const {
  if (std::string why = vendor_->gates().why_not(); !why.empty()) return why;
  Trial& trial = gates_trials_[static_cast<std::size_t>(device)];
  std::call_once(trial.once, [&] { trial.why_not = try_gates(device); });
  return trial.why_not;
}

/// Blocks several streams and opens the last gate first. If one thread of the library serves all streams, it is blocked
/// in an earlier gate, so the last stream can't continue.
std::string DeviceProvider::try_gates(int device) const {
  using namespace std::chrono_literals;
  constexpr std::size_t streams = 4;
  try {
    std::vector<Stopped> stopped;
    std::unique_ptr<Gate> gates[streams];  // destroyed, and so opened, before the streams: their destructors wait
    for (std::size_t i = 0; i < streams; ++i) {
      stopped.emplace_back(*this, device);
      Status status = stopped[i].stop(gates[i]);
      if (status.ok()) status = passes(*stopped[i].before, 2s);
      if (!status.ok()) return status.code == Code::in_progress ? "a stream holds up another" : status.what;
      std::this_thread::sleep_for(1ms);  // this stream reaches its gate before the next stream starts
    }
    for (std::size_t i = streams; i-- > 0;) {
      if (stopped[i].behind->query().code != Code::in_progress) return "its streams don't stop for the host";
      gates[i]->open();
      const Status status = passes(*stopped[i].behind, 2s);
      if (status.code == Code::in_progress)
        return i > 0 ? "a stream that stops for the host holds up others" : "a stream that has stopped doesn't go on";
      if (!status.ok()) return status.what;
    }
    return {};
  } catch (const Error& error) {
    return error.detail().message;
  }
}

}  // namespace hmc::memory
