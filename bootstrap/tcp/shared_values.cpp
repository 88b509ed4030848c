#include "bootstrap/tcp/shared_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace hmc::bootstrap {

bool SharedValues::handle(StoreOwner from, const StoreCall& call) {
  if (call.op == StoreOp::unwatch) {
    unwatch(from, call);
    return true;
  }
  if (call.op < StoreOp::get || call.op > StoreOp::watch) return false;
  const bool is_count = call.op == StoreOp::count;  // an empty prefix is allowed
  if (call.key.size() > store_longest_key || (call.key.empty() && !is_count)) {
    sink_.fail(from, call.id, Code::invalid_argument,
               fmt::format("a key has 1 to {} bytes, this one {}", store_longest_key, call.key.size()));
    return true;
  }
  switch (call.op) {
    case StoreOp::get: get(from, call); break;
    case StoreOp::set: put(from, call, call.value); break;
    case StoreOp::add: add(from, call); break;
    case StoreOp::swap: swap(from, call); break;
    case StoreOp::append:
    case StoreOp::write: write(from, call); break;
    case StoreOp::watch: watch(from, call); break;
    case StoreOp::remove: {
      const auto found = values_.find(call.key);
      const bool existed = found != values_.end();
      if (existed) {
        bytes_ -= found->first.size() + found->second.size();
        values_.erase(found);
      }
      sink_.ok(from, call.id, existed ? 1 : 0);
      break;
    }
    default: {
      const auto first = values_.lower_bound(call.key);
      const auto last =
          std::find_if(first, values_.end(), [&](const auto& each) { return !each.first.starts_with(call.key); });
      sink_.ok(from, call.id, std::distance(first, last));
    }
  }
  return true;
}

void SharedValues::get(StoreOwner from, const StoreCall& call) {
  if (const auto found = values_.find(call.key); found != values_.end())
    return sink_.ok(from, call.id, 0, found->second, true);
  if (!call.flag) return sink_.fail(from, call.id, Code::not_found, "the key doesn't exist");
  waiting_[call.key].push_back({from, call.id, false});
  keys_of_calls_[{from, call.id}] = call.key;
}

void SharedValues::watch(StoreOwner from, const StoreCall& call) {
  const auto number = static_cast<std::uint64_t>(call.number);
  sink_.ok(from, call.id);
  if (const auto found = values_.find(call.key); found != values_.end())
    return sink_.event(from, {number, StoreEvent::Kind::value, 0, true, 0, found->second});
  waiting_[call.key].push_back({from, number, true});
  keys_of_watches_[{from, number}] = call.key;
}

void SharedValues::unwatch(StoreOwner from, const StoreCall& call) {
  const auto number = static_cast<std::uint64_t>(call.number);
  const auto found = keys_of_watches_.find({from, number});
  const bool waited = found != keys_of_watches_.end();
  if (waited) {
    take(found->second, from, number, true);
    keys_of_watches_.erase(found);
  }
  sink_.ok(from, call.id, waited ? 1 : 0);
}

bool SharedValues::cancel(StoreOwner owner, std::uint64_t id) {
  const auto found = keys_of_calls_.find({owner, id});
  if (found == keys_of_calls_.end()) return false;
  take(found->second, owner, id, false);
  keys_of_calls_.erase(found);
  sink_.fail(owner, id, Code::timeout, "no process has set the key in time");
  return true;
}

bool SharedValues::take(const std::string& key, StoreOwner owner, std::uint64_t id, bool is_watch) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return false;
  const auto erased = std::erase_if(found->second, [&](const Waiting& each) {
    return each.owner == owner && each.id == id && each.is_watch == is_watch;
  });
  if (found->second.empty()) waiting_.erase(found);
  return erased > 0;
}

void SharedValues::forget(StoreOwner owner) {
  for (auto* const keys : {&keys_of_calls_, &keys_of_watches_}) {
    auto each = keys->lower_bound({owner, 0});
    while (each != keys->end() && each->first.first == owner) {
      take(each->second, owner, each->first.second, keys == &keys_of_watches_);
      each = keys->erase(each);
    }
  }
}

