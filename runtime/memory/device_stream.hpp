// DeviceStream and DeviceEvent: RAII owners of a vendor's streams and events.
#pragma once

#include <new>

#include "runtime/memory/provider.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

class DeviceEvent final : public Event {
 public:
  DeviceEvent(const Vendor& vendor, const Failures& failures, int device)
      : vendor_(vendor), failures_(failures), device_(device) {
    failures_.check(on_device(vendor_, device_, [&] { return vendor_.create_event(event_); }), "make_event");
  }
  ~DeviceEvent() override {
    (void)on_device(vendor_, device_, [&] { return vendor_.destroy_event(event_); });
  }
  base::Status record(Stream& stream) noexcept override {
    recorded_ = true;
    return done(on_device(vendor_, device_, [&] { return vendor_.record_event(event_, stream.native()); }));
  }
  // For an event that was never recorded, vendors differ: AscendCL reports it as not complete.
  base::Status synchronize() noexcept override {
    if (!recorded_) return {};
    return done(on_device(vendor_, device_, [&] { return vendor_.synchronize_event(event_); }));
  }
  base::Status query() noexcept override {
    if (!recorded_) return {};
    bool is_done = false;
    const auto status = done(on_device(vendor_, device_, [&] { return vendor_.query_event(is_done, event_); }));
    return status.ok() && !is_done ? base::Status::in_progress() : status;
  }
  void* native() const noexcept override { return event_; }

 private:
  base::Status done(const DriverResult& result) const noexcept { return failures_.to_status(result); }

  const Vendor& vendor_;
  const Failures& failures_;
  int device_;
  bool recorded_ = false;
  void* event_ = nullptr;
};

class DeviceStream final : public Stream {
 public:
  DeviceStream(const Vendor& vendor, const Failures& failures, int device)
      : vendor_(vendor), failures_(failures), device_(device), owned_(true) {
    failures_.check(on_device(vendor_, device_, [&] { return vendor_.create_stream(stream_); }), "make_stream");
  }
  DeviceStream(const Vendor& vendor, const Failures& failures, int device, void* native)
      : vendor_(vendor), failures_(failures), device_(device), owned_(false), stream_(native) {}
  ~DeviceStream() override {
    if (!owned_) return;
    // Work in flight uses memory that the caller may free after this returns.
    (void)on_device(vendor_, device_, [&] { return vendor_.synchronize_stream(stream_); });
    (void)on_device(vendor_, device_, [&] { return vendor_.destroy_stream(stream_); });
  }
  int device() const noexcept override { return device_; }
  void* native() const noexcept override { return stream_; }
  base::Status synchronize() noexcept override {
    return done(on_device(vendor_, device_, [&] { return vendor_.synchronize_stream(stream_); }));
  }
  base::Status query() noexcept override {
    bool is_done = false;
    const auto status = done(on_device(vendor_, device_, [&] { return vendor_.query_stream(is_done, stream_); }));
    return status.ok() && !is_done ? base::Status::in_progress() : status;
  }
  base::Status wait(Event& event) noexcept override {
    return done(on_device(vendor_, device_, [&] { return vendor_.stream_wait(stream_, event.native()); }));
  }
  base::Status stop(std::unique_ptr<Gate>& gate) noexcept override {
    try {
      const OnDevice here(vendor_, device_);
      return done(here.result().ok() ? vendor_.gates().stop(gate, stream_) : here.result());
    } catch (const std::bad_alloc&) {
      return base::Status::failure(Code::out_of_memory, "no memory for a stream's gate");
    }
  }

 private:
  base::Status done(const DriverResult& result) const noexcept { return failures_.to_status(result); }

  const Vendor& vendor_;
  const Failures& failures_;
  int device_;
  bool owned_;
  void* stream_ = nullptr;
};

}  // namespace hmc::memory
