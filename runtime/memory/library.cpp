#include "runtime/memory/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "runtime/base/env.hpp"

namespace hmc::memory {

Library::Library(const LibraryNames& names) {
  const std::string given = base::Env::library(names.variable);
  if (given == "none") {
    why_not_ = fmt::format("turned off by {}=none", names.variable);
    return;
  }
  if (!given.empty()) {
    open(given.c_str());
    if (handle_ == nullptr) why_not_ = fmt::format("{}: {}", names.variable, why_not_);
    return;
  }
  for (const char* file : names.files) {
    if (file == nullptr) break;
    open(file);
    if (handle_ != nullptr) return;
  }
  // The loader's message only repeats the last name and "No such file".
  const auto base = [](std::string_view file) { return file.substr(0, file.find(".so")); };
  std::string tried = names.files[0];
  for (std::size_t i = 1; i < names.files.size() && names.files[i] != nullptr; ++i)
    if (base(names.files[i]) != base(names.files[i - 1])) tried += fmt::format(", {}", names.files[i]);
  why_not_ = tried == names.files[0] ? fmt::format("{} isn't on this machine", tried)
                                     : fmt::format("none of {} is on this machine", tried);
}

bool Library::is_loaded(const LibraryNames& names) noexcept {
  const auto loaded = [](const char* file) {
    void* const handle = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) ::dlclose(handle);
    return handle != nullptr;
  };
  if (const std::string given = base::Env::library(names.variable); !given.empty())
    return given != "none" && loaded(given.c_str());
  for (const char* file : names.files)
    if (file != nullptr && loaded(file)) return true;
  return false;
}

unsigned long long Library::loads() noexcept {
  unsigned long long loads = 0;
  const auto take = [](dl_phdr_info* info, std::size_t, void* out) {
    *static_cast<unsigned long long*>(out) = info->dlpi_adds;
    return 1;  // stop: every entry has the same count
  };
  ::dl_iterate_phdr(take, &loads);
  return loads;
}

void Library::open(const char* name) {
  handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle_ == nullptr) {
    const char* const error = ::dlerror();
    why_not_ = error != nullptr ? error : "dlopen failed";
    return;
  }
  why_not_.clear();
  path_ = name;
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') path_ = map->l_name;
}

std::string Library::why_not() const {
  if (handle_ == nullptr) return why_not_;
  if (!missing_.empty()) return fmt::format("{} has no {}", path_, missing_);
  return {};
}

void* Library::find(const char* name) const noexcept { return handle_ == nullptr ? nullptr : ::dlsym(handle_, name); }

void* Library::demand(const char* name) {
  void* const found = find(name);
  if (found == nullptr && missing_.empty()) missing_ = name;
  return found;
}

}  // namespace hmc::memory
