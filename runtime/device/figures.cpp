// Measurements only read, because the memory is in use. The result is the fastest of several repetitions.
#include "runtime/device/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <hmc/error.hpp>

namespace hmc::rma {

namespace {

template <typename Work> double fastest_us(int rounds, Work&& work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t start = base::now_ns();
    work();
    best = std::min(best, static_cast<double>(base::now_ns() - start) / 1e3);
  }
  return best;
}

void throw_if_bad(const base::Status& status) {
  if (!status.ok()) throw Error(status.code, "measure", status.what);
}

constexpr int words_read = 4, blocks_read = 3;
constexpr std::size_t measured_most = std::size_t{16} << 20, measured_least = std::size_t{64} << 10;

std::size_t measured_of(std::uint64_t bytes) noexcept {
  return bytes >= measured_least ? std::min<std::uint64_t>(bytes, measured_most) : 0;
}

void set_bandwidth(Fabric::Figures& figures, std::size_t bytes, double us) noexcept {
  figures.bytes = bytes;
  figures.gigabytes_per_s = static_cast<double>(bytes) / us / 1e3;
}

/// Bandwidth of a copy to the device's own memory, and latency of reading a word to the host.
Fabric::Figures measure(const DeviceMemory& memory, std::size_t bytes) {
  Fabric::Figures figures;
  std::uint64_t word = 0;
  const std::size_t small = std::min<std::uint64_t>(sizeof word, memory.bytes());
  figures.latency_us = fastest_us(words_read, [&] { throw_if_bad(memory.read_to_host(0, &word, small)); });
  if (bytes == 0) return figures;
  const memory::Owner& owner = memory.owner();
  const auto own = owner.provider->allocate(owner.info.device, bytes, memory::Backing::plain);
  set_bandwidth(figures, bytes, fastest_us(blocks_read, [&] {
                  throw_if_bad(owner.provider->copy({.destination = own->address,
                                                     .source = memory.allocation()->address,
                                                     .width = bytes,
                                                     .direction = memory::Direction::device_to_device,
                                                     .destination_device = owner.info.device,
                                                     .source_device = owner.info.device}));
                }));
  return figures;
}

}  // namespace

void measure_mapping(Fabric& fabric, int peer, const DeviceOffer& offer, const DeviceMemory& memory, Path& path) {
  const std::size_t bytes = memory::is_host_accessible(memory.owner()) ? 0 : measured_of(memory.bytes());
  const std::string of = fmt::format("{} {} {} {}", peer, path.wire, static_cast<int>(offer.type), offer.device);
  auto& known = fabric.device_figures;
  auto found = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.of == of; });
  if (found == known.end() || found->bytes < bytes) {
    try {
      Fabric::Figures figures = measure(memory, bytes);
      figures.of = of;
      if (found == known.end()) found = known.insert(known.end(), Fabric::Figures{});
      *found = std::move(figures);
    } catch (const Error& error) {
      path.why += not_measured + error.detail().message;
      return;
    }
  }
  path.gigabytes_per_s = found->gigabytes_per_s;
  path.latency_us = found->latency_us;
}

Fabric::Figures measure_reading(std::uint64_t bytes, const std::function<void(void*, std::size_t)>& read) {
  Fabric::Figures figures;
  const std::size_t block = measured_of(bytes), small = std::min<std::uint64_t>(sizeof(std::uint64_t), bytes);
  const auto to = std::make_unique<std::byte[]>(std::max(block, small));
  if (small > 0) figures.latency_us = fastest_us(words_read, [&] { read(to.get(), small); });
  if (block > 0) set_bandwidth(figures, block, fastest_us(blocks_read, [&] { read(to.get(), block); }));
  return figures;
}

}  // namespace hmc::rma
