#include <hmc/runtime.hpp>

#include "job/job_core.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::spmd {

namespace {

class RuntimeMember final : public Member {
 public:
  explicit RuntimeMember(Runtime runtime) : runtime_(std::move(runtime)) {}

  void attach(TestRank& me) override {
    me.rank = runtime_.rank();
    me.size = runtime_.size();
    me.runtime = &runtime_;
  }
  void barrier() override { runtime_.world().barrier(); }
  void abort(const std::string& text) noexcept override { runtime_.abort(1, text); }
  void close() override { runtime_.close(); }

 private:
  Runtime runtime_;
};

class RuntimeJoiner final : public Joiner {
 public:
  std::unique_ptr<Member> join_as_thread(std::unique_ptr<bootstrap::Bootstrap> place, const base::Env& env) override {
    return std::make_unique<RuntimeMember>(Runtime(std::make_unique<job::JobCore>(std::move(place), env)));
  }
  std::unique_ptr<Member> join_as_process(const base::Env&) override {
    return std::make_unique<RuntimeMember>(Runtime::init());
  }
};

}  // namespace

std::unique_ptr<Joiner> over_runtime() { return std::make_unique<RuntimeJoiner>(); }

}  // namespace hmc::spmd
