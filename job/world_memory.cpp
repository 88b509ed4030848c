#include "job/world_memory.hpp"

#include <cstdint>
#include <memory>

#include "runtime/p2p/messenger.hpp"

namespace hmc::job {

namespace {

/// A rank's part of the window. One window has both sections, because each window costs the start a few rounds of the
/// control plane. A page of it takes memory at its first use.
struct Sections {
  std::uint64_t collectives = 0;  ///< at the start: see collectives::Arena, which has the section's length
  std::uint64_t messages;         ///< from here: see p2p::Layout
  std::uint64_t end;

  Sections(std::size_t arena_bytes, const p2p::Layout& layout)
      : messages(base::round_up(collectives + arena_bytes, base::page_size())), end(messages + layout.bytes()) {}
};

}  // namespace

void open_world(collectives::TeamObject& world, const collectives::Settings& settings) {
  const p2p::Layout layout(world.size(), world.all_direct());
  std::shared_ptr<rma::WindowCore> window;
  std::uint64_t messages_at = 0;
  world.create_engines(settings, [&](std::size_t arena_bytes, const collectives::PreparePart& prepare) {
    const Sections sections(arena_bytes, layout);
    messages_at = sections.messages;
    return window = rma::create_window(world, sections.end, rma::WindowCore::Role::lazy, prepare);
  });
  world.messages = std::make_unique<p2p::Messenger>(world, window, messages_at, layout);
}

}  // namespace hmc::job
