#include "ucx_put.hpp"

#include <cstdlib>

#include "runtime/base/bytes.hpp"
#include "runtime/transport/ucx/worker.hpp"

namespace hmc::test {

struct UcxPut::Core {
  explicit Core(std::size_t bytes) : worker((::setenv("UCX_TLS", "tcp", 1), 2), "tcp", true), target(bytes) {}
  void complete(ucs_status_ptr_t request) {
    ucs_status_t status = UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
    while (status == UCS_INPROGRESS) {
      worker.progress();
      status = ucp.ucp_request_check_status(request);
    }
    if (UCS_PTR_IS_PTR(request)) ucp.ucp_request_free(request);
    HMC_CHECK(status == UCS_OK);
  }
  transport::ucx::Worker worker;
  const transport::ucx::Library& ucp = worker.ucp();
  std::vector<std::byte> target;
  std::uint64_t target_address = 0;
  ucp_mem_h memory = nullptr;
  ucp_ep_h endpoint = nullptr;
  ucp_rkey_h key = nullptr;
};

UcxPut::UcxPut(Process& me, std::size_t bytes) : core_(std::make_unique<Core>(bytes)) {
  const auto& ucp = core_->ucp;
  ucp_mem_map_params_t map{};
  map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  map.address = core_->target.data();
  map.length = bytes;
  HMC_CHECK(ucp.ucp_mem_map(core_->worker.context(), &map, &core_->memory) == UCS_OK);
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  HMC_CHECK(ucp.ucp_rkey_pack(core_->worker.context(), core_->memory, &packed, &packed_bytes) == UCS_OK);
  base::ByteWriter out;
  out.number(reinterpret_cast<std::uint64_t>(core_->target.data())).blob(core_->worker.address());
  const base::Bytes mine = out.blob({static_cast<const std::byte*>(packed), packed_bytes}).take();
  ucp.ucp_rkey_buffer_release(packed);
  const std::vector<std::string> all = me.allgather(base::as_text(mine));
  base::ByteReader in(base::as_bytes(all.back()));
  core_->target_address = in.number<std::uint64_t>();
  const base::ByteView address = in.blob();
  const base::ByteView key = in.blob();
  ucp_ep_params_t to{};
  to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  to.address = reinterpret_cast<const ucp_address_t*>(address.data());
  HMC_CHECK(ucp.ucp_ep_create(core_->worker.handle(), &to, &core_->endpoint) == UCS_OK);
  HMC_CHECK(ucp.ucp_ep_rkey_unpack(core_->endpoint, key.data(), &core_->key) == UCS_OK);
}

UcxPut::~UcxPut() {
  core_->ucp.ucp_rkey_destroy(core_->key);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t closing = core_->ucp.ucp_ep_close_nbx(core_->endpoint, &param);
  while (UCS_PTR_IS_PTR(closing) && core_->ucp.ucp_request_check_status(closing) == UCS_INPROGRESS) progress();
  if (UCS_PTR_IS_PTR(closing)) core_->ucp.ucp_request_free(closing);
  core_->ucp.ucp_mem_unmap(core_->worker.context(), core_->memory);
}

void UcxPut::put(std::span<const Piece> pieces) {
  const ucp_request_param_t param{};
  std::vector<ucs_status_ptr_t> requests;
  for (const Piece& each : pieces)
    requests.push_back(core_->ucp.ucp_put_nbx(core_->endpoint, each.from, each.bytes, core_->target_address + each.at,
                                              core_->key, &param));
  requests.push_back(core_->ucp.ucp_ep_flush_nbx(core_->endpoint, &param));
  for (const ucs_status_ptr_t each : requests) core_->complete(each);
}

void UcxPut::progress() { core_->worker.progress(); }
std::span<const std::byte> UcxPut::memory() const { return core_->target; }

}  // namespace hmc::test
