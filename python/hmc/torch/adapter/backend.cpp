#include "backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <hmc/team.hpp>

namespace hmc::torch_adapter {

namespace {

// From this size on the worker begins an asynchronous operation at once.
constexpr std::size_t large_bytes = 64 << 10;
// Coalesced tensors of up to this size in total are copied into one buffer.
constexpr std::size_t coalesced_bytes = 1 << 20;
class StoreOfTorch final : public Store {
 public:
  explicit StoreOfTorch(c10d::Store& store) : store_(store) {
    // The agent of torchrun may pass the same store to the ranks that it starts again.
    if (const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT")) suffix_ += restarts;
  }
  void set(const char* key, const char* value, std::size_t bytes) override {
    store_.set(key + suffix_, std::vector<std::uint8_t>(value, value + bytes));
  }
  std::vector<char> get(const char* key, Milliseconds timeout) override {
    if (timeout > Milliseconds{0}) store_.wait({key + suffix_}, timeout);
    const std::vector<std::uint8_t> value = store_.get(key + suffix_);
    return {value.begin(), value.end()};
  }

 private:
  c10d::Store& store_;
  std::string suffix_ = "/";
};

template <typename Call> bool is_async(const Call& opts) {
  if constexpr (requires { opts.asyncOp; })
    return opts.asyncOp;
  else
    return true;
}

void require_same_type(const at::Tensor& a, const at::Tensor& b, const Caller& caller) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), caller, "the input's type is ", b.scalar_type(), ", the output's ",
              a.scalar_type());
}

bool are_equal(const std::vector<std::size_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [&](std::size_t each) { return each == sizes[0]; });
}

std::size_t bytes_of(const Tensors& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const at::Tensor& each) { return sum + each.nbytes(); });
}

/// In place: the memory has this rank's contribution.
void allreduce_plain(Team& team, const Plain& memory, const How& how) {
  if (memory.tensor().numel() == 0) return;
  const void* in = memory.data();
  at::Tensor scaled;
  if (how.premultiplier) {
    scaled = how.premultiplied(memory.tensor());
    in = scaled.data_ptr();
  }
  team.allreduce(in, memory.data(), how.count(memory.tensor()), how.element.type, how.op);
}

/// In place, by the devices if they can.
void allreduce_tensor(Team& team, DeviceWindow& devices, const Plain& memory, const How& how) {
  if (DeviceWindow::suits(memory.original()) && !how.premultiplier &&
      devices.allreduce(team, *memory.order(), memory.original(), how.element.type, how.op))
    return;
  allreduce_plain(team, memory, how);
  memory.store();
}

void reduce_scatter_plain(Team& team, const void* in, const at::Tensor& output, const at::Tensor& input,
                          const How& how) {
  at::Tensor scaled;
  if (how.premultiplier) {
    scaled = how.premultiplied(input);
    in = scaled.data_ptr();
  }
  const Apart result(in, input.nbytes(), output.data_ptr(), output.nbytes());
  team.reduce_scatter(in, result.data(), how.count(output), how.element.type, how.op);
  result.store();
}

/// Sum of sparse tensors: all ranks get all indices and values.
void allreduce_sparse_tensor(Team& team, const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView raw;
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor indices = mine.indices().t().contiguous();  // one row per value, so that blocks of ranks follow
  const at::Tensor values = mine.values().contiguous();
  const auto ranks = static_cast<std::size_t>(team.size());
  const std::int64_t count = mine._nnz();
  std::vector<std::int64_t> all(ranks);
  team.allgather(&count, all.data(), sizeof count);
  std::vector<std::size_t> counts(all.begin(), all.end());
  const std::int64_t total = std::accumulate(all.begin(), all.end(), std::int64_t{0});
  at::Tensor all_indices = at::empty({total, mine.sparse_dim()}, indices.options());
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes[0] = total;
  at::Tensor all_values = at::empty(sizes, values.options());
  std::size_t value_bytes = values.element_size();
  for (std::size_t i = 1; i < sizes.size(); ++i) value_bytes *= static_cast<std::size_t>(sizes[i]);
  const std::size_t index_bytes = static_cast<std::size_t>(mine.sparse_dim()) * sizeof(std::int64_t);
  if (total != 0 && index_bytes != 0)
    team.allgatherv(indices.data_ptr(), all_indices.data_ptr(), counts, {}, index_bytes);
  if (total != 0 && value_bytes != 0)
    team.allgatherv(values.data_ptr(), all_values.data_ptr(), counts, {}, value_bytes);
  // sparse_coo_tensor adds values of equal indices in coalesce().
  at::Tensor sum = at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce();
  at::Tensor output = tensor;
  output.copy_(sum);
}

}  // namespace

