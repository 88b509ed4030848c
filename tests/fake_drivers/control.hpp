// Control: the test's access to a fake driver: counters of live handles, injected failures, delays.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

/// The kinds of handles that are counted.
enum class Live { memory, physical, reservation, mapping, stream, event, import, host, context, module };
inline constexpr int live_kinds = 10;
const char* name_of(Live kind) noexcept;

class Control {
 public:
  /// Reads FAKE_FAIL, FAKE_DELAY_US, FAKE_DEVICES, FAKE_DEVICE_BYTES, FAKE_HIP_VERSION, FAKE_FABRIC,
  /// FAKE_PEERS, FAKE_ONE_FUNCTION, FAKE_DUMP.
  Control();

  void gained(Live kind) noexcept { counts_[static_cast<int>(kind)].fetch_add(1); }
  void lost(Live kind) noexcept { counts_[static_cast<int>(kind)].fetch_sub(1); }
  long live(Live kind) const noexcept { return counts_[static_cast<int>(kind)].load(); }

  /// "cuMemMap:2,cuMemCreate:1:2": fails the second call of cuMemMap from now, and the first of cuMemCreate with
  /// code 2.
  void arm(const std::string& spec);
  /// Counts the call. Returns the code with which it must fail, or 0.
  long enter(const char* call, long usual_code);
  /// "cuInit:1,cuMemCreate:3,...": the calls since the last arm().
  std::string seen() const;

  std::atomic<int> delay_us{0};
  std::atomic<int> hip_version{70'100'000};
  std::atomic<int> fabric{0};  ///< 1: libcuda's memory has fabric handles; 2: it reports them and refuses
  std::atomic<int> peers{1};   ///< 0: a device can't access another's physical memory
  std::atomic<int> one_function_at_a_time{0};  ///< 1: host functions of all streams run one at a time
  int devices = 2;
  std::size_t device_bytes = std::size_t{4} << 30;
  /// Appends a line to FAKE_DUMP's file at exit: the process and its live handles.
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