void SharedValues::add(StoreOwner from, const StoreCall& call) {
  const auto not_a_number = [&] {
    sink_.fail(from, call.id, Code::invalid_argument,
               "the value isn't a decimal number of 64 bits, or the sum overflows");
  };
  std::int64_t sum = 0;
  if (const auto found = values_.find(call.key); found != values_.end()) {
    const std::string_view text = base::as_text(found->second);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) return not_a_number();
  }
  if (__builtin_add_overflow(sum, call.number, &sum)) return not_a_number();
  const std::string text = std::to_string(sum);
  const base::ByteView bytes = base::as_bytes(text);
  put(from, call, {bytes.begin(), bytes.end()}, sum);
}

void SharedValues::swap(StoreOwner from, const StoreCall& call) {
  const auto found = values_.find(call.key);
  const bool exists = found != values_.end();
  base::Bytes before = exists ? found->second : base::Bytes();
  if (exists == call.flag && (!exists || before == call.expected))
    return put(from, call, call.value, 1, exists, std::move(before));
  sink_.ok(from, call.id, 0, std::move(before), exists);
}

/// append and write.
void SharedValues::write(StoreOwner from, const StoreCall& call) {
  const auto found = values_.find(call.key);
  const bool exists = found != values_.end();
  const std::size_t before = exists ? found->second.size() : 0;
  const std::size_t offset = call.op == StoreOp::append ? before : static_cast<std::size_t>(call.number);
  if (offset > limits_.value_bytes || call.value.size() > limits_.value_bytes - offset)
    return sink_.fail(from, call.id, Code::invalid_argument,
                      fmt::format("a value has at most {} bytes", limits_.value_bytes));
  const std::size_t length = std::max(before, offset + call.value.size());
  const std::size_t added = length - before + (exists ? 0 : call.key.size());
  if (!fits(from, call, added, !exists)) return;
  base::Bytes& value = exists ? found->second : values_[call.key];
  value.resize(length);
  std::copy(call.value.begin(), call.value.end(), value.begin() + static_cast<std::ptrdiff_t>(offset));
  bytes_ += added;
  sink_.ok(from, call.id, static_cast<std::int64_t>(length));
  if (call.op == StoreOp::append) wake(call.key);
}

/// `added`: bytes of keys and values.
bool SharedValues::fits(StoreOwner from, const StoreCall& call, std::size_t added, bool is_new) {
  if (bytes_ + added <= limits_.bytes && (!is_new || values_.size() < most_keys)) return true;
  sink_.fail(from, call.id, Code::out_of_memory, "the store is full");
  return false;
}

void SharedValues::put(StoreOwner from, const StoreCall& call, base::Bytes value, std::int64_t number, bool flag,
                       base::Bytes before) {
  if (value.size() > limits_.value_bytes)
    return sink_.fail(from, call.id, Code::invalid_argument,
                      fmt::format("a value has at most {} bytes, this one {}", limits_.value_bytes, value.size()));
  const auto found = values_.find(call.key);
  const bool is_new = found == values_.end();
  const std::size_t before_bytes = is_new ? 0 : found->second.size();
  const std::size_t after_bytes = value.size() + (is_new ? call.key.size() : 0);
  if (after_bytes > before_bytes && !fits(from, call, after_bytes - before_bytes, is_new)) return;
  bytes_ = bytes_ - before_bytes + after_bytes;
  if (!is_new)
    found->second = std::move(value);
  else
    values_.emplace(call.key, std::move(value));
  sink_.ok(from, call.id, number, std::move(before), flag);
  wake(call.key);
}

void SharedValues::wake(const std::string& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  const std::vector<Waiting> all = std::move(found->second);
  waiting_.erase(found);
  const base::Bytes& value = values_.at(key);
  for (const Waiting& each : all) {
    if (each.is_watch) {
      keys_of_watches_.erase({each.owner, each.id});
      sink_.event(each.owner, {each.id, StoreEvent::Kind::value, 0, true, 0, value});
    } else {
      keys_of_calls_.erase({each.owner, each.id});
      sink_.ok(each.owner, each.id, 0, value, true);
    }
  }
}

}  // namespace hmc::bootstrap
