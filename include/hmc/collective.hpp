// Collective: one call of a collective as a value. `describe` makes it; Team::run, Team::start and Team::plan take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include <hmc/reduction.hpp>
#include <hmc/types.hpp>

namespace hmc {

/// A call of a collective: what it does, with which buffers. It refers to its buffers, counts and displacements, as a
/// span does, and doesn't own them. class Team describes the collectives and the rules of their arguments.
struct [[nodiscard]] Collective {
  static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

  CollectiveKind kind = CollectiveKind::barrier;
  bool is_uneven = false;  ///< a v-form: `counts` instead of `count`
  DType type = DType::u8;  ///< of a reduction
  int root = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;    ///< elements of the vector, or of one rank's block
  std::size_t element = 1;  ///< bytes of an element; not of a reduction, whose type has them
  Reduction how = Op::sum;  ///< of a reduction
  // of a v-form, in elements; displacements may be empty, and reduce_scatterv has none
  std::span<const std::size_t> counts{}, displacements{};
  std::span<const std::size_t> receive_counts{}, receive_displacements{};  ///< of alltoallv
  std::size_t largest = unknown;  ///< of an alltoallv that is started or planned: see Team::ialltoallv
  // Elements of the ranges that the call was described with, which it then checks; both `unknown` for pointers. An
  // alltoall over ranges finds its count from them.
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

/// The values stay when the call returns: R is an lvalue, or doesn't own its values, such as a temporary span. A
/// temporary vector or array would end before the operation.
template <typename R>
concept LastingValues = Values<R> && std::ranges::borrowed_range<R>;
template <typename R>
concept LastingWritableValues = WritableValues<R> && std::ranges::borrowed_range<R>;
template <typename R, typename I>
concept LastingResultsOf = ResultsOf<R, I> && std::ranges::borrowed_range<R>;

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
/// ranges, counts and displacements must stay as long as the description is used, and for start and plan the ranges as
/// long as the call runs. A temporary that owns its values, such as a vector, doesn't compile.
namespace describe {

/// One number per rank: a vector, array or span of std::size_t. Team's forms also take other integers.
using Numbers = std::span<const std::size_t>;

/// `on_device`: of a barrier on a device stream, any buffer on the stream's device.
inline Collective barrier(const void* on_device = nullptr) noexcept {
  return detail::even(CollectiveKind::barrier, on_device, nullptr, 0, 1);
}

inline Collective broadcast(void* buffer, std::size_t bytes, int root) noexcept {
  return detail::even(CollectiveKind::broadcast, buffer, buffer, bytes, 1, root);
}
template <detail::LastingWritableValues D> Collective broadcast(D&& values, int root) noexcept {
  return detail::even(CollectiveKind::broadcast, std::ranges::data(values), std::ranges::data(values),
                      std::ranges::size(values), detail::value_bytes<D>, root);
}

inline Collective gather(const void* in, void* out, std::size_t bytes, int root) noexcept {
  return detail::even(CollectiveKind::gather, in, out, bytes, 1, root);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective gather(I&& in, O&& out, int root) noexcept {
  return detail::over(in, out,
                      detail::even(CollectiveKind::gather, std::ranges::data(in), std::ranges::data(out),
                                   std::ranges::size(in), detail::value_bytes<I>, root));
}
inline Collective gatherv(const void* in, void* out, Numbers counts, Numbers displacements, int root,
                          std::size_t element = 1) noexcept {
  return detail::uneven(CollectiveKind::gather, in, out, counts, displacements, element, root);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective gatherv(I&& in, O&& out, Numbers counts, Numbers displacements, int root) noexcept {
  return detail::over(in, out,
                      describe::gatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root,
                                        detail::value_bytes<I>));
}

inline Collective scatter(const void* in, void* out, std::size_t bytes, int root) noexcept {
  return detail::even(CollectiveKind::scatter, in, out, bytes, 1, root);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective scatter(I&& in, O&& out, int root) noexcept {
  return detail::over(in, out,
                      detail::even(CollectiveKind::scatter, std::ranges::data(in), std::ranges::data(out),
                                   std::ranges::size(out), detail::value_bytes<I>, root));
}
inline Collective scatterv(const void* in, void* out, Numbers counts, Numbers displacements, int root,
                           std::size_t element = 1) noexcept {
  return detail::uneven(CollectiveKind::scatter, in, out, counts, displacements, element, root);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective scatterv(I&& in, O&& out, Numbers counts, Numbers displacements, int root) noexcept {
  return detail::over(in, out,
                      describe::scatterv(std::ranges::data(in), std::ranges::data(out), counts, displacements, root,
                                         detail::value_bytes<I>));
}

inline Collective allgather(const void* in, void* out, std::size_t bytes) noexcept {
  return detail::even(CollectiveKind::allgather, in, out, bytes, 1);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O> Collective allgather(I&& in, O&& out) noexcept {
  return detail::over(in, out,
                      detail::even(CollectiveKind::allgather, std::ranges::data(in), std::ranges::data(out),
                                   std::ranges::size(in), detail::value_bytes<I>));
}
inline Collective allgatherv(const void* in, void* out, Numbers counts, Numbers displacements = {},
                             std::size_t element = 1) noexcept {
  return detail::uneven(CollectiveKind::allgather, in, out, counts, displacements, element);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective allgatherv(I&& in, O&& out, Numbers counts, Numbers displacements = {}) noexcept {
  return detail::over(in, out,
                      describe::allgatherv(std::ranges::data(in), std::ranges::data(out), counts, displacements,
                                           detail::value_bytes<I>));
}

inline Collective alltoall(const void* in, void* out, std::size_t bytes) noexcept {
  return detail::even(CollectiveKind::alltoall, in, out, bytes, 1);
}
/// The count follows from the size of the input and the number of ranks.
template <detail::LastingValues I, detail::LastingResultsOf<I> O> Collective alltoall(I&& in, O&& out) noexcept {
  return detail::over(in, out,
                      detail::even(CollectiveKind::alltoall, std::ranges::data(in), std::ranges::data(out),
                                   Collective::unknown, detail::value_bytes<I>));
}
inline Collective alltoallv(const void* in, Numbers counts, Numbers displacements, void* out, Numbers receive_counts,
                            Numbers receive_displacements, std::size_t element = 1) noexcept {
  Collective call = detail::uneven(CollectiveKind::alltoall, in, out, counts, displacements, element);
  call.receive_counts = receive_counts;
  call.receive_displacements = receive_displacements;
  return call;
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective alltoallv(I&& in, Numbers counts, Numbers displacements, O&& out, Numbers receive_counts,
                     Numbers receive_displacements) noexcept {
  return detail::over(in, out,
                      describe::alltoallv(std::ranges::data(in), counts, displacements, std::ranges::data(out),
                                          receive_counts, receive_displacements, detail::value_bytes<I>));
}

/// For start and plan: see Team::ialltoallv.
inline Collective with_largest(Collective alltoallv, std::size_t largest) noexcept {
  alltoallv.largest = largest;
  return alltoallv;
}

inline Collective reduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how,
                         int root) noexcept {
  return detail::reduction(CollectiveKind::reduce, in, out, count, type, how, root);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective reduce(I&& in, O&& out, const Reduction& how, int root) noexcept {
  return detail::over(in, out,
                      describe::reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                                       detail::type_of<I>, how, root));
}
inline Collective allreduce(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(CollectiveKind::allreduce, in, out, count, type, how);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective allreduce(I&& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out,
                      describe::allreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                                          detail::type_of<I>, how));
}
inline Collective reduce_scatter(const void* in, void* out, std::size_t count, DType type,
                                 const Reduction& how) noexcept {
  return detail::reduction(CollectiveKind::reduce_scatter, in, out, count, type, how);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective reduce_scatter(I&& in, O&& out, const Reduction& how) noexcept {
  return detail::over(in, out,
                      describe::reduce_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                                               detail::type_of<I>, how));
}
inline Collective reduce_scatterv(const void* in, void* out, Numbers counts, DType type,
                                  const Reduction& how) noexcept {
  Collective call = detail::reduction(CollectiveKind::reduce_scatter, in, out, 0, type, how);
  call.is_uneven = true;
  call.counts = counts;
  return call;
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective reduce_scatterv(I&& in, O&& out, Numbers counts, const Reduction& how) noexcept {
  return detail::over(
      in, out,
      describe::reduce_scatterv(std::ranges::data(in), std::ranges::data(out), counts, detail::type_of<I>, how));
}
inline Collective scan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(CollectiveKind::scan, in, out, count, type, how);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective scan(I&& in, O&& out, const Reduction& how) noexcept {
  return detail::over(
      in, out,
      describe::scan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how));
}
inline Collective exscan(const void* in, void* out, std::size_t count, DType type, const Reduction& how) noexcept {
  return detail::reduction(CollectiveKind::exscan, in, out, count, type, how);
}
template <detail::LastingValues I, detail::LastingResultsOf<I> O>
Collective exscan(I&& in, O&& out, const Reduction& how) noexcept {
  return detail::over(
      in, out,
      describe::exscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<I>, how));
}

}  // namespace describe

}  // namespace hmc
