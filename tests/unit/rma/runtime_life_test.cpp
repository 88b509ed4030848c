// Calls of a Runtime after a move or close.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "collectives/team/team_object.hpp"
#include "job/job_core.hpp"
#include "tests/support/code_of.hpp"

namespace hmc {
namespace {

Runtime alone() { return Runtime(std::make_unique<job::JobCore>(bootstrap::make_alone(), base::Env{})); }

TEST(RuntimeLife, moved_from_runtime_reports_closed) {
  Runtime first = alone();
  const Runtime second = std::move(first);
  EXPECT_EQ(second.rank(), 0);
  EXPECT_EQ(first.rank(), -1);
  EXPECT_EQ(first.size(), 0);
  EXPECT_EQ(first.node(), -1);
  EXPECT_EQ(first.node_count(), 0);
  EXPECT_EQ(first.timeout(), Timeout::zero());
  EXPECT_EQ(code_of([&] { first.close(); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)first.world(); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)first.path(0); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)first.node(0); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)first.counters(); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)first.launcher(); }), Code::closed);
  first.abort(1, "no rank gets this");
}

TEST(RuntimeLife, second_close_reports_closed) {
  Runtime runtime = alone();
  runtime.close();
  EXPECT_EQ(code_of([&] { runtime.close(); }), Code::closed);
}

TEST(RuntimeLife, close_after_a_failed_close_reports_it) {
  Runtime runtime = alone();
  class Failing final : public rma::Messages {
   public:
    explicit Failing(std::unique_ptr<rma::Messages> replaced) : replaced_(std::move(replaced)) {}
    void close() override {
      if (std::exchange(tried_, true)) ADD_FAILURE() << "it was started again";
      throw Error(Code::timeout, "Runtime::close", "a peer didn't come");
    }
    void report_unreceived() noexcept override {}
    void send(const rma::MessageCall&) override {}
    MessageStatus recv(const rma::MessageCall&) override { return {}; }
    Request isend(const rma::MessageCall&) override { return {}; }
    Request irecv(const rma::MessageCall&, MessageStatus*) override { return {}; }
    MessageStatus sendrecv(const rma::MessageCall&, const rma::MessageCall&) override { return {}; }
    MessageStatus probe(const rma::MessageCall&) override { return {}; }
    bool iprobe(const rma::MessageCall&, MessageStatus&) override { return false; }

   private:
    std::unique_ptr<rma::Messages> replaced_;  // the fabric refers to it
    bool tried_ = false;
  };
  auto& messages = runtime.world().object()->messages;
  messages = std::make_unique<Failing>(std::move(messages));
  EXPECT_EQ(code_of([&] { runtime.close(); }), Code::timeout);
  try {
    runtime.close();
    ADD_FAILURE() << "it was closed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::closed);
    EXPECT_NE(std::string(error.what()).find("earlier close failed"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hmc
