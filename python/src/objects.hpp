// The C++ objects behind the Python classes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <hmc/hmc.hpp>

#include "python/src/array.hpp"
#include "python/src/job.hpp"

namespace hmc::python {

/// A Python Runtime.
struct RuntimeObject {
  std::shared_ptr<Job> job;
  nb::object world;  ///< the Team of job->runtime.world(), created at its first use
};

struct TeamObject {
  TeamObject(std::shared_ptr<Job> job, hmc::Team team) : job(std::move(job)), team(std::move(team)) {}
  ~TeamObject() { job->retire(std::move(team)); }
  TeamObject(const TeamObject&) = delete;
  TeamObject& operator=(const TeamObject&) = delete;

  std::shared_ptr<Job> job;
  hmc::Team team;
};

struct WindowObject {
  WindowObject(std::shared_ptr<Job> job, hmc::Window window, const hmc::Team& team)
      : job(std::move(job)), window(std::move(window)) {
    look_at(team);
  }
  ~WindowObject() { job->retire(std::move(window)); }
  WindowObject(const WindowObject&) = delete;
  WindowObject& operator=(const WindowObject&) = delete;

  /// After creation, and after the window was bound to another team.
  void look_at(const hmc::Team& team);

  std::shared_ptr<Job> job;
  hmc::Window window;
  std::shared_ptr<std::byte> own;  ///< this rank's part, if it is existing host memory and the window is open
  int rank = 0;                    ///< of the window's team
  /// By rank: its part is in this process's memory. Cached, because every put asks.
  std::vector<bool> is_mapped;
};

/// The old value of a fetching atomic in flight: the request's result, which lives until the operation is complete.
/// wait() replaces it by an integer.
struct OldValue {
  std::variant<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t> word;
};

/// An operation in flight. Holds its team or window, and its buffers until the operation is complete, also if Python
/// drops the object.
struct RequestObject {
  RequestObject(const TeamObject& owner, hmc::Request request, std::vector<Array> arrays, nb::object result)
      : RequestObject(owner.job, std::move(request), std::move(arrays), std::move(result)) {
    team = owner.team;
  }
  RequestObject(const WindowObject& owner, hmc::Request request, std::vector<Array> arrays, nb::object result)
      : RequestObject(owner.job, std::move(request), std::move(arrays), std::move(result)) {
    window = nb::find(owner);
  }
  ~RequestObject();
  RequestObject(const RequestObject&) = delete;
  RequestObject& operator=(const RequestObject&) = delete;

  void finish() noexcept;
  /// The request is over, and each later wait and test throws the error.
  void fail(const hmc::Error& error);

  std::shared_ptr<Job> job;
  hmc::Request request;
  std::vector<Array> arrays;
  nb::object result;  ///< of wait(): the output array, the status of a receive, or an OldValue
  hmc::Team team;     ///< an operation ends with the last handle of its team
  nb::object window;
  bool is_over = false;
  bool is_waited_for = false;  ///< by a thread
  std::optional<hmc::Error> failure;

 private:
  RequestObject(std::shared_ptr<Job> job, hmc::Request request, std::vector<Array> arrays, nb::object result);
};

/// A persistent collective.
struct PlanObject {
  PlanObject(const TeamObject& owner, hmc::Plan plan, std::vector<Array> arrays, nb::object result)
      : job(owner.job), plan(std::move(plan)), arrays(std::move(arrays)), result(std::move(result)), team(owner.team) {
    for (Array& array : this->arrays) array.keep();
  }
  ~PlanObject();
  PlanObject(const PlanObject&) = delete;
  PlanObject& operator=(const PlanObject&) = delete;

  std::shared_ptr<Job> job;
  hmc::Plan plan;
  std::vector<Array> arrays;
  nb::object result;
  hmc::Team team;
  bool is_running = false;
};

// Each defines its part of the module.
void define_buffers(nb::module_& module);
void define_collectives(nb::class_<TeamObject>& team);
void define_communicator(nb::module_& module);
void define_enums(nb::module_& module);
void define_messages(nb::module_& module, nb::class_<TeamObject>& team);
void define_requests(nb::module_& module);
void define_team(nb::module_& module);
void define_vmm(nb::module_& module);
void define_window(nb::module_& module);

/// A name or an enum member. `what` is for the error text.
hmc::Op op_of(nb::handle object);
hmc::Cmp comparison_of(nb::handle object);
hmc::DType dtype_of(nb::handle object);

}  // namespace hmc::python
