#include "runtime/transport/ucx/remote_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include <hmc/error.hpp>

#include "runtime/base/deadline.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/ucx/ucx_link.hpp"

namespace hmc::transport::ucx {

namespace {

constexpr std::int64_t longest_connect_ns = 10'000'000'000;
/// Without RDMA a trial lasts this long. On a busy machine an RDMA put takes far less.
constexpr std::int64_t longest_trial_ns = 3'000'000'000;
constexpr std::int64_t longest_close_ns = 200'000'000;

ucs_status_t map_memory(Worker& worker, void* address, std::size_t bytes, ucp_mem_h& memory) noexcept {
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = address;
  params.length = bytes;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  return worker.ucp().ucp_mem_map(worker.context(), &params, &memory);
}

/// The objects of try_remote_memory(), released in reverse order of creation.
struct Trial {
  explicit Trial(Worker& of) : worker(of), ucp(of.ucp()) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (key != nullptr) ucp.ucp_rkey_destroy(key);
    if (endpoint != nullptr) {
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      (void)wait(ucp.ucp_ep_close_nbx(endpoint, &param), true, longest_close_ns);
    }
    if (packed != nullptr) ucp.ucp_rkey_buffer_release(packed);
    if (address != nullptr) ucp.ucp_worker_release_address(target, address);
    if (target != nullptr) ucp.ucp_worker_destroy(target);
    if (memory != nullptr) ucp.ucp_mem_unmap(worker.context(), memory);
  }

  /// The status of the request; UCS_INPROGRESS after the limit.
  ucs_status_t wait(ucs_status_ptr_t request, bool target_progresses, std::int64_t limit_ns) const noexcept {
    if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
    const std::int64_t limit = base::now_ns() + limit_ns;
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp.ucp_request_check_status(request)) == UCS_INPROGRESS && base::now_ns() < limit) {
      worker.progress();
      if (target_progresses) ucp.ucp_worker_progress(target);
    }
    ucp.ucp_request_free(request);
    return status;
  }
  /// Writes the value into the target's memory and waits until it is visible there.
  ucs_status_t write(const std::uint64_t& value, bool target_progresses, std::int64_t limit_ns) const noexcept {
    const ucp_request_param_t param{};
    const auto remote = reinterpret_cast<std::uint64_t>(words.data());
    const ucs_status_ptr_t put = ucp.ucp_put_nbx(endpoint, &value, sizeof value, remote, key, &param);
    const ucs_status_t status = wait(put, target_progresses, limit_ns);
    return status == UCS_OK ? wait(ucp.ucp_ep_flush_nbx(endpoint, &param), target_progresses, limit_ns) : status;
  }
  ucs_status_t read(std::uint64_t& value, std::int64_t limit_ns) const noexcept {
    const ucp_request_param_t param{};
    const auto remote = reinterpret_cast<std::uint64_t>(words.data());
    return wait(ucp.ucp_get_nbx(endpoint, &value, sizeof value, remote, key, &param), false, limit_ns);
  }

  std::string run();

  Worker& worker;
  const Library& ucp;
  bool is_connecting = false;
  alignas(64) std::array<std::uint64_t, 8> words{};  // the target's memory
  ucp_mem_h memory = nullptr;
  ucp_worker_h target = nullptr;
  ucp_address_t* address = nullptr;
  void* packed = nullptr;
  ucp_ep_h endpoint = nullptr;
  ucp_rkey_h key = nullptr;
};

/// Empty, or the reason why not.
std::string Trial::run() {
  const auto reason = [&](const char* what, ucs_status_t status) {
    return std::string(what) + ": " + ucp.ucs_status_string(status);
  };
  ucs_status_t status = map_memory(worker, words.data(), sizeof words, memory);
  if (status != UCS_OK) return reason("UCX can't register memory", status);
  try {
    target = worker.create_another();
  } catch (const Error& error) {
    return error.detail().message;
  }
  std::size_t bytes = 0;
  if ((status = ucp.ucp_worker_get_address(target, &address, &bytes)) != UCS_OK ||
      (status = ucp.ucp_rkey_pack(worker.context(), memory, &packed, &bytes)) != UCS_OK)
    return reason("no trial", status);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = address;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};  // the requests report it
  if ((status = ucp.ucp_ep_create(worker.handle(), &params, &endpoint)) != UCS_OK) {
    endpoint = nullptr;
    return reason("no trial connection", status);
  }
  if ((status = ucp.ucp_ep_rkey_unpack(endpoint, packed, &key)) != UCS_OK)
    return reason("UCX can't access the memory of a peer", status);

  // Static: a request that doesn't complete may keep their addresses.
  static const std::uint64_t first = 0x1122334455667788, second = 0x99aabbccddeeff00;
  static std::uint64_t got = 0;
  // The target takes part in the connection.
  is_connecting = true;
  if ((status = write(first, true, longest_connect_ns)) != UCS_OK) return reason("the first trial put", status);
  is_connecting = false;
  if ((status = write(second, false, longest_trial_ns)) == UCS_INPROGRESS)
    return "a trial put needed the target's progress";
  if (status == UCS_OK && (status = read(got, longest_trial_ns)) == UCS_INPROGRESS)
    return "a trial get needed the target's progress";
  if (status != UCS_OK) return reason("the trial put and get", status);
  if (got != second || words[0] != second) return "a trial put and get moved wrong bytes";
  return {};
}

}  // namespace