HmcBackend::HmcBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout,
                       std::string name, std::string group_name, std::vector<std::int64_t> ranks)
    : Base(rank, size), name_(std::move(name)) {
#if TORCH_VERSION_MAJOR >= 2
  options_ = c10::make_intrusive<Options>("hmc", timeout);
#else
  timeout_ = timeout;
#endif
  std::string name_of_group =
      " [process group '" + group_name + "', rank " + std::to_string(rank) + " of " + std::to_string(size);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<std::size_t>(ranks[i]) == i) continue;
    name_of_group += "; its ranks are the global ranks";
    for (const std::int64_t each : ranks) name_of_group += " " + std::to_string(each);
    break;
  }
  context_ = std::make_shared<const std::string>(std::move(name_of_group));
  try {
    StoreOfTorch over(*store);
    // Rank 0's process serves the store. Torch 1.13 uses it once more when the group is constructed.
    group_ =
        std::make_shared<Group>(over, rank, size, timeout, std::make_shared<c10::intrusive_ptr<c10d::Store>>(store));
    devices_ = std::make_shared<DeviceWindow>(group_->retired());
  } catch (const Failure& failed) {
    TORCH_CHECK(false, failed.what(), *context_, "]");
  }
}

Milliseconds HmcBackend::timeout_of(Milliseconds timeout) const {
  return timeout > Milliseconds{0} ? timeout : default_timeout();
}

/// The profiler's name of an operation; null if it doesn't record.
const char* HmcBackend::title(const char* name) {
  if (!at::hasCallbacks()) [[likely]]
    return nullptr;
  static thread_local std::string text;
  text = name_ + ":" + name;
  return text.c_str();
}

template <typename Call>
Handle HmcBackend::start(const char* name, c10d::OpType type, const Call& opts, std::size_t bytes, Tensors inputs,
                         Tensors outputs, std::function<void(Team&)> body) {
  auto collective = std::make_shared<Collective>();
  collective->name = name;
  collective->timeout = timeout_of(opts.timeout);
  collective->is_large = bytes >= large_bytes;
  collective->group = context_;
  collective->sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  collective->outputs = std::move(outputs);
  collective->body = std::move(body);
  auto work = c10::make_intrusive<CollectiveWork>(rank_, type, title(name), inputs, group_, collective);
  try {
    if (is_async(opts)) {
      group_->post(collective);
    } else {
      group_->run(collective);
      collective->rethrow();
    }
  } catch (const Failure& failed) {
    raise_interrupt();
    TORCH_CHECK(false, "hmc: ", name, ": ", failed.what(), collective->context());
  }
  return work;
}

Handle HmcBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const Caller caller = from("broadcast");
  const at::Tensor& tensor = single(tensors, caller);
  const int root = static_cast<int>(opts.rootRank);
  Plain memory(tensor, root == rank_ ? Use::in : Use::out, caller);
  const std::size_t bytes = memory.bytes();
  return start("broadcast", c10d::OpType::BROADCAST, opts, bytes, tensors, tensors,
               [memory = std::move(memory), root](Team& team) {
                 team.broadcast(memory.data(), memory.bytes(), root);
                 memory.store();
               });
}

Handle HmcBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const Caller caller = from("all_reduce");
  const at::Tensor& tensor = single(tensors, caller);
  if (tensor.layout() != c10::kStrided) return allreduce_sparse(tensors, opts);
  How how(opts.reduceOp, tensor, caller);
  Plain memory(tensor, Use::in_out, caller);
  const std::size_t bytes = memory.bytes();
  return start("all_reduce", c10d::OpType::ALLREDUCE, opts, bytes, tensors, tensors,
               [memory = std::move(memory), how = std::move(how), devices = devices_](Team& team) {
                 allreduce_tensor(team, *devices, memory, how);
               });
}

Handle HmcBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const Caller caller = from("all_reduce");
  const at::Tensor& tensor = single(tensors, caller);
  if (tensor.layout() == c10::kStrided) return allreduce(tensors, opts);
  TORCH_CHECK(tensor.layout() == c10::kSparse && tensor.device().is_cpu() && opts.reduceOp.op_ == RedOp::SUM, caller,
              "sparse tensors must be COO tensors on the CPU, and the reduction SUM");
  return start("all_reduce", c10d::OpType::ALLREDUCE, opts, large_bytes, tensors, tensors,
               [tensor](Team& team) { allreduce_sparse_tensor(team, tensor); });
}

