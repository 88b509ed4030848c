#include "bench/osu/kit/buffers.hpp"

#include <cstdlib>
#include <cstring>
#include <hmc/error.hpp>
#include <utility>

namespace bench {
namespace {

constexpr std::size_t page = 4096;
std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

void Buffers::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffers::Buffers(hmc::Team& team, Place place, std::size_t local, std::size_t remote) {
  const std::size_t reached = remote_offset + whole_pages(remote);
  const bool in_window = place == Place::window;
  window_ = hmc::Window::create(team, reached + (in_window ? whole_pages(local) : 0));
  if (in_window) {
    local_ = window_.data() + reached;
  } else {
    private_.reset(static_cast<std::byte*>(std::aligned_alloc(page, whole_pages(local) + page)));
    if (!private_) throw hmc::Error(hmc::Code::out_of_memory, "bench", "no memory for the private buffers");
    local_ = private_.get();
  }
  std::memset(local_, 0, local);
}

}  // namespace bench
