// Compares a prototype written by hand with a header's. For the result and each argument it compares the size and
// whether the type is a pointer, since a call through a function pointer depends on these.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "runtime/memory/library.hpp"

namespace hmc::memory {

template <typename T> struct Slot {
  static constexpr bool is_pointer = std::is_pointer_v<T>;
  static constexpr bool is_class = std::is_class_v<T>;
  static constexpr std::size_t size = sizeof(T);
};
template <typename A, typename B>
inline constexpr bool same_slot = Slot<A>::size == Slot<B>::size&& Slot<A>::is_pointer ==
                                  Slot<B>::is_pointer&& Slot<A>::is_class == Slot<B>::is_class;

template <typename A, typename B> struct SameCall : std::false_type {};
template <typename R, typename... As, typename S, typename... Bs> struct SameCall<R(As...), S(Bs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(As) == sizeof...(Bs))
      return same_slot<R, S> && (same_slot<As, Bs> && ...);
    else
      return false;
  }();
};

template <typename T> struct SignatureOf;
template <typename S> struct SignatureOf<Symbol<S>> { using Type = S; };

}  // namespace hmc::memory

/// `member` of `Api` is `function` of the header.
#define HMC_SAME_CALL(Api, member, function)                                                     \
  static_assert(::hmc::memory::SameCall<::hmc::memory::SignatureOf<decltype(Api::member)>::Type, \
                                        std::remove_pointer_t<decltype(&function)>>::value,      \
                #member " isn't " #function)