Handle HmcBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const Caller caller = from("all_reduce_coalesced");
  TORCH_CHECK(!tensors.empty(), caller, "needs at least one tensor");
  for (const at::Tensor& each : tensors) TORCH_CHECK(each.layout() == c10::kStrided, caller, "needs dense tensors");
  const std::size_t bytes = bytes_of(tensors);
  const bool same = std::all_of(tensors.begin(), tensors.end(),
                                [&](const at::Tensor& each) { return each.scalar_type() == tensors[0].scalar_type(); });
  const How how(opts.reduceOp, tensors[0], caller);
  if (same && bytes <= coalesced_bytes && !how.premultiplier && !DeviceWindow::suits(tensors[0])) {
    PlainList memory(tensors, Use::in_out, caller);
    return start("all_reduce", c10d::OpType::ALLREDUCE_COALESCED, opts, bytes, tensors, tensors,
                 [memory = std::move(memory), how](Team& team) {
                   team.allreduce(memory.data(), memory.data(), memory.bytes() / size_of(how.element.type),
                                  how.element.type, how.op);
                   memory.store();
                 });
  }
  std::vector<std::pair<Plain, How>> parts;
  for (const at::Tensor& each : tensors)
    parts.emplace_back(Plain(each, Use::in_out, caller), How(opts.reduceOp, each, caller));
  return start("all_reduce", c10d::OpType::ALLREDUCE_COALESCED, opts, bytes, tensors, tensors,
               [parts = std::move(parts), devices = devices_](Team& team) {
                 for (const auto& [memory, how] : parts) allreduce_tensor(team, *devices, memory, how);
               });
}

Handle HmcBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const Caller caller = from("reduce");
  const at::Tensor& tensor = single(tensors, caller);
  const int root = static_cast<int>(opts.rootRank);
  How how(opts.reduceOp, tensor, caller);
  Plain memory(tensor, root == rank_ ? Use::in_out : Use::in, caller);
  const std::size_t bytes = memory.bytes();
  return start("reduce", c10d::OpType::REDUCE, opts, bytes, tensors, tensors,
               [memory = std::move(memory), how = std::move(how), root](Team& team) {
                 const void* in = memory.data();
                 at::Tensor scaled;
                 if (how.premultiplier) {
                   scaled = how.premultiplied(memory.tensor());
                   in = scaled.data_ptr();
                 }
                 void* const out = team.rank() == root ? memory.data() : nullptr;
                 team.reduce(in, out, how.count(memory.tensor()), how.element.type, how.op, root);
                 memory.store();
               });
}

Handle HmcBackend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const Caller caller = from("all_gather");
  const Tensors& list = single(outputs, caller);
  const at::Tensor& input = single(inputs, caller);
  TORCH_CHECK(list.size() == static_cast<std::size_t>(size_), caller, "needs ", size_,
              " output tensors, one per rank, not ", list.size());
  for (const at::Tensor& each : list) require_same_type(each, input, caller);
  TORCH_CHECK(list[static_cast<std::size_t>(rank_)].nbytes() == input.nbytes(), caller, "rank ", rank_,
              "'s output has ", list[static_cast<std::size_t>(rank_)].nbytes(), " bytes, its input ", input.nbytes());
  Plain in(input, Use::in, caller);
  PlainList out(list, Use::out, caller);
  const std::size_t bytes = out.bytes();
  return start("all_gather", c10d::OpType::ALLGATHER, opts, bytes, inputs, list,
               [in = std::move(in), out = std::move(out)](Team& team) {
                 if (are_equal(out.sizes()))
                   team.allgather(in.data(), out.data(), in.bytes());
                 else
                   team.allgatherv(in.data(), out.data(), out.sizes());
                 out.store();
               });
}

Handle HmcBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  const Caller caller = from("all_gather_into_tensor");
  require_same_type(output, input, caller);
  TORCH_CHECK(output.numel() == input.numel() * size_, caller, "the output has ", output.numel(),
              " elements; it needs ", size_, " * ", input.numel());
  Plain in(input, Use::in, caller), out(output, Use::out, caller);
  const std::size_t bytes = out.bytes();
  return start("_all_gather_base", c10d::OpType::_ALLGATHER_BASE, opts, bytes, {input}, {output},
               [in = std::move(in), out = std::move(out)](Team& team) {
                 team.allgather(in.data(), out.data(), in.bytes());
                 out.store();
               });
}

