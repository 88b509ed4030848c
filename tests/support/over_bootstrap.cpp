#include "bootstrap/detect/detect.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::spmd {

namespace {

class BootstrapMember final : public Member {
 public:
  BootstrapMember(std::unique_ptr<bootstrap::Bootstrap> place, const base::Env& env)
      : place_(std::move(place)), timeout_(env.timeout) {}

  void attach(TestRank& me) override {
    me.rank = place_->rank();
    me.size = place_->size();
    me.bootstrap = place_.get();
  }
  void barrier() override { place_->barrier(base::Deadline::after(timeout_)); }
  void abort(const std::string& text) noexcept override { place_->abort(1, text); }
  void close() override {
    barrier();
    place_->leave();
  }

 private:
  std::unique_ptr<bootstrap::Bootstrap> place_;
  std::chrono::nanoseconds timeout_;
};

class BootstrapJoiner final : public Joiner {
 public:
  std::unique_ptr<Member> join_as_thread(std::unique_ptr<bootstrap::Bootstrap> place, const base::Env& env) override {
    return std::make_unique<BootstrapMember>(std::move(place), env);
  }
  std::unique_ptr<Member> join_as_process(const base::Env& env) override {
    return std::make_unique<BootstrapMember>(bootstrap::detect(env), env);
  }
};

}  // namespace

std::unique_ptr<Joiner> over_bootstrap() { return std::make_unique<BootstrapJoiner>(); }

}  // namespace hmc::spmd
