#include "runtime/device/open_streams.hpp"

#include <fmt/format.h>

#include "runtime/rma/operation_scope.hpp"

namespace hmc::rma {

using base::Status;

Status lies_with(const memory::Owner& owner, const void* buffer) noexcept {
  const memory::Owner of = memory::known_owner_of(buffer);
  const bool elsewhere = of.provider != owner.provider || of.info.device != owner.info.device;
  if (memory::is_host_accessible(of) || !elsewhere) return {};
  return Status::failure(Code::invalid_argument, "the buffer lies on another device than the team's calls on streams");
}

std::string first_objection(TeamCore& team, const std::string& mine) {
  base::ByteWriter out;
  out.text(mine);
  const auto answers = allgather_for(team.fabric(), team.exchange(), out.view(), team.fabric().deadline());
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    base::ByteReader in(answers[rank]);
    const std::string theirs = in.text();
    if (!theirs.empty())
      return fmt::format("not on the streams of rank {}'s device: {}", team.world_rank(static_cast<int>(rank)), theirs);
  }
  return {};
}

void throw_objection(const Fabric& fabric, const std::string& objection) {
  throw Error(Code::unsupported, fabric.operation.name(), objection,
              "the blocking form stages the buffers in host memory");
}

}  // namespace hmc::rma