Handle HmcBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const Caller caller = from("all_gather_coalesced");
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(size_), caller, "needs ", size_,
              " output lists, one per rank, not ", outputs.size());
  Tensors all;
  for (const Tensors& each : outputs) {
    TORCH_CHECK(each.size() == inputs.size(), caller, "an output list has ", each.size(), " tensors, the input ",
                inputs.size());
    for (std::size_t i = 0; i < each.size(); ++i)
      TORCH_CHECK(each[i].nbytes() == inputs[i].nbytes() && each[i].scalar_type() == inputs[i].scalar_type(), caller,
                  "output ", i, " has another size or type than the input");
    all.insert(all.end(), each.begin(), each.end());
  }
  PlainList in(inputs, Use::in, caller);
  PlainList out(all, Use::out, caller);
  const std::size_t bytes = out.bytes();
  return start("all_gather", c10d::OpType::ALLGATHER_COALESCED, opts, bytes, inputs, all,
               [in = std::move(in), out = std::move(out)](Team& team) {
                 team.allgather(in.data(), out.data(), in.bytes());
                 out.store();
               });
}

Handle HmcBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& opts) {
  const Caller caller = from("all_gather_into_tensor_coalesced");
  TORCH_CHECK(outputs.size() == inputs.size(), caller, inputs.size(), " inputs, ", outputs.size(), " outputs");
  std::vector<std::pair<Plain, Plain>> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_same_type(outputs[i], inputs[i], caller);
    TORCH_CHECK(outputs[i].numel() == inputs[i].numel() * size_, caller, "output ", i, " has ", outputs[i].numel(),
                " elements; it needs ", size_, " * ", inputs[i].numel());
    parts.emplace_back(Plain(inputs[i], Use::in, caller), Plain(outputs[i], Use::out, caller));
  }
  return start("all_gather", c10d::OpType::ALLGATHER_COALESCED, opts, bytes_of(outputs), inputs, outputs,
               [parts = std::move(parts)](Team& team) {
                 for (const auto& [in, out] : parts) {
                   team.allgather(in.data(), out.data(), in.bytes());
                   out.store();
                 }
               });
}

Handle HmcBackend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const Caller caller = from("gather");
  const at::Tensor& input = single(inputs, caller);
  const int root = static_cast<int>(opts.rootRank);
  Tensors list;
  if (root == rank_) {
    list = single(outputs, caller);
    TORCH_CHECK(list.size() == static_cast<std::size_t>(size_), caller, "needs ", size_,
                " output tensors on the root, one per rank, not ", list.size());
    for (const at::Tensor& each : list) {
      require_same_type(each, input, caller);
      TORCH_CHECK(each.nbytes() == input.nbytes(), caller, "an output tensor has ", each.nbytes(), " bytes, the input ",
                  input.nbytes());
    }
  } else {
    TORCH_CHECK(outputs.empty() || outputs[0].empty(), caller, "only the root has output tensors");
  }
  Plain in(input, Use::in, caller);
  PlainList out(list, Use::out, caller);
  const std::size_t bytes = in.bytes() * static_cast<std::size_t>(size_);
  return start("gather", c10d::OpType::GATHER, opts, bytes, inputs, list,
               [in = std::move(in), out = std::move(out), root](Team& team) {
                 team.gather(in.data(), out.data(), in.bytes(), root);
                 out.store();
               });
}

Handle HmcBackend::gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts) {
  const Caller caller = from("gather_into_tensor");
  const int root = static_cast<int>(opts.rootRank);
  Plain in(input, Use::in, caller), out;
  if (root == rank_) {
    require_same_type(output, input, caller);
    TORCH_CHECK(output.numel() == input.numel() * size_, caller, "the output has ", output.numel(),
                " elements; it needs ", size_, " * ", input.numel());
    out = Plain(output, Use::out, caller);
  }
  const std::size_t bytes = in.bytes() * static_cast<std::size_t>(size_);
  return start("gather", c10d::OpType::GATHER, opts, bytes, {input}, {output},
               [in = std::move(in), out = std::move(out), root](Team& team) {
                 const bool is_root = team.rank() == root;
                 team.gather(in.data(), is_root ? out.data() : nullptr, in.bytes(), root);
                 if (is_root) out.store();
               });
}

