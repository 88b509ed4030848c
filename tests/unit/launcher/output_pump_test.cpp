#include "launcher/streams.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace hmc::launcher {
namespace {

/// A pump that writes to a file: this process's stdout is redirected to it while the test runs.
class OutputStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = ::testing::TempDir() + "pump_" + std::to_string(::getpid());
    saved_.reset(::dup(STDOUT_FILENO));
    const base::UniqueFd out(::open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
    ::dup2(out.get(), STDOUT_FILENO);
  }
  void TearDown() override {
    ::dup2(saved_.get(), STDOUT_FILENO);
    ::unlink(file_.c_str());
  }

  /// The write end of rank `rank`'s stdout.
  base::UniqueFd add(int rank) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    sources_.push_back({rank, false, base::UniqueFd(ends[0]), {}});
    return base::UniqueFd(ends[1]);
  }
  static void write(const base::UniqueFd& fd, const std::string& text) {
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string written() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  void wait_for(std::size_t bytes) const {
    while (written().size() < bytes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::string file_;
  base::UniqueFd saved_;
  base::Poller poller_;
  Mailbox mailbox_{poller_};
  std::vector<OutputSource> sources_;
};

TEST_F(OutputStreams, line_is_written_when_complete) {
  base::UniqueFd zero = add(0);
  base::UniqueFd one = add(1);
  {
    OutputPump pump(std::move(sources_), mailbox_);
    write(zero, "be");
    write(zero, "gin ");
    write(one, "other\n");
    wait_for(std::string("[1,stdout] other\n").size());
    write(zero, "end\nnext");
    zero.reset();
    one.reset();
  }
  EXPECT_EQ(written(), "[1,stdout] other\n[0,stdout] begin end\n[0,stdout] next\n");
}

TEST_F(OutputStreams, empty_lines_and_zero_bytes_are_kept) {
  base::UniqueFd zero = add(0);
  {
    OutputPump pump(std::move(sources_), mailbox_);
    write(zero, std::string("\n\na\0b\n", 6));
    zero.reset();
  }
  EXPECT_EQ(written(), std::string("[0,stdout] \n[0,stdout] \n[0,stdout] a\0b\n", 39));
}

TEST_F(OutputStreams, end_of_all_streams_is_reported) {
  base::UniqueFd zero = add(0);
  OutputPump pump(std::move(sources_), mailbox_);
  EXPECT_TRUE(mailbox_.take().empty());
  zero.reset();
  std::vector<SupervisorMessage> messages;
  while (messages.empty()) {
    poller_.wait();
    messages = mailbox_.take();
  }
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages.front().what, SupervisorMessage::What::output_done);
}

}  // namespace
}  // namespace hmc::launcher
