// Memory of tensors as collectives need it: contiguous, on the host, with an hmc::DType.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <hmc/reduction.hpp>
#include <hmc/types.hpp>

#include "device.hpp"

namespace hmc::torch_adapter {

/// The call whose arguments are checked: the beginning of error texts.
struct Caller {
  const char* name;
  const std::string& group;
  std::uint64_t sequence;  ///< as in Result
  friend std::ostream& operator<<(std::ostream& out, const Caller& caller) {
    out << "hmc: " << caller.name << caller.group;
    if (caller.sequence != 0) out << ", operation " << caller.sequence;
    return out << "]: ";
  }
};

/// The element type of a reduction. A complex number is two reals.
struct Element {
  DType type = DType::u8;
  int per_number = 1;
  bool is_bool = false;
};

inline Element element_of(const at::Tensor& tensor, const Caller& caller) {
  switch (static_cast<int>(tensor.scalar_type())) {  // the numbers never change; not all releases have all names
    case 0: return {DType::u8};
    case 1: return {DType::i8};
    case 2: return {DType::i16};
    case 3: return {DType::i32};
    case 4: return {DType::i64};
    case 5: return {DType::f16};
    case 6: return {DType::f32};
    case 7: return {DType::f64};
    case 8: return {DType::f16, 2};
    case 9: return {DType::f32, 2};
    case 10: return {DType::f64, 2};
    case 11: return {DType::u8, 1, true};
    case 15: return {DType::bf16};
    case 23: return {DType::e5m2};
    case 24: return {DType::e4m3};
    case 27: return {DType::u16};
    case 28: return {DType::u32};
    case 29: return {DType::u64};
    default: TORCH_CHECK(false, caller, "can't reduce tensors of type ", tensor.scalar_type());
  }
}

using RedOp = c10d::ReduceOp::RedOpType;

inline const char* name_of(RedOp op) {
  constexpr std::array names{"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  const auto index = static_cast<std::size_t>(op);
  return index < names.size() ? names[index] : "of an unknown name";
}

/// HMC's operation for torch's. Sums of booleans are "or", products are "and".
inline Op op_of(RedOp op, const Element& element, const Caller& caller) {
  const auto refuse = [&](const char* type) -> Op {
    TORCH_CHECK(false, caller, "there is no reduction ", name_of(op), " of ", type);
  };
  if (element.per_number == 2 && op != RedOp::SUM && op != RedOp::AVG && op != RedOp::PREMUL_SUM)
    return refuse("complex numbers");
  if (element.is_bool) {
    switch (op) {
      case RedOp::SUM:
      case RedOp::MAX:
      case RedOp::BOR: return Op::lor;
      case RedOp::PRODUCT:
      case RedOp::MIN:
      case RedOp::BAND: return Op::land;
      case RedOp::BXOR: return Op::bxor;
      default: return refuse("booleans");
    }
  }
  switch (op) {
    case RedOp::SUM:
    case RedOp::PREMUL_SUM: return Op::sum;
    case RedOp::AVG: return Op::avg;
    case RedOp::PRODUCT: return Op::prod;
    case RedOp::MIN: return Op::min;
    case RedOp::MAX: return Op::max;
    case RedOp::BAND: return is_float(element.type) ? refuse("floats") : Op::band;
    case RedOp::BOR: return is_float(element.type) ? refuse("floats") : Op::bor;
    case RedOp::BXOR: return is_float(element.type) ? refuse("floats") : Op::bxor;
    default: return refuse("tensors");
  }
}

/// A reduction: its operation, and the factor of PREMUL_SUM.
struct How {
  Op op = Op::sum;
  Element element;
  c10::intrusive_ptr<c10d::_SupplementBase> premultiplier;

  How(const c10d::ReduceOp& reduce, const at::Tensor& tensor, const Caller& caller)
      : element(element_of(tensor, caller)) {
    op = op_of(reduce.op_, element, caller);
    if (reduce.op_ == RedOp::PREMUL_SUM) premultiplier = reduce.supplement_;
  }
  std::size_t count(const at::Tensor& tensor) const {
    return static_cast<std::size_t>(tensor.numel()) * static_cast<std::size_t>(element.per_number);
  }
  at::Tensor premultiplied(const at::Tensor& tensor) const {
    return scaled(tensor, static_cast<const c10d::NCCLPreMulSumSupplement&>(*premultiplier)).to(tensor.scalar_type());
  }

 private:
  /// Releases differ in the member for factors that are tensors.
  template <typename Factor> static at::Tensor scaled(const at::Tensor& tensor, const Factor& factor) {
    if constexpr (requires { factor.tensor_factor; }) {
      if (factor.tensor_factor.defined()) return tensor.mul(factor.tensor_factor.to(tensor.device()));
    } else {
      if (!factor.tensor_factors.empty()) return tensor.mul(factor.tensor_factors[0].to(tensor.device()));
    }
    return tensor.mul(factor.double_factor);
  }
};

/// True if the tensor's elements are in row-major order in host memory without gaps, as they are.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == c10::kStrided && tensor.is_contiguous() && !tensor.is_conj() &&
         !tensor.is_neg();
}

/// A device's tensor gets an order; null for the host's.
inline std::shared_ptr<DeviceOrder> order_of(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? nullptr : std::make_shared<DeviceOrder>(tensor);
}

/// Unknown to autograd, as is a backend that writes the memory.
inline void copy_elements(const at::Tensor& to, const at::Tensor& from, const DeviceOrder* order) {
  const at::AutoDispatchBelowADInplaceOrView raw;
  if (order == nullptr) {
    to.copy_(from);
    return;
  }
  TORCH_WARN_ONCE("hmc: tensors on devices are copied through host memory, except for large all_reduces on one node");
  order->copy(to, from);
}

/// Host memory for copies from and to the tensor's device, or for a copy of host memory.
inline at::Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type, const DeviceOrder* order) {
  return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(order != nullptr));
}