Handle HmcBackend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  const Caller caller = from("scatter");
  const at::Tensor& output = single(outputs, caller);
  const int root = static_cast<int>(opts.rootRank);
  Tensors list;
  if (root == rank_) {
    list = single(inputs, caller);
    TORCH_CHECK(list.size() == static_cast<std::size_t>(size_), caller, "needs ", size_,
                " input tensors on the root, one per rank, not ", list.size());
    for (const at::Tensor& each : list) {
      require_same_type(output, each, caller);
      TORCH_CHECK(each.nbytes() == output.nbytes(), caller, "an input tensor has ", each.nbytes(),
                  " bytes, the output ", output.nbytes());
    }
  } else {
    TORCH_CHECK(inputs.empty() || inputs[0].empty(), caller, "only the root has input tensors");
  }
  Plain out(output, Use::out, caller);
  PlainList in(list, Use::in, caller);
  const std::size_t bytes = out.bytes() * static_cast<std::size_t>(size_);
  return start("scatter", c10d::OpType::SCATTER, opts, bytes, list, outputs,
               [in = std::move(in), out = std::move(out), root](Team& team) {
                 team.scatter(in.data(), out.data(), out.bytes(), root);
                 out.store();
               });
}

Handle HmcBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) {
  const Caller caller = from("reduce_scatter");
  const at::Tensor& output = single(outputs, caller);
  const Tensors& list = single(inputs, caller);
  TORCH_CHECK(list.size() == static_cast<std::size_t>(size_), caller, "needs ", size_,
              " input tensors, one per rank, not ", list.size());
  How how(opts.reduceOp, output, caller);
  for (const at::Tensor& each : list) require_same_type(output, each, caller);
  TORCH_CHECK(list[static_cast<std::size_t>(rank_)].numel() == output.numel(), caller, "input ", rank_, " has ",
              list[static_cast<std::size_t>(rank_)].numel(), " elements, the output ", output.numel());
  PlainList in(list, Use::in, caller);
  Plain out(output, Use::out, caller);
  const std::size_t bytes = in.bytes();
  return start("reduce_scatter", c10d::OpType::REDUCE_SCATTER, opts, bytes, list, outputs,
               [in = std::move(in), out = std::move(out), how = std::move(how)](Team& team) {
                 const void* data = in.data();
                 at::Tensor scaled;
                 if (how.premultiplier && in.bytes() != 0) {
                   const at::Tensor& like = out.tensor();
                   const auto count = static_cast<std::int64_t>(in.bytes() / like.element_size());
                   scaled = how.premultiplied(at::from_blob(in.data(), {count}, like.options()));
                   data = scaled.data_ptr();
                 }
                 const Apart result(data, in.bytes(), out.data(), out.bytes());
                 if (are_equal(in.sizes())) {
                   team.reduce_scatter(data, result.data(), how.count(out.tensor()), how.element.type, how.op);
                 } else {
                   std::vector<std::size_t> counts;
                   for (const std::size_t each : in.sizes()) counts.push_back(each / size_of(how.element.type));
                   team.reduce_scatterv(data, result.data(), counts, how.element.type, how.op);
                 }
                 result.store();
                 out.store();
               });
}

Handle HmcBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  Tensors inputs{input}, outputs{output};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

Handle HmcBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  const Caller caller = from("reduce_scatter_tensor");
  TORCH_CHECK(outputs.size() == inputs.size(), caller, inputs.size(), " inputs, ", outputs.size(), " outputs");
  struct Part {
    Plain in, out;
    How how;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_same_type(outputs[i], inputs[i], caller);
    TORCH_CHECK(inputs[i].numel() == outputs[i].numel() * size_, caller, "the input has ", inputs[i].numel(),
                " elements; it needs ", size_, " * ", outputs[i].numel());
    parts.push_back({Plain(inputs[i], Use::in, caller), Plain(outputs[i], Use::out, caller),
                     How(opts.reduceOp, outputs[i], caller)});
  }
  return start("_reduce_scatter_base", c10d::OpType::_REDUCE_SCATTER_BASE, opts, bytes_of(inputs), inputs, outputs,
               [parts = std::move(parts)](Team& team) {
                 for (const Part& part : parts) {
                   if (part.out.tensor().numel() == 0) continue;
                   reduce_scatter_plain(team, part.in.data(), part.out.tensor(), part.in.tensor(), part.how);
                   part.out.store();
                 }
               });
}

