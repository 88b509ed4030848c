// hamr::buffer's elements, of numbers and of classes, each function against std::vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hamr_buffer.h>
#include <hamr_buffer_util.h>

#include "tests/compat/hamr.hpp"

namespace hmc::compat {

namespace {

/// Computes on the host what HAMR's example computes by a kernel: the result is in `alloc`'s memory.
template <typename T, typename U, typename F> buffer<T> apply(A alloc, const buffer<T>& a, const buffer<U>& b, F&& f) {
  const auto [handle_a, first] = hamr::get_host_accessible(a);
  const auto [handle_b, second] = hamr::get_host_accessible(b);
  std::vector<T> values(a.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(f(first[i], second[i]));
  return buffer<T>(alloc, values.size(), values.data());
}

TEST(Hamr, chain_over_every_two_allocators_computes_4300) {
  constexpr std::size_t count = 1000;
  const auto times = [](auto x, auto y) { return x * y; };
  const auto plus = [](auto x, auto y) { return x + y; };
  for (const A one : allocators) {
    for (const A two : allocators) {
      const std::string what = std::string(hamr::get_allocator_name(one)) + " " + hamr::get_allocator_name(two);
      buffer<float> ones(one, count, 1.0f);
      buffer<float> twos = apply(two, ones, buffer<float>(one, count, 2.0f), times);
      ones.free();
      EXPECT_EQ(ones.size(), 0U);
      buffer<double> fours = apply(one, buffer<double>(two, count, 2.0), twos, plus);
      buffer<double> thousands = apply(two, fours, buffer<int>(one, count, 1000), times);
      buffer<float> hundreds = apply(two, buffer<float>(one, count, 3.0f), buffer<float>(two, count, 100.0f), times);
      buffer<float> copy(A::malloc, count);
      copy.set(hundreds);
      const buffer<double> sum = apply(one, thousands, copy, plus);
      buffer<int> whole(sum.get_allocator(), count);
      sum.get(whole);  // casts
      EXPECT_EQ(all_of(whole), std::vector<int>(count, 4300)) << what;
    }
  }
}

TEST(Hamr, ranges_are_copied_and_cast) {
  const std::vector<float> host = counted<float>(30, 2);
  for (const A one : allocators) {
    for (const A two : allocators) {
      const std::string what = std::string(hamr::get_allocator_name(one)) + " " + hamr::get_allocator_name(two);
      std::vector<float> expected = host;
      buffer<float> a(one, host.size(), host.data());
      buffer<float> b(two);
      b.assign(a, 5, 10);
      EXPECT_EQ(all_of(b), std::vector<float>(host.begin() + 5, host.begin() + 15)) << what;
      b.append(host.data(), 20, 10);
      b.append(a, 1, 3);
      std::vector<float> joined(host.begin() + 5, host.begin() + 15);
      joined.insert(joined.end(), host.begin() + 20, host.end());
      joined.insert(joined.end(), host.begin() + 1, host.begin() + 4);
      EXPECT_EQ(all_of(b), joined) << what;
      a.set(2, b, 20, 3);
      std::copy_n(joined.begin() + 20, 3, expected.begin() + 2);
      EXPECT_EQ(all_of(a), expected) << what;

      buffer<std::int64_t> longs(two, std::size_t{4}, std::int64_t{9});
      const short shorts[] = {-1, -2, -3};
      longs.set(1, shorts, 1, 2);
      EXPECT_EQ(all_of(longs), (std::vector<std::int64_t>{9, -2, -3, 9})) << what;
      longs.append(a, 0, 2);
      EXPECT_EQ(longs.size(), 6U);
      int ints[4] = {};
      longs.get(1, ints, 2, 2);
      EXPECT_EQ(std::vector<int>(ints, ints + 4), (std::vector<int>{0, 0, -2, -3})) << what;
      buffer<double> doubles(one, longs);
      longs.get(0, doubles, 3, 2);
      EXPECT_EQ(all_of(doubles)[3], 9.0) << what;
      EXPECT_EQ(all_of(doubles)[4], -2.0) << what;
      EXPECT_THROW(a.set(29, b, 0, 2), hmc::Error);
      EXPECT_THROW(a.set(0, b, b.size() - 1, 2), hmc::Error);
    }
  }
}

TEST(Hamr, assignment_keeps_allocator_and_stream) {
  buffer<int> on_host(A::malloc, 3, 5);
  buffer<int> on_device(A::cuda, 2, 8);
  const int* const address = on_device.data();
  on_host = on_device;
  EXPECT_EQ(on_host.get_allocator(), A::malloc);
  EXPECT_EQ(all_of(on_host), std::vector<int>(2, 8));
  buffer<int> other(A::cuda, 1, 1);
  other = std::move(on_device);  // NOLINT: the same place, so its memory moves
  EXPECT_EQ(other.data(), address);
  on_host = std::move(other);
  EXPECT_EQ(on_host.get_allocator(), A::malloc);
  buffer<int> moved(A::cuda, std::move(on_host));
  EXPECT_EQ(moved.get_allocator(), A::cuda);
  EXPECT_EQ(all_of(moved), std::vector<int>(2, 8));
  buffer<float> floats(A::malloc);
  floats = moved;
  EXPECT_EQ(all_of(floats), std::vector<float>(2, 8));
  moved.resize(4, 6);
  EXPECT_EQ(all_of(moved), (std::vector<int>{8, 8, 6, 6}));
  moved.reserve(100);
  EXPECT_EQ(moved.size(), 4U);
}

TEST(Hamr, resize_keeps_the_elements_of_reserved_memory) {
  for (const A alloc : {A::malloc, A::cuda_host, A::cuda_uva}) {
    buffer<int> made(alloc);
    made.reserve(10);
    EXPECT_EQ(made.size(), 0U);
    int* const first = made.data();
    std::iota(first, first + 10, 5);  // as a program that fills reserved memory itself
    made.resize(4);
    EXPECT_EQ(made.data(), first);
    made.resize(10);
    EXPECT_EQ(all_of(made), (std::vector<int>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
    made.resize(2);
    made.resize(4, 77);
    EXPECT_EQ(all_of(made), (std::vector<int>{5, 6, 77, 77}));
    made.resize(12);
    EXPECT_EQ(all_of(made)[3], 77);
    EXPECT_EQ(all_of(made)[11], 0);
    made.reserve(20, 3);
    made.resize(20);
    EXPECT_EQ(all_of(made)[11], 0);
    EXPECT_EQ(all_of(made)[12], 3);
  }
  constexpr std::size_t count = 1'500'000;  // several pieces
  const buffer<float> large(A::cuda, count, 2.5f);
  EXPECT_EQ(all_of(large), std::vector<float>(count, 2.5f));
}

// ---- elements of classes

/// Counts what happens to its objects.
struct Counted {
  static inline int made = 0, copied = 0, assigned = 0, live = 0, until_failure = -1;
  static void reset() { made = copied = assigned = 0; }

  Counted() : Counted(0) {}
  Counted(int with) : value(with) {
    if (until_failure >= 0 && until_failure-- == 0) throw std::runtime_error("Counted");
    ++made;
    ++live;
  }
  Counted(const Counted& other) : value(other.value), self(this) {
    EXPECT_EQ(other.self, &other);
    if (until_failure >= 0 && until_failure-- == 0) throw std::runtime_error("Counted");
    ++copied;
    ++live;
  }
  Counted& operator=(const Counted& other) {
    EXPECT_EQ(self, this);  // a constructed object
    EXPECT_EQ(other.self, &other);
    value = other.value;
    ++assigned;
    return *this;
  }
  ~Counted() {
    EXPECT_EQ(self, this);
    self = nullptr;
    --live;
  }
  explicit operator int() const { return value; }

  int value;
  const Counted* self = this;
};

struct Counts {
  int made, copied, assigned, live;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.made << " made, " << counts.copied << " copied, " << counts.assigned << " assigned, "
             << counts.live << " live";
}
/// Since the last call.
Counts counts() {
  const Counts now{Counted::made, Counted::copied, Counted::assigned, Counted::live};
  Counted::reset();
  return now;
}
std::vector<int> values_of(const buffer<Counted>& of) {
  std::vector<int> made(of.size());
  of.get(0, made.data(), 0, made.size());
  return made;
}

constexpr A host_allocators[] = {A::cpp, A::malloc, A::cuda_uva, A::cuda_host, A::hip_uva};

TEST(Hamr, objects_are_constructed_copied_and_destroyed) {
  for (const A alloc : host_allocators) {
    SCOPED_TRACE(hamr::get_allocator_name(alloc));
    counts();
    {
      buffer<Counted> made(alloc, 5);
      EXPECT_EQ(counts(), (Counts{5, 0, 0, 5}));
      made.reserve(8);
      EXPECT_EQ(counts(), (Counts{3, 5, 0, 8}));
      made.resize(7);
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 8}));
      const Counted nine(9);
      counts();
      made.resize(8, nine);
      EXPECT_EQ(counts(), (Counts{0, 0, 1, 9}));
      EXPECT_EQ(values_of(made), (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 9}));
      made.resize(10, nine);
      EXPECT_EQ(counts(), (Counts{0, 10, 0, 11}));
      made.append(&nine, 0, 1);  // doubles the memory
      EXPECT_EQ(counts(), (Counts{10, 10, 1, 21}));
      EXPECT_EQ(made.size(), 11U);
      made.free();
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 1}));
    }
    EXPECT_EQ(counts(), (Counts{0, 0, 0, 0}));
    {
      const Counted some[] = {1, 2, 3};
      counts();
      buffer<Counted> made(alloc, 3, some);
      EXPECT_EQ(counts(), (Counts{0, 3, 0, 6}));
      const buffer<Counted> filled(alloc, 4, some[1]);
      EXPECT_EQ(counts(), (Counts{0, 4, 0, 10}));
      buffer<Counted> copy(made);
      EXPECT_EQ(counts(), (Counts{0, 3, 0, 13}));
      buffer<Counted> moved(std::move(copy));
      EXPECT_EQ(counts(), (Counts{0, 0, 0, 13}));
      EXPECT_EQ(copy.size(), 0U);  // NOLINT: it is empty
      moved = filled;
      EXPECT_EQ(counts(), (Counts{0, 4, 0, 14}));
      EXPECT_EQ(values_of(moved), std::vector<int>(4, 2));
      moved.assign(some, 1, 2);
      EXPECT_EQ(counts(), (Counts{0, 0, 2, 14}));
      EXPECT_EQ(values_of(moved), (std::vector<int>{2, 3}));
      moved.set(1, made, 0, 1);
      EXPECT_EQ(counts(), (Counts{0, 0, 1, 14}));
      const auto handle = made.get_host_accessible();
      EXPECT_EQ(handle.get(), made.data());
      made.reserve(4);  // the handle keeps the old objects
      EXPECT_EQ(counts(), (Counts{1, 3, 0, 18}));
      EXPECT_EQ(handle.get()[2].value, 3);
      const int numbers[] = {5, 6, 7};
      made.set(0, numbers, 1, 2);
      EXPECT_EQ(values_of(made), (std::vector<int>{6, 7, 3}));
      const buffer<Counted> of_numbers(alloc, buffer<int>(A::cuda, 3, numbers));
      EXPECT_EQ(values_of(of_numbers), (std::vector<int>{5, 6, 7}));
    }
    EXPECT_EQ(Counted::live, 0);
    { const buffer<Counted> taken(A::malloc, 2, -1, new (std::malloc(2 * sizeof(Counted))) Counted[2]); }
    { const buffer<Counted> taken(A::cpp, 2, -1, new Counted[2]); }
    EXPECT_EQ(Counted::live, 0);
  }
}

