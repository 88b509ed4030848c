// RuntimeVendor: the common base of HIP and MUSA.
#pragma once

#include "runtime/memory/gates.hpp"
#include "runtime/memory/vendor.hpp"
#include "runtime/memory/vendors/runtime_api.hpp"

namespace hmc::memory {

class RuntimeVendor : public Vendor {
 public:
  const std::string& why_not() const noexcept override { return why_not_; }
  LibraryInfo library() const override { return {library_.path(), version_text()}; }
  int device_count() const noexcept override { return count_; }
  std::string device_name(int) const override { return {}; }
  std::size_t device_bytes(int) const override { return 0; }
  std::string code_name(long code) const override;
  bool means_out_of_memory(long code) const noexcept override { return code == runtime_api::error_out_of_memory; }

  DriverResult enter(int device, void*& previous) const noexcept override;
  void leave(void* previous) const noexcept override;
  int current_device() const noexcept override {
    int device = 0;
    return api_.get_device(&device).ok() ? device : 0;
  }
  bool has(Backing backing) const noexcept override;
  DriverResult allocate(void*& address, std::size_t bytes, Backing backing, void* stream) const noexcept override;
  DriverResult free(void* address, Backing backing, void* stream) const noexcept override;
  DriverResult pin(void* address, std::size_t bytes) const noexcept override;
  DriverResult unpin(void* address) const noexcept override { return api_.unpin(address); }
  DriverResult copy(const Transfer& transfer, void* stream) const noexcept override;
  DriverResult copy_2d(const Transfer& transfer, void* stream) const noexcept override;
  DriverResult fill(void* destination, unsigned char value, std::size_t bytes, void* stream) const noexcept override;

  DriverResult create_stream(void*& stream) const noexcept override;
  DriverResult destroy_stream(void* stream) const noexcept override { return api_.destroy_stream(stream); }
  DriverResult synchronize_stream(void* stream) const noexcept override { return api_.synchronize_stream(stream); }
  DriverResult query_stream(bool& done, void* stream) const noexcept override;
  DriverResult create_event(void*& event) const noexcept override;
  DriverResult destroy_event(void* event) const noexcept override { return api_.destroy_event(event); }
  DriverResult record_event(void* event, void* stream) const noexcept override {
    return api_.record_event(event, stream);
  }
  DriverResult synchronize_event(void* event) const noexcept override { return api_.synchronize_event(event); }
  DriverResult query_event(bool& done, void* event) const noexcept override;
  DriverResult stream_wait(void* stream, void* event) const noexcept override {
    return api_.stream_wait(stream, event, 0);
  }
  PointerInfo query(const void* address) const noexcept override;
  const GateCalls& gates() const noexcept override { return gates_; }

 protected:
  RuntimeVendor(const LibraryNames& library, const runtime_api::Names& names);
  int version() const noexcept;
  virtual std::string version_text() const = 0;
  /// The meaning of PointerAttributes::type in this version of the library.
  virtual PointerKind kind_of(const runtime_api::PointerAttributes& attributes) const noexcept = 0;

  Library library_;
  runtime_api::Api api_;
  FunctionGates gates_{api_.launch_host};
  std::string why_not_;
  int count_ = 0;
};

}  // namespace hmc::memory
