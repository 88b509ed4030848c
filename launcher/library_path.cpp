#include "launcher/library_path.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/fd.hpp"

namespace hmc::launcher {

namespace {

/// What the loader reads of a program.
struct Dynamic {
  std::string interpreter;
  std::vector<std::string> needed;  ///< HMC's libraries only
  std::string run_path;             ///< RPATH and RUNPATH
};

/// Reads a program's headers. Every number in the file is checked, since it may be anything.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : in_(path, std::ios::binary) {}

  std::optional<Dynamic> dynamic() {
    ElfW(Ehdr) header{};
    if (!read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32)) return std::nullopt;
    Dynamic found;
    std::uint64_t at = 0, bytes = 0;
    for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
      ElfW(Phdr) segment{};
      if (!read(header.e_phoff + i * sizeof segment, segment)) return std::nullopt;
      if (segment.p_type == PT_LOAD) loaded_.push_back(segment);
      if (segment.p_type == PT_INTERP) found.interpreter = text(segment.p_offset);
      if (segment.p_type == PT_DYNAMIC) {
        at = segment.p_offset;
        bytes = segment.p_filesz;
      }
    }
    std::vector<ElfW(Dyn)> entries;
    ElfW(Dyn) entry{};
    for (std::uint64_t done = 0; done + sizeof entry <= bytes && read(at + done, entry) && entry.d_tag != DT_NULL;
         done += sizeof entry)
      entries.push_back(entry);
    std::uint64_t texts = 0;
    for (const ElfW(Dyn) & each : entries)
      if (each.d_tag == DT_STRTAB) texts = offset_of(each.d_un.d_ptr);
    if (texts == 0) return std::nullopt;
    for (const ElfW(Dyn) & each : entries) {
      if (each.d_tag == DT_RPATH || each.d_tag == DT_RUNPATH) found.run_path += ":" + text(texts + each.d_un.d_val);
      if (each.d_tag != DT_NEEDED) continue;
      std::string name = text(texts + each.d_un.d_val);
      if (name.starts_with("libhmc.so") || name.starts_with("libmf_smem.so")) found.needed.push_back(std::move(name));
    }
    return found;
  }

 private:
  template <typename T> bool read(std::uint64_t offset, T& out) {
    in_.clear();
    return in_.seekg(static_cast<std::streamoff>(offset)) && in_.read(reinterpret_cast<char*>(&out), sizeof out);
  }
  std::string text(std::uint64_t offset) {
    std::array<char, 4096> part{};
    in_.clear();
    if (in_.seekg(static_cast<std::streamoff>(offset))) in_.read(part.data(), part.size() - 1);
    return part.data();
  }
  std::uint64_t offset_of(std::uint64_t address) const {
    for (const ElfW(Phdr) & each : loaded_)
      if (address >= each.p_vaddr && address - each.p_vaddr < each.p_filesz)
        return address - each.p_vaddr + each.p_offset;
    return 0;
  }

  std::ifstream in_;
  std::vector<ElfW(Phdr)> loaded_;
};

bool has_all(const std::string& folder, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code error;
    return std::filesystem::exists(folder + "/" + name, error);
  });
}

/// True if one folder of the path has all of them.
bool is_on(std::string_view path, const std::string& origin, const std::vector<std::string>& names) {
  while (!path.empty()) {
    std::string folder(path.substr(0, path.find(':')));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    for (const std::string_view word : {"$ORIGIN", "${ORIGIN}"})
      if (const std::size_t at = folder.find(word); at != std::string::npos) folder.replace(at, word.size(), origin);
    if (!folder.empty() && has_all(folder, names)) return true;
  }
  return false;
}

/// Asks the loader itself, which also knows its cache and the system's folders. It maps the program's libraries and
/// runs nothing of them. True if it couldn't be asked.
bool loader_finds(const std::string& loader, const std::string& program, const std::vector<std::string>& names,
                  const Environment& environment) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return true;
  const base::UniqueFd out(ends[0]);
  base::UniqueFd in(ends[1]);
  std::vector<std::string> words{loader, program};
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (const std::string& entry : environment) envp.push_back(const_cast<char*>(entry.c_str()));
  std::string trace = "LD_TRACE_LOADED_OBJECTS=1";  // as ldd; --list fails at a missing library
  envp.push_back(trace.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, loader.c_str(), &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return true;
  in.reset();
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(out.get(), part.data(), part.size())) > 0 || (size < 0 && errno == EINTR);)
    if (size > 0) text.append(part.data(), static_cast<std::size_t>(size));
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return text.find(name + " => not found") != std::string::npos; });
}

}  // namespace

std::string library_path_for(const std::string& program, const Environment& environment) {
  const std::optional<Dynamic> dynamic = ElfFile(program).dynamic();
  if (!dynamic || dynamic->needed.empty()) return {};
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string folder = (self.parent_path() / HMC_BIN_TO_LIB).lexically_normal().string();
  if (error || !has_all(folder, dynamic->needed)) return {};
  const char* const path = value_of(environment, "LD_LIBRARY_PATH");
  const std::string given = path == nullptr ? "" : path;
  const std::string origin = std::filesystem::absolute(program, error).parent_path().string();
  if (is_on(dynamic->run_path, origin, dynamic->needed) || is_on(given, origin, dynamic->needed)) return {};
  if (dynamic->interpreter.empty() || loader_finds(dynamic->interpreter, program, dynamic->needed, environment))
    return {};
  return given.empty() ? folder : given + ":" + folder;
}

}  // namespace hmc::launcher