TEST(Hamr, failing_constructor_destroys_the_objects_before_it) {
  buffer<Counted> made(A::malloc, 4, Counted(6));
  for (const int until : {0, 1, 5, 9}) {
    const auto fails = [&](const auto& call) {
      Counted::until_failure = until;
      EXPECT_THROW(call(), std::runtime_error) << until;
      Counted::until_failure = -1;
      EXPECT_EQ(Counted::live, 4) << until;
      EXPECT_EQ(values_of(made), std::vector<int>(4, 6));
    };
    fails([] { buffer<Counted>(A::cpp, 10); });
    fails([&] { made.reserve(10); });
    fails([&] { made.reserve(10, made.data()[1]); });
    fails([&] { buffer<Counted>(A::malloc, buffer<int>(A::malloc, 10, 1)); });
  }
}

TEST(Hamr, strings_are_in_memory_of_the_host) {
  const std::string other = "a text that is longer than what a string holds in itself";
  for (const A alloc : host_allocators) {
    SCOPED_TRACE(hamr::get_allocator_name(alloc));
    std::vector<std::string> model(3, "one");
    buffer<std::string> made(alloc, 3, "one");
    made.append(&other, 0, 1);
    model.push_back(other);
    made.append(made);
    const std::vector<std::string> before = model;
    model.insert(model.end(), before.begin(), before.end());
    made.set(1, made, 3, 4);  // the ranges overlap
    std::copy(model.begin() + 3, model.begin() + 7, model.begin() + 1);
    EXPECT_EQ(all_of(made), model);
    const char* const texts[] = {"x", "yy", "zzz"};
    made.assign(texts, 1, 2);
    EXPECT_EQ(all_of(made), (std::vector<std::string>{"yy", "zzz"}));
    const buffer<std::string> copy(A::cpp, made);
    EXPECT_EQ(all_of(copy), all_of(made));
    EXPECT_EQ(made.move(A::cuda_host), 0);
    EXPECT_EQ(made.get_allocator(), A::cuda_host);
    EXPECT_EQ(all_of(copy), all_of(made));
  }
  for (const A alloc : {A::cuda, A::cuda_async, A::hip, A::openmp}) {
    buffer<std::string> none(alloc);  // it has no memory yet
    EXPECT_EQ(none.size(), 0U);
    buffer<std::string> made(A::malloc, 2, other);
    const auto refused = [&](const auto& call) {
      try {
        call();
        ADD_FAILURE() << hamr::get_allocator_name(alloc);
      } catch (const hmc::Error& error) {
        EXPECT_EQ(error.code(), hmc::Code::unsupported) << error.what();
      }
    };
    refused([&] { none.resize(1); });
    refused([&] { none = made; });
    refused([&] { made.move(alloc); });
    refused([&] { (void)made.get_cuda_accessible(); });
    EXPECT_EQ(all_of(made), std::vector<std::string>(2, other));
  }
}