namespace {

/// The bytes per rank: `rows` of the tensor's first dimension, or equal parts.
std::vector<std::size_t> block_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int ranks,
                                     const Caller& caller, const char* what) {
  const auto all = static_cast<std::size_t>(ranks);
  const std::int64_t length = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    TORCH_CHECK(length % ranks == 0, caller, "the ", what, "'s first dimension, ", length, ", can't be divided by ",
                ranks, " ranks");
    return std::vector<std::size_t>(all, tensor.nbytes() / all);
  }
  TORCH_CHECK(rows.size() == all, caller, rows.size(), " ", what, " splits for ", ranks, " ranks");
  const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  TORCH_CHECK(sum == length, caller, "the ", what, " splits sum to ", sum, ", its first dimension is ", length);
  TORCH_CHECK(std::all_of(rows.begin(), rows.end(), [](std::int64_t each) { return each >= 0; }), caller, "the ", what,
              " splits have a negative number");
  const std::size_t row = length == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(length);
  std::vector<std::size_t> bytes;
  for (const std::int64_t each : rows) bytes.push_back(static_cast<std::size_t>(each) * row);
  return bytes;
}

}  // namespace

Handle HmcBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                                 std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& opts) {
  const Caller caller = from("all_to_all");
  require_same_type(output, input, caller);
  std::vector<std::size_t> sent = block_bytes(input, input_rows, size_, caller, "input");
  std::vector<std::size_t> received = block_bytes(output, output_rows, size_, caller, "output");
  Plain in(input, Use::in, caller), out(output, Use::out, caller);
  const std::size_t bytes = in.bytes();
  // Always the form with counts: the ranks must make the same call, and one rank may have no splits where others do.
  return start(
      "all_to_all", c10d::OpType::ALLTOALL_BASE, opts, bytes, {input}, {output},
      [in = std::move(in), out = std::move(out), sent = std::move(sent), received = std::move(received)](Team& team) {
        const Apart result(in.data(), in.bytes(), out.data(), out.bytes());
        team.alltoallv(in.data(), sent, {}, result.data(), received, {});
        result.store();
        out.store();
      });
}

Handle HmcBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  const Caller caller = from("all_to_all");
  const auto ranks = static_cast<std::size_t>(size_);
  TORCH_CHECK(inputs.size() == ranks && outputs.size() == ranks, caller, "needs ", ranks,
              " input and output tensors, not ", inputs.size(), " and ", outputs.size());
  for (std::size_t i = 0; i < ranks; ++i) require_same_type(outputs[i], inputs[i], caller);
  PlainList in(inputs, Use::in, caller), out(outputs, Use::out, caller);
  const std::size_t bytes = in.bytes();
  return start("all_to_all", c10d::OpType::ALLTOALL, opts, bytes, inputs, outputs,
               [in = std::move(in), out = std::move(out)](Team& team) {
                 const Apart result(in.data(), in.bytes(), out.data(), out.bytes());
                 team.alltoallv(in.data(), in.sizes(), {}, result.data(), out.sizes(), {});
                 result.store();
                 out.store();
               });
}

Handle HmcBackend::barrier(const c10d::BarrierOptions& opts) {
  return start("barrier", c10d::OpType::BARRIER, opts, 0, {}, {}, [](Team& team) { team.barrier(); });
}

// ---- memory in windows

at::Tensor HmcBackend::empty(const std::vector<std::int64_t>& sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().is_cpu(), from("empty"), "only tensors in host memory can be in a window");
  std::int64_t count = 1;
  for (const std::int64_t each : sizes) count *= each;
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  auto window = std::make_shared<Window>();
  c10d::BarrierOptions opts;
  start("empty", c10d::OpType::UNKNOWN, opts, 0, {}, {}, [window, bytes](Team& team) {
    *window = Window::create(team, std::max<std::size_t>(bytes, 1));
  })->wait();
  void* const data = window->data();
  return at::from_blob(
      data, sizes, [window, retired = group_->retired()](void*) { retired->add(std::move(*window)); }, options);
}

#if HMC_TORCH_AT_LEAST(2, 14)
c10::intrusive_ptr<c10d::Backend> HmcBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  std::vector<std::int64_t> global(opts->global_ranks_in_group.begin(), opts->global_ranks_in_group.end());
  return c10::make_intrusive<HmcBackend>(store, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()),
                                         opts->timeout, name_, opts->group_name, std::move(global));
}
#endif

}  // namespace hmc::torch_adapter
