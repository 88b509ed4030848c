// Collective: one call of a collective as a value. `describe` makes it; Team::run, Team::start and Team::plan take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include <hmc/counts.hpp>
#include <hmc/reduction.hpp>
#include <hmc/types.hpp>

namespace hmc {

enum class CollectiveKind : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  allreduce,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
};
inline constexpr int collective_count = 11;
constexpr const char* name_of(CollectiveKind kind) noexcept {
  constexpr const char* names[collective_count] = {"barrier",        "broadcast", "reduce",    "allreduce",
                                                   "gather",         "scatter",   "allgather", "alltoall",
                                                   "reduce_scatter", "scan",      "exscan"};
  return names[static_cast<std::size_t>(kind)];
}

/// True if one rank, the root, has another part than the others.
constexpr bool has_root(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}
/// True if the collective combines contributions and therefore has an operation.
constexpr bool reduces(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::allreduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scan || kind == CollectiveKind::exscan;
}
/// True if `count` is the size of one rank's block. A large call of such a collective is split into v-form calls.
constexpr bool has_blocks(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::gather || kind == CollectiveKind::scatter || kind == CollectiveKind::allgather ||
         kind == CollectiveKind::alltoall || kind == CollectiveKind::reduce_scatter;
}

/// A call of a collective: what it does, with which buffers. It refers to its buffers, counts and displacements, as a
/// span does, and doesn't own them. class Team describes the collectives and the rules of their arguments.
struct Collective {
  static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

  CollectiveKind kind = CollectiveKind::barrier;
  bool is_uneven = false;  ///< a v-form: `counts` instead of `count`
  DType type = DType::u8;  ///< of a reduction
  int root = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;    ///< elements of the vector, or of one rank's block
  std::size_t element = 1;  ///< bytes of an element; of a reduction those of its type
  Reduction how = Op::sum;  ///< of a reduction
  // of a v-form, in elements; displacements may be empty
  std::span<const std::size_t> counts{}, displacements{};
  std::span<const std::size_t> receive_counts{}, receive_displacements{};  ///< of alltoallv
  std::size_t largest = unknown;  ///< of an alltoallv that is started or planned: see Team::ialltoallv
  // Elements of the ranges that the call was described with, which it then checks; `unknown` for pointers.
  std::size_t in_size = unknown, out_size = unknown;
};

namespace detail {

/// A contiguous range of values: a vector, array or span.
template <typename R>
concept Values = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;
template <typename R>
concept WritableValues = Values<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <typename R, typename I>
concept ResultsOf = WritableValues<R> && std::is_same_v<std::ranges::range_value_t<R>, std::ranges::range_value_t<I>>;

template <Values R> inline constexpr std::size_t value_bytes = sizeof(std::ranges::range_value_t<R>);
template <Values R> inline constexpr DType type_of = dtype_of<std::ranges::range_value_t<R>>();

/// A call with one count for all ranks.
inline Collective even(CollectiveKind kind, const void* in, void* out, std::size_t count, std::size_t element,
                       int root = 0) noexcept {
  Collective call;
  call.kind = kind;
  call.root = root;
  call.in = in;
  call.out = out;
  call.count = count;
  call.element = element;
  return call;
}
/// A v-form.
inline Collective uneven(CollectiveKind kind, const void* in, void* out, std::span<const std::size_t> counts,
                         std::span<const std::size_t> displacements, std::size_t element, int root = 0) noexcept {
  Collective call = even(kind, in, out, 0, element, root);
  call.is_uneven = true;
  call.counts = counts;
  call.displacements = displacements;
  return call;
}
inline Collective reduction(CollectiveKind kind, const void* in, void* out, std::size_t count, DType type,
                            const Reduction& how, int root = 0) noexcept {
  Collective call = even(kind, in, out, count, 0, root);
  call.type = type;
  call.how = how;
  return call;
}
/// The call with the sizes of its ranges.
template <Values I, Values O> Collective over(const I& in, const O& out, Collective call) noexcept {
  call.in_size = std::ranges::size(in);
  call.out_size = std::ranges::size(out);
  return call;
}

}  // namespace detail

/// One function per collective, for pointers and for ranges. They check nothing: Team::run, start and plan do. The
/// ranges must stay as long as the description is used, and for start and plan as long as the call runs. So must the
/// numbers of counts and displacements: describe::gatherv(in, out, {1, 2}, {}, 0) is only valid as an argument.
namespace describe {

using detail::ResultsOf;
using detail::type_of;
using detail::value_bytes;
using detail::Values;
using detail::WritableValues;
using std::ranges::data;
using std::ranges::size;
using Kind = CollectiveKind;

/// `on_device`: of a barrier on a device stream, any buffer on the stream's device.
inline Collective barrier(const void* on_device = nullptr) noexcept {
  return detail::even(Kind::barrier, on_device, nullptr, 0, 1);
}

inline Collective broadcast(void* buffer, std::size_t bytes, int root) noexcept {
  return detail::even(Kind::broadcast, buffer, buffer, bytes, 1, root);
}
template <WritableValues D> Collective broadcast(D&& values, int root) noexcept {
  return detail::even(Kind::broadcast, data(values), data(values), size(values), value_bytes<D>, root);
}

inline Collective gather(const void* in, void* out, std::size_t bytes, int root) noexcept {
  return detail::even(Kind::gather, in, out, bytes, 1, root);
}
template <Values I, ResultsOf<I> O> Collective gather(const I& in, O&& out, int root) noexcept {
  return detail::over(in, out, detail::even(Kind::gather, data(in), data(out), size(in), value_bytes<I>, root));
}
inline Collective gatherv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                          std::size_t element = 1) noexcept {
  return detail::uneven(Kind::gather, in, out, counts, displacements, element, root);
}
template <Values I, ResultsOf<I> O>
Collective gatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) noexcept {
  return detail::over(in, out, gatherv(data(in), data(out), counts, displacements, root, value_bytes<I>));
}