TEST(Hamr, operations_that_a_class_lacks_arent_needed) {
  buffer<std::unique_ptr<int>> only_moves(A::cpp, 3);
  only_moves.data()[2] = std::make_unique<int>(7);
  buffer<std::unique_ptr<int>> moved(std::move(only_moves));
  EXPECT_EQ(*moved.get_host_accessible().get()[2], 7);
  struct NoDefault {
    explicit NoDefault(int with) : value(with) {}
    int value;
    std::string name = "none";
  };
  const buffer<NoDefault> made(A::malloc, 2, NoDefault(4));
  EXPECT_EQ(buffer<NoDefault>(made).data()[1].value, 4);
  struct alignas(256) Wide {
    float values[4] = {1, 2, 3, 4};
  };
  for (const A alloc : {A::malloc, A::cpp}) {
    buffer<Wide> wide(alloc, 3);
    wide.resize(9);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % alignof(Wide), 0U);
    EXPECT_EQ(wide.data()[8].values[3], 4.0f);
  }
  const buffer<bool> flags(A::cuda, buffer<int>(A::malloc, 3, 5));
  EXPECT_EQ(all_of(flags), std::vector<bool>(3, true));
}

// ---- array classes in the form of TECA's: a buffer is the member of a class template with virtual functions
class AnyArray {
 public:
  virtual ~AnyArray() = default;
  virtual std::size_t size() const noexcept = 0;
  virtual void resize(std::size_t count) = 0;
  virtual void clear() noexcept = 0;
  virtual std::shared_ptr<AnyArray> copy(A alloc) const = 0;
  virtual int cuda_accessible() const noexcept = 0;
};

