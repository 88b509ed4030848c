// Matching: pairs messages with receives by team, source and tag, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hmc/message.hpp>

namespace hmc::p2p {

/// A list in the order of insertion, linked through T::next. Doesn't own its elements.
template <typename T> class Fifo {
 public:
  bool is_empty() const noexcept { return first_ == nullptr; }
  T* front() const noexcept { return first_; }
  void push_back(T& element) noexcept {
    element.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &element;
    last_ = &element;
  }
  T* pop_front() noexcept {
    T* const taken = first_;
    first_ = taken->next;
    if (first_ == nullptr) last_ = nullptr;
    return taken;
  }
  template <typename Matches> T* find(Matches&& matches) const noexcept {
    T* element = first_;
    while (element != nullptr && !matches(*element)) element = element->next;
    return element;
  }
  /// False if the element isn't in the list.
  bool remove(const T& element) noexcept {
    T* before = nullptr;
    for (T* each = first_; each != nullptr; before = each, each = each->next) {
      if (each != &element) continue;
      (before != nullptr ? before->next : first_) = each->next;
      if (last_ == each) last_ = before;
      return true;
    }
    return false;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

/// Where the bytes of a rendezvous are: the payload of its record.
struct Remote {
  std::uint64_t request;  ///< the sender's ticket
  std::uint64_t window;   ///< id + 1 of a window that contains the bytes; 0: none
  std::uint64_t offset;   ///< in that window's part
  std::uint64_t early;    ///< number of bytes that the sender sends before a receive matches
};

/// A message as its record describes it.
struct Envelope {
  std::uint32_t team = 0;
  std::int32_t source = -1;  ///< rank in the team
  std::int32_t tag = 0;
  int world = -1;  ///< the sender
  std::uint64_t bytes = 0;
  bool is_eager = true;
  Remote remote{};
};

/// A message that no receive has matched.
struct Unexpected {
  Envelope envelope;
  std::unique_ptr<std::byte[]> data;  ///< an eager message, or the early bytes of a rendezvous
  std::uint64_t arrived = 0;          ///< bytes in `data`
  std::uint64_t order = 0;            ///< of arrival
  Unexpected* next = nullptr;
};

/// The arguments of a receive or probe.
struct Wanted {
  std::uint32_t team = 0;
  std::int32_t tag = any_tag;
  bool matches(const Envelope& message) const noexcept {
    return message.team == team && (tag == any_tag || message.tag == tag);
  }
};

}  // namespace hmc::p2p
