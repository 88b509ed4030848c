// The public Registration.
#include <hmc/registration.hpp>

#include <utility>
#include <vector>

#include <hmc/error.hpp>
#include <hmc/team.hpp>

#include "runtime/rma/fabric.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc {

namespace rma {

/// Keeps the Fabric, so it may outlive the Runtime.
class LocalRegistration {
 public:
  LocalRegistration(std::shared_ptr<Fabric> fabric, std::byte* address, std::size_t bytes)
      : fabric_(std::move(fabric)), address_(address), bytes_(bytes) {
    wires_.reserve(fabric_->wires.size());
    const progress::Background::Waiting exclusive(fabric_->background);
    try {
      for (const auto& wire : fabric_->wires)
        if (wire->register_local(address_, bytes_)) wires_.push_back(wire.get());
    } catch (...) {
      for (transport::Wire* const wire : wires_) wire->deregister_local(address_, bytes_);
      throw;
    }
  }
  ~LocalRegistration() {
    if (fabric_->is_forked() || wires_.empty()) return;
    const progress::Background::Waiting exclusive(fabric_->background);
    for (transport::Wire* const wire : wires_) wire->deregister_local(address_, bytes_);
  }
  LocalRegistration(const LocalRegistration&) = delete;
  LocalRegistration& operator=(const LocalRegistration&) = delete;

  bool is_used() const noexcept { return !wires_.empty(); }

 private:
  std::shared_ptr<Fabric> fabric_;
  std::byte* address_;
  std::size_t bytes_;
  std::vector<transport::Wire*> wires_;
};

}  // namespace rma

Registration Registration::create(Team& team, void* address, std::size_t bytes) {
  constexpr const char* name = "Registration::create";
  rma::TeamCore* const core = team.core();
  if (core == nullptr) throw Error(Code::closed, name, "the team is empty: this rank isn't a member");
  if (core->fabric().closed()) rma::throw_closed_runtime(core->fabric(), name);
  if (address == nullptr && bytes > 0) throw Error(Code::invalid_argument, name, "the pointer is null");
  Registration registration;
  if (bytes > 0)
    registration.core_ =
        std::make_unique<rma::LocalRegistration>(core->shared_fabric(), static_cast<std::byte*>(address), bytes);
  return registration;
}

Registration::Registration() noexcept = default;
Registration::Registration(Registration&&) noexcept = default;
Registration& Registration::operator=(Registration&& other) noexcept {
  core_ = std::move(other.core_);
  return *this;
}
Registration::~Registration() = default;
void Registration::release() noexcept { core_.reset(); }
bool Registration::is_used() const noexcept { return core_ != nullptr && core_->is_used(); }

}  // namespace hmc