template <typename T> class Array final : public AnyArray {
 public:
  explicit Array(A alloc) : data_(alloc) {}
  Array(A alloc, std::size_t count, const T& value) : data_(alloc, count, value) {}
  template <typename U> Array(A alloc, const std::shared_ptr<const Array<U>>& other) : data_(alloc, other->data_) {}
  template <typename Deleter>
  Array(A alloc, std::size_t count, int owner, T* values, Deleter deleter)
      : data_(alloc, count, owner, values, deleter) {}

  std::size_t size() const noexcept override { return data_.size(); }
  void resize(std::size_t count) override { data_.resize(count); }
  void clear() noexcept override { data_.free(); }
  std::shared_ptr<AnyArray> copy(A alloc) const override {
    auto made = std::make_shared<Array>(alloc);
    made->data_.assign(data_, 0, data_.size());
    return made;
  }
  int cuda_accessible() const noexcept override { return data_.cuda_accessible(); }
  std::shared_ptr<T>& pointer() { return data_.pointer(); }
  const std::shared_ptr<T>& pointer() const { return data_.pointer(); }
  std::shared_ptr<const T> get_host_accessible() const { return data_.get_host_accessible(); }
  template <typename U> void append(const std::shared_ptr<const Array<U>>& from, std::size_t start, std::size_t count) {
    data_.append(from->data_, start, count);
  }
  void set_allocator(A alloc) {
    buffer<T> elsewhere(alloc, data_);
    data_.swap(elsewhere);
  }

 private:
  template <typename U> friend class Array;
  buffer<T> data_;
};