inline Collective scatter(const void* in, void* out, std::size_t bytes, int root) noexcept {
  return detail::even(Kind::scatter, in, out, bytes, 1, root);
}
template <Values I, ResultsOf<I> O> Collective scatter(const I& in, O&& out, int root) noexcept {
  return detail::over(in, out, detail::even(Kind::scatter, data(in), data(out), size(out), value_bytes<I>, root));
}
inline Collective scatterv(const void* in, void* out, const Counts& counts, const Counts& displacements, int root,
                           std::size_t element = 1) noexcept {
  return detail::uneven(Kind::scatter, in, out, counts, displacements, element, root);
}
template <Values I, ResultsOf<I> O>
Collective scatterv(const I& in, O&& out, const Counts& counts, const Counts& displacements, int root) noexcept {
  return detail::over(in, out, scatterv(data(in), data(out), counts, displacements, root, value_bytes<I>));
}

inline Collective allgather(const void* in, void* out, std::size_t bytes) noexcept {
  return detail::even(Kind::allgather, in, out, bytes, 1);
}
template <Values I, ResultsOf<I> O> Collective allgather(const I& in, O&& out) noexcept {
  return detail::over(in, out, detail::even(Kind::allgather, data(in), data(out), size(in), value_bytes<I>));
}
inline Collective allgatherv(const void* in, void* out, const Counts& counts, const Counts& displacements = {},
                             std::size_t element = 1) noexcept {
  return detail::uneven(Kind::allgather, in, out, counts, displacements, element);
}
template <Values I, ResultsOf<I> O>
Collective allgatherv(const I& in, O&& out, const Counts& counts, const Counts& displacements = {}) noexcept {
  return detail::over(in, out, allgatherv(data(in), data(out), counts, displacements, value_bytes<I>));
}

inline Collective alltoall(const void* in, void* out, std::size_t bytes) noexcept {
  return detail::even(Kind::alltoall, in, out, bytes, 1);
}
/// The count follows from the size of the input and the number of ranks.
template <Values I, ResultsOf<I> O> Collective alltoall(const I& in, O&& out) noexcept {
  return detail::over(in, out, detail::even(Kind::alltoall, data(in), data(out), Collective::unknown, value_bytes<I>));
}
inline Collective alltoallv(const void* in, const Counts& counts, const Counts& displacements, void* out,
                            const Counts& receive_counts, const Counts& receive_displacements, std::size_t element = 1,
                            std::size_t largest = Collective::unknown) noexcept {
  Collective call = detail::uneven(Kind::alltoall, in, out, counts, displacements, element);
  call.receive_counts = receive_counts;
  call.receive_displacements = receive_displacements;
  call.largest = largest;
  return call;
}
template <Values I, ResultsOf<I> O>
Collective alltoallv(const I& in, const Counts& counts, const Counts& displacements, O&& out,
                     const Counts& receive_counts, const Counts& receive_displacements,
                     std::size_t largest = Collective::unknown) noexcept {
  return detail::over(in, out,
                      alltoallv(data(in), counts, displacements, data(out), receive_counts, receive_displacements,
                                value_bytes<I>, largest));
}

inline Collective reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how,
                         int root) noexcept {
  return detail::reduction(Kind::reduce, in, out, count, type, how, root);
}
template <Values I, ResultsOf<I> O> Collective reduce(const I& in, O&& out, const Reduction& how, int root) noexcept {
  return detail::over(in, out, reduce(data(in), data(out), size(in), type_of<I>, how, root));
}
inline Collective allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(Kind::allreduce, in, out, count, type, how);
}
template <Values I, ResultsOf<I> O> Collective allreduce(const I& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out, allreduce(data(in), data(out), size(in), type_of<I>, how));
}
inline Collective reduce_scatter(const void* in, void* out, std::size_t count, DType type,
                                 const Reduction& how) noexcept {
  return detail::reduction(Kind::reduce_scatter, in, out, count, type, how);
}
template <Values I, ResultsOf<I> O> Collective reduce_scatter(const I& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out, reduce_scatter(data(in), data(out), size(out), type_of<I>, how));
}
inline Collective reduce_scatterv(const void* in, void* out, const Counts& counts, DType type,
                                  const Reduction& how) noexcept {
  Collective call = detail::reduction(Kind::reduce_scatter, in, out, 0, type, how);
  call.is_uneven = true;
  call.counts = counts;
  return call;
}
template <Values I, ResultsOf<I> O>
Collective reduce_scatterv(const I& in, O&& out, const Counts& counts, const Reduction& how) noexcept {
  return detail::over(in, out, reduce_scatterv(data(in), data(out), counts, type_of<I>, how));
}
inline Collective scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(Kind::scan, in, out, count, type, how);
}
template <Values I, ResultsOf<I> O> Collective scan(const I& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out, scan(data(in), data(out), size(in), type_of<I>, how));
}
inline Collective exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(Kind::exscan, in, out, count, type, how);
}
template <Values I, ResultsOf<I> O> Collective exscan(const I& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out, exscan(data(in), data(out), size(in), type_of<I>, how));
}

}  // namespace describe

}  // namespace hmc