enum class Use { in, out, in_out };

/// A tensor's elements in plain memory: the tensor itself, or a copy. The first use of the memory copies the elements,
/// so that an operation sees the results of the operations before it. store() copies the results back.
class Plain {
 public:
  Plain() = default;
  Plain(const at::Tensor& tensor, Use use, const Caller& caller) : tensor_(tensor) {
    TORCH_CHECK(tensor.layout() == c10::kStrided, caller, "needs dense tensors");
    if (is_plain(tensor)) [[likely]] {
      plain_ = tensor;
      return;
    }
    order_ = order_of(tensor);
    must_load_ = use != Use::out;
    has_results_ = use != Use::in;
  }
  void* data() const { return tensor_.numel() != 0 ? tensor().data_ptr() : nullptr; }
  std::size_t bytes() const { return tensor_.nbytes(); }
  const at::Tensor& tensor() const {
    if (!plain_.defined()) [[unlikely]] {
      plain_ = host_memory(tensor_.sizes(), tensor_.scalar_type(), order_.get());
      if (must_load_) copy_elements(plain_, tensor_, order_.get());
    }
    return plain_;
  }
  void store() const {
    if (has_results_ && plain_.defined()) copy_elements(tensor_, plain_, order_.get());
  }
  const at::Tensor& original() const { return tensor_; }
  const DeviceOrder* order() const { return order_.get(); }

 private:
  at::Tensor tensor_;
  mutable at::Tensor plain_;
  std::shared_ptr<DeviceOrder> order_;
  bool must_load_ = false;
  bool has_results_ = false;
};

/// A list of tensors as one piece of memory: theirs, if they are parts of one buffer in this order, else a copy.
class PlainList {
 public:
  PlainList() = default;
  PlainList(std::vector<at::Tensor> tensors, Use use, const Caller& caller) : tensors_(std::move(tensors)) {
    bool is_piece = true;
    const char* next = nullptr;
    for (const at::Tensor& each : tensors_) {
      TORCH_CHECK(each.layout() == c10::kStrided, caller, "needs dense tensors");
      const std::size_t bytes = each.nbytes();
      sizes_.push_back(bytes);
      if (bytes == 0) continue;
      const bool plain = is_plain(each);
      const auto* const start = plain ? static_cast<const char*>(each.data_ptr()) : nullptr;
      is_piece = is_piece && plain && (next == nullptr || start == next);
      if (next == nullptr) data_ = const_cast<char*>(start);
      next = start + bytes;
      bytes_ += bytes;
    }
    if (is_piece || bytes_ == 0) return;
    for (const at::Tensor& each : tensors_) {
      TORCH_CHECK(each.device() == tensors_[0].device(), caller, "needs tensors on one device");
    }
    order_ = order_of(tensors_[0]);
    copy_ = host_memory({static_cast<std::int64_t>(bytes_)}, at::kByte, order_.get());
    data_ = copy_.data_ptr();
    has_results_ = use != Use::in;
    must_load_ = use != Use::out;
  }
  void* data() const {
    if (std::exchange(must_load_, false)) move(true);
    return data_;
  }
  std::size_t bytes() const { return bytes_; }
  const std::vector<std::size_t>& sizes() const { return sizes_; }
  void store() const {
    if (has_results_) move(false);
  }

 private:
  void move(bool in) const {
    auto* at = static_cast<char*>(data_);
    for (std::size_t i = 0; i < tensors_.size(); at += sizes_[i], ++i) {
      const at::Tensor& tensor = tensors_[i];
      if (sizes_[i] == 0) continue;
      if (is_plain(tensor)) {
        if (in)
          std::memcpy(at, tensor.data_ptr(), sizes_[i]);
        else
          std::memcpy(tensor.data_ptr(), at, sizes_[i]);
        continue;
      }
      const at::Tensor part = at::from_blob(at, tensor.sizes(), tensor.options().device(c10::kCPU));
      if (in)
        copy_elements(part, tensor, order_.get());
      else
        copy_elements(tensor, part, order_.get());
    }
  }

  std::vector<at::Tensor> tensors_;
  std::vector<std::size_t> sizes_;
  std::shared_ptr<DeviceOrder> order_;
  at::Tensor copy_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  mutable bool must_load_ = false;
  bool has_results_ = false;
};

/// The output of an operation that HMC doesn't execute in place: memory of its own if a part of the input is there.
class Apart {
 public:
  Apart(const void* in, std::size_t in_bytes, void* out, std::size_t bytes) : out_(out), bytes_(bytes) {
    const auto from = reinterpret_cast<std::uintptr_t>(in), to = reinterpret_cast<std::uintptr_t>(out);
    const bool overlap = (to - from < in_bytes && bytes != 0) || (from - to < bytes && in_bytes != 0);
    if (overlap) own_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  }
  void* data() const { return own_.defined() ? own_.data_ptr() : out_; }
  void store() const {
    if (own_.defined()) std::memcpy(out_, own_.data_ptr(), bytes_);
  }

 private:
  void* out_;
  std::size_t bytes_;
  at::Tensor own_;
};

}  // namespace hmc::torch_adapter