struct Named;  // incomplete where its array is a member
struct Names {
  explicit Names(std::size_t count);
  ~Names();
  Array<Named> all;
};
struct Named {
  std::string name = "none";
  std::vector<int> values;
};
Names::Names(std::size_t count) : all(A::malloc, count, Named{"named", {1, 2}}) {}
Names::~Names() = default;

TEST(Hamr, array_classes_have_buffers_of_numbers_strings_and_pointers) {
  const auto numbers = std::make_shared<const Array<double>>(A::cuda, 3, 2.5);
  auto strings = std::make_shared<Array<std::string>>(A::malloc, 2, "text");
  Array<std::shared_ptr<const AnyArray>> arrays(A::malloc, 1, numbers);
  arrays.append(std::make_shared<const Array<std::shared_ptr<const AnyArray>>>(A::malloc, 1, strings), 0, 1);
  EXPECT_EQ(arrays.pointer().get()[1]->size(), 2U);
  EXPECT_EQ(numbers.use_count(), 2);
  arrays.clear();
  EXPECT_EQ(numbers.use_count(), 1);

  Array<float> whole(A::malloc, numbers);
  whole.append(numbers, 1, 2);
  EXPECT_EQ(whole.size(), 5U);
  EXPECT_EQ(whole.get_host_accessible().get()[4], 2.5f);
  whole.set_allocator(A::hip);
  EXPECT_EQ(whole.cuda_accessible(), 1);
  EXPECT_EQ(whole.get_host_accessible().get()[4], 2.5f);

  const auto copy = strings->copy(A::cpp);
  strings->pointer().get()[0] = "changed";
  EXPECT_EQ(dynamic_cast<Array<std::string>&>(*copy).pointer().get()[0], "text");
  strings->resize(3);
  EXPECT_EQ(strings->get_host_accessible().get()[2], "");
  int deleted = 0;
  {
    Array<std::string> lent(A::malloc, 1, -1, strings->pointer().get(), [&](std::string*) { ++deleted; });
  }
  EXPECT_EQ(deleted, 1);

  Names names(2);
  names.all.resize(3);
  EXPECT_EQ(names.all.pointer().get()[1].values[1], 2);
  EXPECT_EQ(names.all.pointer().get()[2].name, "none");
}

}  // namespace

}  // namespace hmc::compat
