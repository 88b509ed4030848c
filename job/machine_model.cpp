#include "job/machine_model.hpp"

#include <fmt/format.h>

#include <string_view>

#include <hmc/error.hpp>

#include "collectives/measure.hpp"
#include "collectives/select/parameters.hpp"
#include "job/wires.hpp"

namespace hmc::job {

using collectives::MachineKey;
using collectives::schedule::CostParameters;

namespace {

// Measurements in a sanitizer build don't describe the machine.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace

MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine) {
  MachineModel model;
  std::string text, why_not;
  if (!file.empty()) {
    if (!collectives::read_file(file, text))
      throw Error(Code::invalid_config, "parameters", fmt::format("{} can't be read", file), "give a file");
    if (!collectives::read_parameters(text, nullptr, model.parameters, why_not))
      throw Error(Code::invalid_config, "parameters", fmt::format("{} has no valid parameters: {}", file, why_not),
                  "pass a parameter file; a job on several nodes writes one to HMC_CACHE");
    model.origin = file;
    return model;
  }
  const auto place = MachineKey::here(
      env.transport.empty() ? wire_between_nodes(one_machine) : std::string_view(env.transport), one_machine);
  const std::string kept = place.file(env.cache);
  model.origin = "built in: nothing was measured here";
  if (!kept.empty() && collectives::read_file(kept, text)) {
    if (collectives::read_parameters(text, &place, model.parameters, why_not)) {
      model.origin = "measured here: " + kept;
      return model;
    }
    model.origin = fmt::format("built in ({} isn't used: {})", kept, why_not);
  }
  model.parameters = collectives::builtin_parameters(one_machine);
  return model;
}

NetworkModel::NetworkModel(const rma::Fabric& fabric, const std::vector<bootstrap::RankFacts>& facts,
                           const base::Env& env)
    : folder_(env.cache) {
  for (std::size_t rank = facts.size(); rank-- > 0;) {
    if (facts[rank].node != facts[0].node) partner_ = static_cast<int>(rank);
    one_machine_ = one_machine_ && facts[rank].machine == facts[0].machine;
  }
  for (const auto& wire : fabric.wires)
    if (wire_.empty() && !wire->capabilities().direct) wire_ = wire->name();
}

ModelGreeting NetworkModel::greet(const rma::Fabric& fabric) const {
  ModelGreeting greeting;
  if (partner_ < 0) return greeting;
  greeting.can_measure = !sanitized && !fabric.waiter.sleeps();
  if (fabric.rank != 0 || folder_.empty()) return greeting;
  const MachineKey place = MachineKey::here(wire_, one_machine_);
  const std::string file = place.file(folder_);
  CostParameters parameters;
  std::string text, why_not;
  if (!collectives::read_file(file, text)) return greeting;
  if (collectives::read_parameters(text, &place, parameters, why_not))
    greeting.cached = text;
  else
    fabric.log.warn("{} isn't used: {}", file, why_not);
  return greeting;
}

void NetworkModel::hear(int rank, ModelGreeting greeting) {
  if (rank == partner_) partner_can_measure_ = greeting.can_measure;
  if (rank == 0) first_ = std::move(greeting);
}

CostParameters NetworkModel::agree(rma::TeamCore& world) const {
  const base::Log& log = world.fabric().log;
  CostParameters parameters = collectives::builtin_parameters(one_machine_);
  if (partner_ < 0) return parameters;
  std::string why_not;
  if (!first_.cached.empty()) {
    if (!collectives::read_parameters(first_.cached, nullptr, parameters, why_not))
      throw Error(Code::refused, "Runtime::init", "rank 0 sent malformed parameters: " + why_not);
    if (world.rank() == 0) log.info("algorithms are chosen by cached measurements of {}", wire_);
    return parameters;
  }
  if (!first_.can_measure || !partner_can_measure_) {
    if (world.rank() == 0)
      log.info(
          "algorithms are chosen by built-in parameters: {} isn't measured (ranks outnumber cores, or a sanitizer "
          "build)",
          wire_);
    return parameters;
  }
  const auto measured = collectives::measure(world, partner_, parameters);
  if (!measured) {
    if (world.rank() == 0)
      log.info("algorithms are chosen by built-in parameters: the machine was too busy to measure {}", wire_);
    return parameters;
  }
  if (world.rank() != 0) return *measured;
  const collectives::schedule::LinkCost& link = measured->network;
  const MachineKey place = MachineKey::here(wire_, one_machine_);
  const std::string file = place.file(folder_);
  const bool kept = !file.empty() && collectives::write_whole(file, collectives::text_of(*measured, place));
  log.info("measured {}: L {:.0f} o {:.0f} g {:.0f} ns, {:.3f} ns a byte; {}", wire_, link.latency, link.overhead,
           link.gap, link.per_byte, kept ? "cached in " + file : "not cached");
  return *measured;
}

}  // namespace hmc::job
