// Whether a device's streams can be stopped by the host.
#include <chrono>
#include <thread>

#include "runtime/base/deadline.hpp"
#include "runtime/memory/device_provider.hpp"

namespace hmc::memory {

using base::Status;

namespace {

/// A stream that was stopped, and a point behind its gate.
struct Stopped {
  Stopped(const Provider& provider, int device)
      : stream(provider.make_stream(device)), behind(provider.make_event(device)) {}
  Status stop(std::unique_ptr<Gate>& gate) noexcept {
    const Status status = stream->stop(gate);
    return status.ok() ? behind->record(*stream) : status;
  }
  Status goes_on(std::chrono::milliseconds within) noexcept {
    const auto limit = base::Deadline::after(within);
    for (;;) {
      const Status status = behind->query();
      if (status.code != Code::in_progress || limit.expired()) return status;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> behind;
};

}  // namespace

std::string DeviceProvider::why_no_gates(int device) const {
  if (std::string why = vendor_->gates().why_not(); !why.empty()) return why;
  std::call_once(gates_trial_.once, [&] { gates_trial_.why_not = try_gates(device); });
  return gates_trial_.why_not;
}

/// Two streams stop, and the second is let go on: where one thread of the library's waits for both, it can't.
std::string DeviceProvider::try_gates(int device) const {
  using namespace std::chrono_literals;
  try {
    Stopped first(*this, device), second(*this, device);
    std::unique_ptr<Gate> gates[2];  // go, and open, before the streams do, which are waited for
    Status status = first.stop(gates[0]);
    if (!status.ok()) return status.what;
    std::this_thread::sleep_for(1ms);  // for it to come to its gate first
    status = second.stop(gates[1]);
    if (!status.ok()) return status.what;
    gates[1]->open();
    status = second.goes_on(2s);
    if (status.code == Code::in_progress) return "a stream that stops for the host holds up others";
    if (status.ok() && first.behind->query().code != Code::in_progress) return "its streams don't stop for the host";
    gates[0]->open();
    if (status.ok()) status = first.goes_on(2s);
    if (status.code == Code::in_progress) return "a stream that has stopped doesn't go on";
    return status.ok() ? "" : status.what;
  } catch (const Error& error) {
    return error.detail().message;
  }
}

}  // namespace hmc::memory
