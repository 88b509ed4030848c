// hmc::PhysicalMemory and hmc::Mapping on the fake drivers, between processes that aren't of a job. Each test is a rule
// of docs/vmm.md.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <functional>
#include <iterator>
#include <thread>

#include <hmc/copy.hpp>
#include <hmc/vmm.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd_passing.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t message_bytes = 121;
constexpr MemoryType types[] = {MemoryType::NVIDIA_GPU, MemoryType::AMD_GPU};

std::vector<unsigned char> bytes_of(const Mapping& mapping, std::size_t count) {
  std::vector<unsigned char> got(count);
  mapping.read(0, got.data(), count);
  return got;
}

/// A child process: this program as `--peer ...`, or another program. Its socket is its descriptor 3.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments, std::string program = "/proc/self/exe") {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    socket_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::close(socket_);
    if (pid_ <= 0) return;
    EXPECT_EQ(wait(), 0);
  }
  int socket() const { return socket_; }
  /// Reads the child's answer.
  char answer() const {
    char got = 0;
    return ::read(socket_, &got, 1) == 1 ? got : ' ';
  }
  void say(char word) const { EXPECT_EQ(::write(socket_, &word, 1), 1); }
  void kill() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(wait(), SIGKILL);
  }

 private:
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  int socket_ = -1;
  pid_t pid_ = -1;
};

std::string number(auto value) { return std::to_string(static_cast<long long>(value)); }

