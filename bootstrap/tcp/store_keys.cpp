#include "bootstrap/tcp/store_keys.hpp"

#include <fmt/format.h>

namespace hmc::bootstrap {

namespace {

constexpr std::size_t most_bytes = 256U << 20;  // of all keys and values

Reply refuse(const Publish& message, std::string why) {
  const base::ByteView text = base::as_bytes(why);
  return {message.id, message.rank, Code::invalid_argument, {text.begin(), text.end()}};
}

}  // namespace

std::vector<Reply> StoreKeys::publish(const Publish& message) {
  const std::size_t bytes = message.key.size() + message.value.size();
  if (message.key.size() > longest_key_bytes || message.value.size() > longest_value_bytes ||
      bytes > most_bytes - bytes_) {
    return {refuse(message, fmt::format("{} bytes exceed the store's limit", bytes))};
  }
  if (!values_.try_emplace(message.key, message.value).second) {
    return {refuse(message, fmt::format("the key '{}' is published already", message.key))};
  }
  bytes_ += bytes;
  std::vector<Reply> replies{{message.id, message.rank, Code::success, {}}};
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto each = next++;
    if (each->second.key != message.key) continue;
    replies.push_back({each->second.id, each->first, Code::success, message.value});
    waiting_.erase(each);
  }
  return replies;
}

std::vector<Reply> StoreKeys::lookup(const Lookup& message) {
  const auto found = values_.find(message.key);
  if (found != values_.end()) return {{message.id, message.rank, Code::success, found->second}};
  waiting_[message.rank] = {message.id, message.key};
  return {};
}

}  // namespace hmc::bootstrap
