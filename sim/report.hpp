// The output of hmc-sim: surveys as text, JSON and SVG.
#pragma once

#include <string>
#include <vector>

#include "sim/survey.hpp"

namespace hmc::sim {

std::string text_of(const Survey& survey);
std::string as_json(const std::vector<Survey>& surveys, const Model& model, const std::string& origin);
/// Predicted time over bytes, or over ranks if only those differ. Both axes are logarithmic.
std::string as_svg(const std::vector<Survey>& surveys);

std::string format_bytes(std::uint64_t bytes);  ///< "1M"
std::string format_time(Time time);             ///< "12.3 us"

}  // namespace hmc::sim