struct VmmRules : testing::Test {
  VmmRules() {
    for (const MemoryType type : types) {  // opens the libraries and runs their trials
      const Mapping first = PhysicalMemory::create(1, 0, type).map();
      (void)bytes_of(first, 1);
    }
    before_ = live();
    descriptors_ = descriptors();
  }
  void TearDown() override {
    EXPECT_EQ(live(), before_);
    EXPECT_EQ(descriptors(), descriptors_);
  }
  long live() const {
    long sum = 0;
    for (const Fake* fake : {&cuda_, &hip_})
      for (const char* kind : {"physical", "mapping", "reservation"}) sum += fake->live(kind);
    return sum;
  }
  static long descriptors() {
    long open = 0;
    for (int fd = 0; fd < 256; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return open;
  }
  const Fake& fake(MemoryType type) const { return type == MemoryType::NVIDIA_GPU ? cuda_ : hip_; }

  Fake cuda_{"cuda"}, hip_{"hip"};
  long before_ = 0, descriptors_ = 0;
};

/// Expects an Error with the code, and with the text in its line.
void expect_error(Code code, const std::string& text, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace

TEST_F(VmmRules, a_process_outside_of_any_job_shares_memory) {
  for (const MemoryType type : types) {
    const PhysicalMemory memory = PhysicalMemory::create(granularity + 1, 1, type);
    EXPECT_EQ(memory.size(), 2 * granularity);
    EXPECT_EQ(memory.device(), 1);
    EXPECT_EQ(memory.type(), type);
    Mapping mapping = memory.map();
    EXPECT_EQ(mapping.size(), memory.size());
    const auto sent = pattern(memory.size(), 7);
    mapping.write(0, sent.data(), sent.size());

    // By a message.
    const Child reader({"--peer", "receive", "7"});
    memory.send(reader.socket());
    EXPECT_EQ(reader.answer(), 'y');
    EXPECT_EQ(bytes_of(mapping, memory.size()), pattern(memory.size(), 8));
    const Child owner({"--peer", "own", number(type), "3"});
    const PhysicalMemory theirs = PhysicalMemory::receive(owner.socket());
    EXPECT_EQ(theirs.type(), type);
    Mapping seen = theirs.map();
    EXPECT_EQ(bytes_of(seen, 1000), pattern(1000, 3));
    const auto answer = pattern(1000, 4);
    seen.write(0, answer.data(), answer.size());
    owner.say('v');
    EXPECT_EQ(owner.answer(), 'y');

    // By a descriptor, which is close-on-exec, and which the importer may close at once.
    const int fd = memory.export_fd();
    EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
    const PhysicalMemory imported = PhysicalMemory::import_fd(fd, granularity + 1, 1, type);
    ::close(fd);
    EXPECT_EQ(imported.size(), memory.size());
    EXPECT_EQ(bytes_of(imported.map(), 1000), pattern(1000, 8));
  }
  // By a fabric handle: bytes.
  const Child owner({"--peer", "fabric", number(types[0]), "11"});
  FabricHandle handle;
  ASSERT_EQ(::read(owner.socket(), handle.bytes.data(), handle.bytes.size()), 64);
  const PhysicalMemory theirs = PhysicalMemory::import_fabric(handle, 1, 0, types[0]);
  EXPECT_EQ(bytes_of(theirs.map(), 1000), pattern(1000, 11));
  expect_error(Code::unsupported, "fabric", [] { (void)PhysicalMemory::create(1, 0, types[1]).export_fabric(); });
}

TEST_F(VmmRules, any_reference_may_end_first) {
  for (const MemoryType type : types) {
    // The memory before its mappings, twice.
    PhysicalMemory memory = PhysicalMemory::create(1, 0, type);
    Mapping mapping = memory.map();
    const auto sent = pattern(5000, 21);
    mapping.write(0, sent.data(), sent.size());
    const int fd = memory.export_fd();
    memory.close();
    memory.close();
    EXPECT_FALSE(memory.is_open());
    EXPECT_EQ(bytes_of(mapping, 5000), sent);
    // Then the mapping: the descriptor alone keeps the memory.
    mapping.unmap();
    mapping.unmap();
    EXPECT_FALSE(mapping.is_mapped());
    EXPECT_EQ(live(), before_);
    PhysicalMemory again = PhysicalMemory::import_fd(fd, 1, 0, type);
    ::close(fd);
    EXPECT_EQ(bytes_of(again.map(), 5000), sent);

    // An exporter that exits, and one that is killed.
    Mapping of_ended, of_killed;
    {
      const Child ends({"--peer", "own", number(type), "5"});
      of_ended = PhysicalMemory::receive(ends.socket()).map();
    }
    EXPECT_EQ(bytes_of(of_ended, 5000), pattern(5000, 5));
    Child killed({"--peer", "own", number(type), "6"});
    const PhysicalMemory theirs = PhysicalMemory::receive(killed.socket());
    of_killed = theirs.map();
    killed.kill();
    EXPECT_EQ(bytes_of(of_killed, 5000), pattern(5000, 6));
    EXPECT_EQ(bytes_of(theirs.map(), 5000), pattern(5000, 6));
    of_killed.write(0, sent.data(), sent.size());
    EXPECT_EQ(bytes_of(of_killed, 5000), sent);

    // An importer that is killed.
    const PhysicalMemory mine = PhysicalMemory::create(1, 0, type);
    Mapping kept = mine.map();
    kept.write(0, sent.data(), sent.size());
    Child holder({"--peer", "hold"});
    mine.send(holder.socket());
    EXPECT_EQ(holder.answer(), 'y');
    holder.kill();
    EXPECT_EQ(bytes_of(kept, 5000), sent);

    // A ConnBuffer keeps the mapping that was unmapped.
    ConnBuffer buffer = kept.conn_buffer();
    kept.unmap();
    std::vector<unsigned char> got(5000);
    EXPECT_EQ(buffer.readToCpu(got.data(), got.size()), status_t::SUCCESS);
    EXPECT_EQ(got, sent);
  }
}

TEST_F(VmmRules, each_import_is_a_reference_of_its_own) {
  for (const MemoryType type : types) {
    PhysicalMemory memory = PhysicalMemory::create(1, 0, type);
    Mapping own = memory.map();
    const int fd = memory.export_fd();
    PhysicalMemory first = PhysicalMemory::import_fd(fd, 1, 0, type),
                   second = PhysicalMemory::import_fd(fd, 1, 0, type);
    ::close(fd);
    Mapping one = first.map(), two = second.map();
    EXPECT_NE(one.data(), two.data());
    EXPECT_NE(one.data(), own.data());
    const auto sent = pattern(3000, 31);
    one.write(0, sent.data(), sent.size());
    EXPECT_EQ(bytes_of(two, 3000), sent);
    EXPECT_EQ(bytes_of(own, 3000), sent);
    first.close();
    one.unmap();
    own.unmap();
    memory.close();
    EXPECT_EQ(bytes_of(two, 3000), sent);
    // What an importer exports is the same memory.
    const int again = second.export_fd();
    second.close();
    two.unmap();
    EXPECT_EQ(live(), before_);
    EXPECT_EQ(bytes_of(PhysicalMemory::import_fd(again, 1, 0, type).map(), 3000), sent);
    ::close(again);
  }
}

TEST_F(VmmRules, access_of_a_mapping_is_enforced) {
  for (const MemoryType type : types) {
    const PhysicalMemory memory = PhysicalMemory::create(1, 0, type);
    Mapping writable = memory.map(), readable = memory.map(Access::read);
    const auto sent = pattern(4000, 41), other = pattern(4000, 42);
    writable.write(0, sent.data(), sent.size());
    EXPECT_EQ(readable.access(), Access::read);
    EXPECT_EQ(bytes_of(readable, 4000), sent);
    expect_error(Code::invalid_argument, "only reads", [&] { readable.write(0, other.data(), 4000); });
    // The device refuses it, too.
    expect_error(Code::error, "(1)", [&] { hmc::copy(readable.data(), other.data(), 4000); });
    EXPECT_EQ(bytes_of(readable, 4000), sent);
    expect_error(Code::invalid_argument, "only reads", [&] { (void)readable.conn_buffer(); });
    // An import for another device is read and written there.
    const int fd = memory.export_fd();
    Mapping elsewhere = PhysicalMemory::import_fd(fd, 1, 1, type).map();
    ::close(fd);
    EXPECT_EQ(bytes_of(elsewhere, 4000), sent);
    elsewhere.write(100, other.data(), 100);
    EXPECT_EQ(bytes_of(writable, 200)[150], other[50]);

    expect_error(Code::out_of_range, "exceed", [&] { writable.write(granularity - 1, sent.data(), 2); });
    expect_error(Code::out_of_range, "exceed", [&] { (void)bytes_of(writable, granularity + 1); });
    expect_error(Code::out_of_range, "exceed", [&] { writable.write(SIZE_MAX, sent.data(), 2); });
    expect_error(Code::invalid_argument, "null", [&] { writable.write(0, nullptr, 2); });
    Mapping moved = std::move(writable);
    expect_error(Code::closed, "empty", [&] { writable.write(0, sent.data(), 1); });  // NOLINT: moved-from is empty
    expect_error(Code::closed, "empty", [&] { (void)writable.conn_buffer(); });
    EXPECT_EQ(writable.data(), nullptr);
    EXPECT_EQ(writable.size(), 0u);
    EXPECT_EQ(bytes_of(moved, 100), std::vector<unsigned char>(sent.begin(), sent.begin() + 100));
  }
}

TEST_F(VmmRules, wrong_handle_size_or_device_is_an_error_and_leaves_nothing) {
  for (const MemoryType type : types) {
    const PhysicalMemory memory = PhysicalMemory::create(granularity, 0, type);
    const int fd = memory.export_fd();
    const long with_memory = live();
    const auto import = [&](int which, std::size_t bytes, int device) {
      return [=] { (void)PhysicalMemory::import_fd(which, bytes, device, type); };
    };
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    expect_error(Code::error, "exported handle", import(file, granularity, 0));
    expect_error(Code::error, "exported handle", import(pipe[0], granularity, 0));
    ::close(file), ::close(pipe[0]), ::close(pipe[1]);
    expect_error(Code::invalid_argument, "isn't an open descriptor", import(pipe[0], granularity, 0));
    expect_error(Code::invalid_argument, "isn't an open descriptor", import(-1, granularity, 0));
    expect_error(Code::invalid_argument, "size is 0", import(fd, 0, 0));
    expect_error(Code::error, "another size than 4194304 bytes", import(fd, 2 * granularity, 0));
    expect_error(Code::out_of_memory, "no device memory", import(fd, SIZE_MAX, 0));
    expect_error(Code::invalid_argument, "devices 0 to 1", import(fd, granularity, 2));
    expect_error(Code::invalid_argument, "devices 0 to 1", import(fd, granularity, -1));
    fake(type).set_peers(0);
    expect_error(Code::error, "device 1 may be unable to access", import(fd, granularity, 1));
    fake(type).set_peers(1);
    expect_error(Code::invalid_argument, "size is 0", [&] { (void)PhysicalMemory::create(0, 0, type); });
    expect_error(Code::invalid_argument, "devices 0 to 1", [&] { (void)PhysicalMemory::create(1, 2, type); });
    expect_error(Code::out_of_memory, "", [&] { (void)PhysicalMemory::create(std::size_t{1} << 40, 0, type); });
    const MemoryType other = type == types[0] ? types[1] : types[0];
    expect_error(Code::error, "exported handle", [&] { (void)PhysicalMemory::import_fd(fd, granularity, 0, other); });
    EXPECT_EQ(live(), with_memory);

    // Each of the driver's calls fails once.
    const auto share = [&] {
      const PhysicalMemory made = PhysicalMemory::create(1, 0, type);
      const int exported = made.export_fd();
      const std::unique_ptr<const int, void (*)(const int*)> closes(&exported, [](const int* open) { ::close(*open); });
      (void)PhysicalMemory::import_fd(exported, 1, 0, type).map(Access::read);
    };
    fake(type).arm("");
    share();
    int failed = 0;
    for (const auto& [call, times] : fake(type).seen()) {
      const bool ends = call.find("Unmap") != std::string::npos || call.find("AddressFree") != std::string::npos ||
                        call.find("Release") != std::string::npos || call.find("Pop") != std::string::npos ||
                        call.find("PointerGet") != std::string::npos || call.find("SetDevice") != std::string::npos;
      const int last = ends ? 0 : call.find("Mem") != std::string::npos ? times : 1;  // destructors enter devices, too
      for (int nth = 1; nth <= last; ++nth, ++failed) {
        fake(type).arm(call + ":" + std::to_string(nth) + ":719");
        expect_error(Code::error, call, share);
        fake(type).arm("");
        EXPECT_EQ(live(), with_memory) << call;
      }
    }
    EXPECT_GE(failed, 8);
    ::close(fd);
  }
  // Memory without handles.
  for (const MemoryType type : {MemoryType::CPU, MemoryType::NVIDIA_PINNED, MemoryType::AMD_MANAGED, MemoryType::OPENCL,
                                MemoryType::MOORE_GPU, MemoryType::ASCEND_NPU, static_cast<MemoryType>(99)}) {
    expect_error(Code::unsupported, "", [&] { (void)PhysicalMemory::create(1, 0, type); });
    expect_error(Code::unsupported, "", [&] { (void)PhysicalMemory::import_fd(0, 1, 0, type); });
    expect_error(Code::unsupported, "", [&] { (void)PhysicalMemory::import_fabric({}, 1, 0, type); });
  }
  const Provider& opencl = *all_providers().back();
  ASSERT_EQ(opencl.type(), MemoryType::OPENCL);
  if (opencl.why_not().empty())  // PoCL
    expect_error(Code::unsupported, "no call to export",
                 [] { (void)PhysicalMemory::create(1, 0, MemoryType::OPENCL); });
  expect_error(Code::error, "fabric handle", [] { (void)PhysicalMemory::import_fabric({}, 1, 0, types[0]); });
  PhysicalMemory closed = PhysicalMemory::create(1, 0, types[0]);
  closed.close();
  EXPECT_EQ(closed.size(), 0u);
  EXPECT_EQ(closed.device(), -1);
  expect_error(Code::closed, "closed", [&] { (void)closed.export_fd(); });
  expect_error(Code::closed, "closed", [&] { (void)closed.export_fabric(); });
  expect_error(Code::closed, "closed", [&] { (void)closed.map(); });
  expect_error(Code::closed, "closed", [&] { closed.send(0); });
}

TEST_F(VmmRules, malformed_message_is_an_error) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  PhysicalMemory memory = PhysicalMemory::create(1, 0, types[0]);
  const int fd = memory.export_fd();
  memory.send(ends[0]);
  std::vector<std::byte> good(message_bytes + 1);
  std::vector<base::UniqueFd> fds;
  ASSERT_EQ(base::receive_some(ends[1], good, fds).bytes, message_bytes);
  good.resize(message_bytes);
  fds.clear();
  const auto pass = [&](const std::vector<std::byte>& bytes, std::vector<int> descriptors) {
    EXPECT_EQ(base::send_some(ends[0], bytes, descriptors).bytes, bytes.size());
  };
  // Other messages of the stream stay.
  pass(good, {fd});
  EXPECT_EQ(::write(ends[0], "z", 1), 1);
  EXPECT_TRUE(PhysicalMemory::receive(ends[1], 0, 10s).is_open());
  char rest = 0;
  EXPECT_EQ(::read(ends[1], &rest, 1), 1);
  EXPECT_EQ(rest, 'z');
  // Every byte changed, in several ways. A byte of the identity or of the handle has no meaning here, and the size is
  // rounded up: then the memory is the right one, or there is an Error.
  int accepted = 0, refused = 0;
  for (std::size_t at = 0; at < message_bytes; ++at) {
    for (const int change : {0x01, 0x40, 0xff}) {
      auto bytes = good;
      bytes[at] ^= static_cast<std::byte>(change);
      pass(bytes, {fd});
      try {
        const PhysicalMemory received = PhysicalMemory::receive(ends[1], 0, 10s);
        EXPECT_EQ(received.size(), memory.size());
        EXPECT_GE(at, 9u) << "another format, kind or type";
        ++accepted;
      } catch (const Error& error) {
        EXPECT_NE(error.code(), Code::timeout) << at << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 30);
  EXPECT_GT(accepted, 100);
  // Without a descriptor, and with two.
  pass(good, {});
  expect_error(Code::invalid_argument, "0 descriptors", [&] { (void)PhysicalMemory::receive(ends[1], 0, 10s); });
  pass(good, {fd, fd});
  expect_error(Code::invalid_argument, "more than one", [&] { (void)PhysicalMemory::receive(ends[1], 0, 10s); });
  for (const std::byte each : {good[0], good[1]}) pass({each}, {fd});  // one with each byte
  expect_error(Code::invalid_argument, "more than one", [&] { (void)PhysicalMemory::receive(ends[1], 0, 10s); });
  // No message, and a part of one.
  expect_error(Code::timeout, "in time", [&] { (void)PhysicalMemory::receive(ends[1], 0, 1ms); });
  expect_error(Code::invalid_argument, "negative", [&] { (void)PhysicalMemory::receive(ends[1], 0, -5ns); });
  good.resize(50);
  pass(good, {fd});
  expect_error(Code::timeout, "in time", [&] { (void)PhysicalMemory::receive(ends[1], 0, 1ms); });
  pass(good, {fd});
  ::close(ends[0]);
  expect_error(Code::peer_failed, "closed the socket", [&] { (void)PhysicalMemory::receive(ends[1], 0, 10s); });
  expect_error(Code::peer_failed, "closed the socket", [&] { memory.send(ends[1]); });
  ::close(ends[1]);
  // A full socket, and descriptors that aren't one.
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  expect_error(Code::timeout, "in time", [&] {
    for (;;) memory.send(ends[0], 1ms);
  });
  ::close(ends[0]), ::close(ends[1]);
  for (const int wrong : {-1, fd}) {
    expect_error(Code::invalid_argument, "", [&] { memory.send(wrong, 1s); });
    expect_error(Code::invalid_argument, "", [&] { (void)PhysicalMemory::receive(wrong, 0, 1s); });
  }
  ::close(fd);
}

TEST_F(VmmRules, threads_map_export_and_import_at_once) {
  for (const MemoryType type : types) {
    const PhysicalMemory memory = PhysicalMemory::create(1, 0, type);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (unsigned round = 0; round < 50; ++round) {
          Mapping mapping = memory.map();
          const int fd = memory.export_fd();
          const auto sent = pattern(1000, 4 * round + i);
          mapping.write(i * 1000, sent.data(), sent.size());
          const Mapping seen = PhysicalMemory::import_fd(fd, 1, 0, type).map(Access::read);
          ::close(fd);
          std::vector<unsigned char> got(1000);
          seen.read(i * 1000, got.data(), got.size());
          if (got != sent) ADD_FAILURE() << i << " " << round;
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }
}

TEST_F(VmmRules, descriptor_is_cudas_own) {
  const std::string cuda = fake_path("cuda");
  const PhysicalMemory memory = PhysicalMemory::create(granularity, 0, types[0]);
  Mapping mapping = memory.map();
  const std::vector<unsigned char> sent(granularity, 77);
  mapping.write(0, sent.data(), sent.size());
  const Child importer({cuda, "import", std::to_string(granularity), "77"}, HMC_PLAIN_CUDA_PEER);
  const int fd = memory.export_fd();
  const std::byte any{1};
  EXPECT_EQ(base::send_some(importer.socket(), {&any, 1}, {fd}).bytes, 1u);
  ::close(fd);
  EXPECT_EQ(importer.answer(), 'y');
  EXPECT_EQ(bytes_of(mapping, granularity), std::vector<unsigned char>(granularity, 78));

  const Child exporter({cuda, "export", std::to_string(granularity), "55"}, HMC_PLAIN_CUDA_PEER);
  std::vector<base::UniqueFd> fds;
  base::IoResult got;
  std::byte byte{};
  while ((got = base::receive_some(exporter.socket(), {&byte, 1}, fds)).io == base::Io::would_block)
    std::this_thread::yield();
  ASSERT_EQ(fds.size(), 1u);
  Mapping theirs = PhysicalMemory::import_fd(fds[0].get(), granularity, 0, types[0]).map(Access::read);
  EXPECT_EQ(bytes_of(theirs, granularity), std::vector<unsigned char>(granularity, 55));
  fds.clear();
}

namespace {

void expect(bool is_true) {
  if (!is_true) ::_exit(1);
}

/// What a peer does; its socket is descriptor 3.
int serve(const std::vector<std::string>& words) {
  char word = 0;
  const std::string& task = words[0];
  if (task == "receive") {
    const PhysicalMemory memory = PhysicalMemory::receive(3, 1);
    Mapping mapping = memory.map();
    const auto seed = static_cast<unsigned>(std::stoi(words[1]));
    expect(bytes_of(mapping, memory.size()) == pattern(memory.size(), seed));
    const auto answer = pattern(memory.size(), seed + 1);
    mapping.write(0, answer.data(), answer.size());
    expect(::write(3, "y", 1) == 1);
    return 0;
  }
  if (task == "hold") {
    const Mapping mapping = PhysicalMemory::receive(3).map();
    expect(::write(3, "y", 1) == 1);
    return ::read(3, &word, 1) == 0 ? 0 : 1;
  }
  const PhysicalMemory memory = PhysicalMemory::create(1, 0, static_cast<MemoryType>(std::stoi(words[1])));
  const auto seed = static_cast<unsigned>(std::stoi(words[2]));
  Mapping mapping = memory.map();
  const auto sent = pattern(memory.size(), seed);
  mapping.write(0, sent.data(), sent.size());
  if (task == "own") {
    memory.send(3);
  } else {
    const FabricHandle handle = memory.export_fabric();
    expect(::write(3, handle.bytes.data(), handle.bytes.size()) == 64);
  }
  while (::read(3, &word, 1) == 1) {
    expect(word == 'v' && bytes_of(mapping, 1000) == pattern(1000, seed + 1));
    expect(::write(3, "y", 1) == 1);
  }
  return 0;
}

}  // namespace

}  // namespace hmc::memory

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  hmc::memory::use_fakes();
  ::setenv("FAKE_FABRIC", "1", 1);
  if (argc > 2 && std::string_view(argv[1]) == "--peer") {
    try {
      return hmc::memory::serve({argv + 2, argv + argc});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer: %s\n", error.what());
      return 1;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
