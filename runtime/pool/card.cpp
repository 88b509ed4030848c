#include "runtime/pool/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include <hmc/error.hpp>

namespace hmc {

const char* name_of(PoolPart part) noexcept { return part == PoolPart::host ? "host" : "device"; }

const char* name_of(PoolWay way) noexcept {
  switch (way) {
    case PoolWay::none: return "none";
    case PoolWay::own: return "own";
    case PoolWay::load_store: return "shm";
    case PoolWay::process_copy: return "process";
    case PoolWay::mapped: return "device";
    case PoolWay::verbs: return "verbs";
    case PoolWay::ucx: return "ucx";
    case PoolWay::tcp: return "tcp";
    case PoolWay::staged: return "staged";
  }
  return "unknown";
}

const char* name_of(PoolDirection direction) noexcept {
  switch (direction) {
    case PoolDirection::automatic: return "automatic";
    case PoolDirection::host_to_global_host: return "host_to_global_host";
    case PoolDirection::host_to_global_device: return "host_to_global_device";
    case PoolDirection::device_to_global_host: return "device_to_global_host";
    case PoolDirection::device_to_global_device: return "device_to_global_device";
    case PoolDirection::global_host_to_host: return "global_host_to_host";
    case PoolDirection::global_host_to_device: return "global_host_to_device";
    case PoolDirection::global_device_to_host: return "global_device_to_host";
    case PoolDirection::global_device_to_device: return "global_device_to_device";
    case PoolDirection::global_host_to_global_host: return "global_host_to_global_host";
    case PoolDirection::global_host_to_global_device: return "global_host_to_global_device";
    case PoolDirection::global_device_to_global_host: return "global_device_to_global_host";
    case PoolDirection::global_device_to_global_device: return "global_device_to_global_device";
    case PoolDirection::global_to_global: return "global_to_global";
  }
  return "unknown";
}

namespace pool {

namespace {

constexpr std::uint64_t grain = std::uint64_t{2} << 20;

[[noreturn]] void refuse(std::string text) { throw Error(Code::invalid_argument, "Pool::create", std::move(text)); }

bool is_tag(std::string_view tag) noexcept {
  return tag.size() <= 30 &&
         std::all_of(tag.begin(), tag.end(), [](unsigned char each) { return std::isalnum(each) != 0 || each == '_'; });
}

std::size_t stride_of(const char* kind, std::size_t stride, std::size_t bytes) {
  if (stride == 0) stride = bytes;
  if (bytes > stride) refuse(fmt::format("the {} part of {} bytes exceeds the stride {}", kind, bytes, stride));
  if (stride > std::size_t{1} << 46) refuse(fmt::format("a {} stride of {} bytes", kind, stride));
  return (stride + grain - 1) / grain * grain;
}

}  // namespace

std::string Card::join_name() const { return fmt::format("{}:{}", local_name, join); }

Card Card::decode(base::ByteView bytes) {
  auto card = base::decode<Card>(bytes);
  if (!card) throw Error(Code::refused, "Pool::join", "a member's card can't be read");
  return *std::move(card);
}

PoolOptions checked(PoolOptions options) {
  if (options.name.empty() || options.name.size() > 256) refuse("a pool's name has 1 to 256 characters");
  if (options.most_members < 1 || options.most_members > store_most_members)
    refuse(fmt::format("{} members: 1 to {} are allowed", options.most_members, store_most_members));
  if (options.rank >= options.most_members) refuse(fmt::format("rank {} of {}", options.rank, options.most_members));
  if (!is_tag(options.tag)) refuse(fmt::format("'{}' isn't a tag", options.tag));
  (void)Rules(options.rules);
  if (options.host_fd >= 0 && options.host_bytes == 0) refuse("host_fd needs host_bytes");
  options.host_stride = stride_of("host", options.host_stride, options.host_bytes);
  options.device_stride = stride_of("device", options.device_stride, options.device_bytes);
  if (options.host_stride + options.device_stride == 0) refuse("a pool without parts: set a stride");
  return options;
}

base::Bytes settings_of(const PoolOptions& options) {
  base::ByteWriter out;
  out.number(static_cast<std::int32_t>(options.most_members)).number(std::uint64_t{options.host_stride});
  return out.number(std::uint64_t{options.device_stride}).text(options.rules).take();
}

Rules::Rules(std::string_view text) {
  while (!text.empty()) {
    const std::string_view rule = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), rule.size() + 1));
    const std::size_t first = rule.find(':'), second = rule.rfind(':');
    const auto bad = [&](const char* why) { refuse(fmt::format("rule '{}': {}", rule, why)); };
    if (first == std::string_view::npos || first == second) bad("it isn't tagA:way:tagB");
    Rule made{std::string(rule.substr(0, first)), std::string(rule.substr(second + 1)), PoolWay::none};
    for (const std::string& tag : {made.a, made.b})
      if (tag.empty() || (tag != "*" && !is_tag(tag))) bad("a tag is 1 to 30 letters, digits and `_`, or `*`");
    const std::string_view way = rule.substr(first + 1, second - first - 1);
    for (const PoolWay each : {PoolWay::load_store, PoolWay::process_copy, PoolWay::mapped, PoolWay::verbs,
                               PoolWay::ucx, PoolWay::tcp, PoolWay::staged})
      if (way == name_of(each)) made.way = each;
    if (made.way == PoolWay::none) bad("the ways are shm, process, device, verbs, ucx, tcp and staged");
    rules_.push_back(std::move(made));
  }
}

std::optional<PoolWay> Rules::way_between(const std::string& a, const std::string& b) const {
  const auto matches = [](const std::string& rule, const std::string& tag) { return rule == "*" || rule == tag; };
  for (const Rule& each : rules_)
    if ((matches(each.a, a) && matches(each.b, b)) || (matches(each.a, b) && matches(each.b, a))) return each.way;
  return std::nullopt;
}

bool Rules::names(PoolWay way) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& each) { return each.way == way; });
}

}  // namespace pool
}  // namespace hmc
