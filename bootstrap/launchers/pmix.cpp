#include "bootstrap/launchers/pmix.hpp"

#include <hmc/error.hpp>

#if HMC_HAVE_PMIX

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/base/fork.hpp"

namespace hmc::bootstrap {

namespace {

// clang-format off
#define HMC_PMIX_FUNCTIONS(X) \
  X(PMIx_Init) X(PMIx_Finalize) X(PMIx_Put) X(PMIx_Commit) X(PMIx_Fence) X(PMIx_Get) X(PMIx_Error_string)
// clang-format on

/// libpmix.so.2, opened at the first use and not linked: only jobs of such a launcher need it. Open MPI 5 names its own
/// library in two variables; its server prints errors if an older library connects.
struct Library {
  std::string why_not;
#define HMC_PMIX_POINTER(name) decltype(&::name) name = nullptr;
  HMC_PMIX_FUNCTIONS(HMC_PMIX_POINTER)
#undef HMC_PMIX_POINTER

  static const Library& get(const base::Env& env) {
    static const Library library(env);
    return library;
  }

 private:
  explicit Library(const base::Env& env) {
    const auto in_folder = [&](std::string_view variable, const char* rest) -> void* {
      const auto found = env.foreign.find(variable);
      // It must stay loaded, because it has a thread.
      return found == env.foreign.end()
                 ? nullptr
                 : ::dlopen((found->second + rest).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    };
    void* file = in_folder("OMPI_LIBDIR_LOC", "/openmpi/libpmix.so.2");
    if (file == nullptr) file = in_folder("OMPI_LIBDIR_LOC", "/libpmix.so.2");
    if (file == nullptr) file = in_folder("PMIX_PREFIX", "/lib/libpmix.so.2");
    if (file == nullptr) file = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (file == nullptr) {
      why_not = fmt::format("can't load libpmix: {}", ::dlerror());
      return;
    }
#define HMC_PMIX_RESOLVE(name)                                               \
  this->name = reinterpret_cast<decltype(this->name)>(::dlsym(file, #name)); \
  if (this->name == nullptr) why_not = "libpmix.so.2 has no " #name;
    HMC_PMIX_FUNCTIONS(HMC_PMIX_RESOLVE)
#undef HMC_PMIX_RESOLVE
  }
};

/// This process's connection to the server. PMIx counts its users in a process, so a program may also use MPI.
class PmixClient {
 public:
  explicit PmixClient(const base::Env& env) : library_(Library::get(env)), process_(base::this_process()) {
    require(library_.PMIx_Init(&self_, nullptr, 0), "PMIx_Init");
  }
  ~PmixClient() {
    if (base::this_process() == process_) (void)library_.PMIx_Finalize(nullptr, 0);
  }
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;

  int rank() const noexcept { return static_cast<int>(self_.rank); }
  int job_size() {
    const pmix_value_t* const value = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    return static_cast<int>(value->data.uint32);
  }
  void put(const std::string& key, const std::string& text) {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());
    require(library_.PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
    require(library_.PMIx_Commit(), "PMIx_Commit");
  }
  void fence(base::Deadline deadline) {
    pmix_info_t collect[2] = {};
    std::strncpy(collect[0].key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    collect[0].value.type = PMIX_BOOL;
    collect[0].value.data.flag = true;
    std::strncpy(collect[1].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    collect[1].value.type = PMIX_INT;
    collect[1].value.data.integer = std::max(1, deadline.left_ms() / 1000);
    require(library_.PMIx_Fence(nullptr, 0, collect, 2), "PMIx_Fence");
  }
  /// The value of rank 0.
  std::string text(const std::string& key) {
    const pmix_value_t* const value = get(0, key.c_str());
    if (value->type != PMIX_STRING || value->data.string == nullptr)
      throw Error(Code::error, "join", "PMIx: rank 0 published no text");
    return value->data.string;
  }
  unsigned next_job() noexcept { return jobs_++; }

 private:
  void require(pmix_status_t status, const char* call) const {
    if (status == PMIX_SUCCESS) return;
    throw Error(status == PMIX_ERR_TIMEOUT ? Code::timeout : Code::unavailable, "join",
                fmt::format("{}: {}", call, library_.PMIx_Error_string(status)), "hmcrun -np N ./app needs no PMIx");
  }
  /// The library allocates the value. It isn't freed: releasing it needs functions that differ between versions, and
  /// there are two per job.
  const pmix_value_t* get(pmix_rank_t rank, const char* key) {
    pmix_proc_t of = self_;
    of.rank = rank;
    pmix_value_t* value = nullptr;
    require(library_.PMIx_Get(&of, key, nullptr, 0, &value), "PMIx_Get");
    if (value == nullptr) throw Error(Code::error, "join", fmt::format("PMIx_Get returned no value of {}", key));
    return value;
  }

  const Library& library_;
  const std::uint64_t process_;
  pmix_proc_t self_{};
  unsigned jobs_ = 0;
};

class PmixExchange final : public RecordExchange {
 public:
  explicit PmixExchange(PmixClient& client) : client_(client), key_(fmt::format("hmc-{}", client.next_job())) {}
  void publish(const std::string& record, base::Deadline deadline) override {
    client_.put(key_, record);
    client_.fence(deadline);
  }
  std::string fetch(base::Deadline deadline) override {
    client_.fence(deadline);
    return client_.text(key_);
  }

 private:
  PmixClient& client_;
  const std::string key_;
};

}  // namespace

std::string why_no_pmix(const base::Env& env) { return Library::get(env).why_not; }

std::unique_ptr<RecordExchange> make_pmix(const base::Env& env, Member& member) {
  static PmixClient client(env);
  member.rank = client.rank();
  member.size = client.job_size();
  return std::make_unique<PmixExchange>(client);
}

}  // namespace hmc::bootstrap

#else

namespace hmc::bootstrap {

std::string why_no_pmix(const base::Env& /*env*/) { return "this build has no PMIx (libpmix-dev was missing)"; }
std::unique_ptr<RecordExchange> make_pmix(const base::Env& env, Member& /*member*/) {
  throw Error(Code::unavailable, "join", why_no_pmix(env));
}

}  // namespace hmc::bootstrap

#endif
