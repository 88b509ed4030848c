#include "runtime/transport/rdma/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <hmc/error.hpp>

namespace hmc::transport::rdma {

namespace {

template <typename Symbol> void resolve(void* library, const char* name, Symbol*& symbol) {
  symbol = reinterpret_cast<Symbol*>(::dlsym(library, name));
  if (symbol == nullptr) throw Error(Code::unavailable, "verbs", fmt::format("this libibverbs has no {}", name));
}

}  // namespace

Library::Library() {
  // RTLD_LOCAL: its symbols must not replace symbols of the program.
  void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(Code::unavailable, "verbs", fmt::format("can't load libibverbs: {}", ::dlerror()),
                "install libibverbs (Debian: libibverbs1 and ibverbs-providers)");
#define HMC_VERBS_RESOLVE(name) resolve(library, #name, this->name);
  HMC_VERBS_FUNCTIONS(HMC_VERBS_RESOLVE)
#undef HMC_VERBS_RESOLVE
  this->ibv_reg_dmabuf_mr = reinterpret_cast<decltype(this->ibv_reg_dmabuf_mr)>(::dlsym(library, "ibv_reg_dmabuf_mr"));
}

const Library& Library::get() {
  // One per process, like the loaded library; immutable after construction.
  static const Library library;
  return library;
}

}  // namespace hmc::transport::rdma
