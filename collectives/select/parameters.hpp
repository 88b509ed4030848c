// The model's parameters: as text, in a file of their own per machine, and where nothing was measured.
#pragma once

#include <string>
#include <string_view>

#include "collectives/schedule/cost.hpp"

namespace hmc::collectives {

/// What holds between nodes where nothing was measured: a network of today; or TCP over loopback, where nodes are
/// pretended on one machine and each message is work for its CPUs.
schedule::Parameters builtin_parameters(bool one_machine) noexcept;

/// This machine, as far as measurements depend on it. `wire`: between nodes; `one_machine`: nodes are pretended.
struct Place {
  std::string machine;
  std::string wire;
  bool one_machine = false;

  static Place here(std::string_view wire, bool one_machine);
  /// Its file in `folder`; empty where there is no folder.
  std::string file(std::string_view folder) const;
};

/// A JSON document with a version, the place, and the figures.
std::string text_of(const schedule::Parameters& parameters, const Place& place);
/// False and why, if it isn't such a document, of another version, out of reason, or of another place than `place`
/// (null: of any).
bool read_parameters(std::string_view text, const Place* place, schedule::Parameters& parameters, std::string& why_not);

/// A file's contents; false if it can't be read.
bool read_file(const std::string& path, std::string& text);
/// Whole or not at all: written beside it, then renamed. Folders are made. False if that can't be.
bool write_whole(const std::string& path, std::string_view text) noexcept;

}  // namespace hmc::collectives
