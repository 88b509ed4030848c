// What a test sees and steers of a fake driver: live handles, failures on demand, delays.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

/// The kinds of handle that are counted.
enum class Live { memory, physical, reservation, mapping, stream, event, import, host, context, module };
inline constexpr int live_kinds = 10;
const char* name_of(Live kind) noexcept;

class Control {
 public:
  /// FAKE_FAIL, FAKE_DELAY_US, FAKE_DEVICES, FAKE_DEVICE_BYTES, FAKE_HIP_VERSION, FAKE_FABRIC, FAKE_ONE_FUNCTION,
  /// FAKE_DUMP.
  Control();

  void gained(Live kind) noexcept { counts_[static_cast<int>(kind)].fetch_add(1); }
  void lost(Live kind) noexcept { counts_[static_cast<int>(kind)].fetch_sub(1); }
  long live(Live kind) const noexcept { return counts_[static_cast<int>(kind)].load(); }

  /// "cuMemMap:2,cuMemCreate:1:2": the 2nd call from now of one, the 1st of another with code 2.
  void arm(const std::string& spec);
  /// Notes the call; the code with which it must fail, or 0.
  long enter(const char* call, long usual_code);
  /// "cuInit:1,cuMemCreate:3,...": the calls since the last arm().
  std::string seen() const;

  std::atomic<int> delay_us{0};
  std::atomic<int> hip_version{70'100'000};
  std::atomic<int> fabric{0};  ///< 1: cuda's memory has handles for a fabric; 2: it says so, and isn't let
  std::atomic<int> one_function_at_a_time{0};  ///< of the host's, that streams call
  int devices = 2;
  std::size_t device_bytes = std::size_t{4} << 30;
  /// One line on FAKE_DUMP's file at exit: the process and what is still alive.
  void dump(const char* library) const;

 private:
  struct Failure {
    std::string call;
    long nth;
    long code;
  };
  std::atomic<long> counts_[live_kinds]{};
  mutable std::mutex mutex_;
  std::vector<Failure> failures_;
  std::map<std::string, long> calls_;
  std::vector<std::string> order_;
  std::string dump_file_;
};

Control& control();

}  // namespace fake
