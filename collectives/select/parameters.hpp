// The parameters of the cost model: their text form, their file per machine, and the built-in values.
#pragma once

#include <string>
#include <string_view>

#include "collectives/schedule/cost.hpp"

namespace hmc::collectives {

/// Values for use without measurements: a current network; or, if all nodes are emulated on one machine, TCP over
/// loopback, where each message costs CPU time.
schedule::CostParameters builtin_parameters(bool one_machine) noexcept;

/// The properties of the machine that determine the measurements. `wire`: the wire between nodes. `one_machine`: all
/// nodes are emulated on this machine.
struct MachineKey {
  std::string machine;
  std::string wire;
  bool one_machine = false;

  static MachineKey here(std::string_view wire, bool one_machine);
  /// The path of its file in `folder`; empty if `folder` is.
  std::string file(std::string_view folder) const;
};

/// A JSON document with a version, the key and the measurements.
std::string text_of(const schedule::CostParameters& parameters, const MachineKey& key);
/// Parses that document. False, with the reason in `why_not`, if the text
///  - isn't such a document, or has another version;
///  - has a value out of range;
///  - has a key other than `key` (null: any key is valid).
bool read_parameters(std::string_view text, const MachineKey* key, schedule::CostParameters& parameters,
                     std::string& why_not);

/// Reads a whole file; false if it can't be read, or is longer than 16 MiB, as a device is.
bool read_file(const std::string& path, std::string& text);
/// Writes the file atomically: a temporary file in the same folder, then rename. Creates folders. False on failure.
bool write_whole(const std::string& path, std::string_view text) noexcept;

}  // namespace hmc::collectives
