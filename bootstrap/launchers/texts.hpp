// The texts that launchers carry: rank 0's record, and the lines of a PMI-1 process manager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hmc::bootstrap {

/// "hmc1;secret;job;machine;network;port;address;address". `machine` and `network` as in RankFacts.
struct Record {
  static constexpr std::size_t longest = 1000;  ///< PMI-1: values of 1,024 characters

  std::string secret;
  std::uint64_t job = 0;  ///< random: jobs with the same HMC_SECRET have different keys
  std::uint64_t machine = 0;
  std::uint64_t network = 0;
  std::string port;
  std::vector<std::string> addresses;  ///< IPv6 in brackets; not loopback

  /// Addresses that don't fit are left out.
  std::string text() const;
  /// nullopt if it isn't valid.
  static std::optional<Record> parse(std::string_view text);
};

/// The value of a key in a line "cmd=name key=value ..."; empty if the key is missing.
std::string_view pmi1_value(std::string_view line, std::string_view key) noexcept;

}  // namespace hmc::bootstrap