MemoryTrial try_remote_memory(Worker& worker) {
  auto trial = std::make_unique<Trial>(worker);
  MemoryTrial outcome{trial->run(), trial->is_connecting};
  if (trial->is_connecting) (void)trial.release();  // leaked, as the caller leaks the worker
  return outcome;
}

RemoteMemory::~RemoteMemory() {
  for (const Registered& each : registered_) worker_.ucp().ucp_mem_unmap(worker_.context(), each.memory);
}

base::Bytes RemoteMemory::add(std::byte* base, std::uint64_t bytes) {
  auto found = std::ranges::find_if(registered_,
                                    [&](const Registered& each) { return each.base == base && each.bytes == bytes; });
  if (found == registered_.end()) {
    registered_.reserve(registered_.size() + 1);
    Registered region{base, bytes, 0, nullptr};
    if (const ucs_status_t status = map_memory(worker_, base, bytes, region.memory); status != UCS_OK) {
      log_.warn("ucx: {} bytes can't be registered ({}): puts to them are messages", bytes,
                worker_.ucp().ucs_status_string(status));
      return {};
    }
    registered_.push_back(region);
    found = registered_.end() - 1;
  }
  void* packed = nullptr;
  std::size_t size = 0;
  if (const ucs_status_t status = worker_.ucp().ucp_rkey_pack(worker_.context(), found->memory, &packed, &size);
      status != UCS_OK) {
    log_.warn("ucx: no key for {} bytes ({}): puts to them are messages", bytes,
              worker_.ucp().ucs_status_string(status));
    return {};
  }
  ++found->uses;
  const auto* const first = static_cast<const std::byte*>(packed);
  base::Bytes key(first, first + size);
  worker_.ucp().ucp_rkey_buffer_release(packed);
  return key;
}

void RemoteMemory::remove(const std::byte* base, std::uint64_t bytes) noexcept {
  const auto found = std::ranges::find_if(
      registered_, [&](const Registered& each) { return each.base == base && each.bytes == bytes; });
  if (found == registered_.end() || --found->uses > 0) return;
  worker_.ucp().ucp_mem_unmap(worker_.context(), found->memory);
  registered_.erase(found);
}

std::uint64_t RemoteMemory::open(int rank, base::ByteView key) noexcept {
  UcxLink::Peer& peer = link_.peer(rank);
  ucp_rkey_h opened = nullptr;
  try {
    auto place = std::ranges::find(peer.keys, nullptr);
    if (place == peer.keys.end()) place = peer.keys.insert(place, nullptr);
    if (worker_.ucp().ucp_ep_rkey_unpack(peer.endpoint, key.data(), &opened) != UCS_OK) return 0;
    *place = opened;
    return static_cast<std::uint64_t>(place - peer.keys.begin()) + 1;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

void RemoteMemory::close(int rank, std::uint64_t number) noexcept {
  std::vector<ucp_rkey_h>& keys = link_.peer(rank).keys;
  if (number > keys.size() || keys[number - 1] == nullptr) return;  // the connection has ended
  worker_.ucp().ucp_rkey_destroy(std::exchange(keys[number - 1], nullptr));
}

base::Status RemoteMemory::move(am::Sending& record) noexcept {
  UcxLink::Peer& peer = link_.peer(record.peer->rank);
  record.context = &peer;
  const Library& ucp = worker_.ucp();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = UcxLink::on_sent;
  param.user_data = &record;
  ucs_status_ptr_t request = nullptr;
  if (record.message.kind == am::MessageKind::flush) {
    param.cb.send = on_flushed;
    request = ucp.ucp_ep_flush_nbx(peer.endpoint, &param);
    if (request == nullptr) peer.flushed = std::max(peer.flushed, record.message.first);
  } else {
    const std::uint64_t number = record.message.region;
    if (number == 0 || number > peer.keys.size() || peer.keys[number - 1] == nullptr)
      return base::Status::failure(Code::peer_failed, "the connection has ended", peer.rank);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;  // UCX then doesn't detect the memory type of the address
    const std::uint64_t remote = record.message.offset;
    const ucp_rkey_h key = peer.keys[number - 1];
    ++peer.moved;
    request =
        record.message.kind == am::MessageKind::put
            ? ucp.ucp_put_nbx(peer.endpoint, record.source, record.bytes, remote, key, &param)
            : ucp.ucp_get_nbx(peer.endpoint, const_cast<std::byte*>(record.source), record.bytes, remote, key, &param);
  }
  if (UCS_PTR_IS_PTR(request)) return base::Status::in_progress();
  return link_.status_of(request == nullptr ? UCS_OK : UCS_PTR_STATUS(request), peer.rank);
}

void RemoteMemory::on_flushed(void* request, ucs_status_t status, void* user_data) noexcept {
  const auto& record = *static_cast<am::Sending*>(user_data);
  UcxLink::Peer& peer = *static_cast<UcxLink::Peer*>(record.context);
  if (status == UCS_OK) peer.flushed = std::max(peer.flushed, record.message.first);
  UcxLink::on_sent(request, status, user_data);
}

}  // namespace hmc::transport::ucx
