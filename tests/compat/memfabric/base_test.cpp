// MemFabric's base API: URLs, defaults, limits, errors, security, ranks. Each test is a process of its own.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <smem_config_store_api.h>
#include <smem_hmc.h>
#include <smem_trans.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/compat/processes.hpp"

namespace hmc::compat {
namespace {

using testing::Test;

int free_port(int family = AF_INET) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  socklen_t length = sizeof address;
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(socket);
  if (!bound) return -1;
  return ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                  : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string local_url() { return fmt::format("tcp://127.0.0.1:{}", free_port()); }

smem_bm_config_t bm_config() {
  smem_bm_config_t config;
  EXPECT_EQ(smem_bm_config_init(&config), SMEM_OK);
  config.initTimeout = 30;
  return config;
}

bool has_error(std::string_view part) {
  return std::string_view(smem_get_last_err_msg()).find(part) != std::string_view::npos;
}

// ---- errors and log lines

TEST(Base, last_error_belongs_to_its_thread) {
  EXPECT_EQ(smem_set_log_level(7), SMEM_INVALID_PARAM);
  EXPECT_TRUE(has_error("smem_set_log_level"));
  std::string other = "unset";
  std::thread([&] { other = smem_get_last_err_msg(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_TRUE(has_error("smem_set_log_level"));
  EXPECT_EQ(smem_set_log_level(2), SMEM_OK);
  EXPECT_TRUE(has_error("smem_set_log_level")) << "a success keeps the last error";
  EXPECT_NE(std::string(smem_get_and_clear_last_err_msg()), "");
  EXPECT_STREQ(smem_get_last_err_msg(), "");
  EXPECT_EQ(smem_get_last_err_code(), SMEM_OK);
}

std::vector<std::pair<int, std::string>> logged;  // NOLINT: the logger is a C function

TEST(Base, extern_logger_gets_lines_from_its_level) {
  ASSERT_EQ(smem_set_extern_logger([](int level, const char* text) { logged.emplace_back(level, text); }), SMEM_OK);
  EXPECT_EQ(smem_init(4), SMEM_INVALID_PARAM);
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0].first, 3);
  EXPECT_EQ(logged[0].second, smem_get_last_err_msg());
  const std::string url = local_url();
  EXPECT_EQ(smem_create_config_store(url.c_str()), SMEM_OK);
  EXPECT_EQ(logged.size(), 1U) << "information is below the default level";
  EXPECT_EQ(smem_set_log_level(1), SMEM_OK);
  const std::string other = local_url();
  EXPECT_EQ(smem_create_config_store(other.c_str()), SMEM_OK);
  EXPECT_EQ(logged.size(), 2U);
  smem_uninit();
  smem_set_extern_logger(nullptr);
}

// ---- defaults and limits

TEST(Base, defaults_are_the_documented_ones) {
  smem_bm_config_t bm;
  std::memset(&bm, 0xff, sizeof bm);
  ASSERT_EQ(smem_bm_config_init(&bm), SMEM_OK);
  EXPECT_EQ(bm.initTimeout, 120U);
  EXPECT_EQ(bm.createTimeout, 120U);
  EXPECT_EQ(bm.controlOperationTimeout, 120U);
  EXPECT_TRUE(bm.startConfigStore && bm.unifiedAddressSpace);
  EXPECT_FALSE(bm.startConfigStoreOnly || bm.dynamicWorldSize || bm.autoRanking || bm.hcomTlsConfig.tlsEnable ||
               bm.storeTlsConfig.tlsEnable);
  EXPECT_EQ(bm.rankId, UINT16_MAX);
  EXPECT_EQ(bm.flags, 0U);
  EXPECT_EQ(bm.hcomUrl[0], 0);
  smem_shm_config_t shm;
  ASSERT_EQ(smem_shm_config_init(&shm), SMEM_OK);
  EXPECT_EQ(shm.shmInitTimeout + shm.shmCreateTimeout + shm.controlOperationTimeout, 360U);
  EXPECT_TRUE(shm.startConfigStore);
  smem_trans_config_t trans;
  ASSERT_EQ(smem_trans_config_init(&trans), SMEM_OK);
  EXPECT_EQ(trans.initTimeout, 120U);
  EXPECT_FALSE(trans.startConfigServer);
  EXPECT_EQ(smem_bm_config_init(nullptr), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_shm_config_init(nullptr), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_trans_config_init(nullptr), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_shm_query_support_data_operation(), SMEMS_DATA_OP_MTE);
}

TEST(Base, malformed_urls_are_invalid) {
  for (const char* url :
       {"", "tcp://", "tcp://127.0.0.1", "127.0.0.1:5000", "udp://127.0.0.1:5000", "tcp://127.0.0.1:1024",
        "tcp://127.0.0.1:65536", "tcp://127.0.0.1:5000x", "tcp://127.0.0.1:-5000", "tcp://300.0.0.1:5000",
        "tcp://localhost:5000", "tcp://::1:5000", "tcp://[127.0.0.1]:5000", "tcp://[::1:5000"}) {
    EXPECT_EQ(smem_create_config_store(url), SMEM_INVALID_PARAM) << url;
    const smem_bm_config_t config = bm_config();
    EXPECT_EQ(smem_bm_init(url, 1, 0, &config), SMEM_INVALID_PARAM) << url;
  }
  EXPECT_EQ(smem_create_config_store(nullptr), SMEM_INVALID_PARAM);
}

TEST(Base, arguments_of_init_are_checked) {
  const std::string url = local_url();
  const smem_bm_config_t good = bm_config();
  EXPECT_EQ(smem_bm_init(url.c_str(), 0, 0, &good), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_bm_init(url.c_str(), 1025, 0, &good), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, nullptr), SMEM_INVALID_PARAM);
  const auto rejected = [&](auto&& change) {
    smem_bm_config_t config = good;
    change(config);
    EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_INVALID_PARAM) << smem_get_last_err_msg();
  };
  rejected([](smem_bm_config_t& config) { config.unifiedAddressSpace = false; });
  rejected([](smem_bm_config_t& config) { config.rankId = 2; });
  rejected([](smem_bm_config_t& config) { config.initTimeout = 0; });
  rejected([](smem_bm_config_t& config) { config.createTimeout = 0; });
  rejected([](smem_bm_config_t& config) { std::strcpy(config.hcomUrl, "203.0.113.7:5000"); });
  smem_shm_config_t shm;
  smem_shm_config_init(&shm);
  EXPECT_EQ(smem_shm_init(url.c_str(), 2, 2, 0, &shm), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_shm_init(url.c_str(), 1025, 0, 0, &shm), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_bm_get_rank_id(), UINT32_MAX) << "nothing of the failed calls is left";
}

/// hcomUrl of a network that has this machine's address, with only these leading bits; empty: no such interface.
std::pair<std::string, std::string> network_of_an_interface(int bits) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::pair<std::string, std::string> found;
  for (const ifaddrs* one = all; one != nullptr && found.first.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    in_addr address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    address.s_addr ^= htonl(1U);  // another one, in the same network unless all bits count
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &address, text.data(), text.size());
    found = {one->ifa_name, fmt::format("tcp://{}/{}:10005", text.data(), bits)};
  }
  ::freeifaddrs(all);
  return found;
}

TEST(Base, hcom_url_chooses_the_interfaces_of_its_network) {
  ::unsetenv("HMC_NET");
  const auto init = [](const std::string& hcom_url) {
    smem_bm_config_t config = bm_config();
    std::strcpy(config.hcomUrl, hcom_url.c_str());
    const std::int32_t code = smem_bm_init(local_url().c_str(), 1, 0, &config);
    smem_uninit();
    return code;
  };
  // Loopback, all networks, and one in which this machine has no address, choose none.
  for (const char* url : {"tcp://0.0.0.0/0:10005", "tcp://127.0.0.1:1234", "tcp://127.1.2.3/8:10005",
                          "tcp://0.0.0.0:1024", "tcp://203.0.113.7/32:5000"}) {
    EXPECT_EQ(init(url), SMEM_OK) << url << ": " << smem_get_last_err_msg();
    EXPECT_EQ(std::getenv("HMC_NET"), nullptr) << url;
  }
  for (const char* url : {"tcp://127.0.0.1/33:5000", "tcp://127.0.0.1/:5000", "tcp://127.0.0.1/-1:5000",
                          "tcp://127.0.0.1/8", "tcp://127.0.0.1/8x:5000", "tcp://127.0.0.1/8:1023", "127.0.0.1/8:5000"})
    EXPECT_EQ(init(url), SMEM_INVALID_PARAM) << url;
  const auto [name, url] = network_of_an_interface(24);
  if (name.empty()) GTEST_SKIP() << "missing: a network interface";
  EXPECT_EQ(init(network_of_an_interface(32).second), SMEM_OK);
  EXPECT_EQ(std::getenv("HMC_NET"), nullptr) << "the address of another machine";
  EXPECT_EQ(init(url), SMEM_OK) << url << ": " << smem_get_last_err_msg();
  EXPECT_NE(std::string(std::getenv("HMC_NET")).find(name), std::string::npos);
}

TEST(Base, only_operations_of_the_host_need_the_network_of_hcom_url) {
  smem_bm_config_t config = bm_config();
  std::strcpy(config.hcomUrl, "tcp://203.0.113.7/16:5000");
  ASSERT_EQ(smem_bm_init(local_url().c_str(), 1, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_create(0, 1, SMEMB_DATA_OP_HOST_TCP, 2 << 20, 0, 0), nullptr);
  EXPECT_TRUE(has_error("hcomUrl"));
  EXPECT_NE(smem_bm_create(0, 1, SMEMB_DATA_OP_SDMA, 2 << 20, 0, 0), nullptr) << smem_get_last_err_msg();
  smem_uninit();
}

TEST(Base, calls_before_init_fail) {
  int word = 0;
  void* const handle = &word;
  smem_copy_params params{&word, &word, 4, nullptr};
  EXPECT_EQ(smem_bm_create(0, 1, SMEMB_DATA_OP_SDMA, 2 << 20, 0, 0), nullptr);
  EXPECT_EQ(smem_bm_create2(0, nullptr), nullptr);
  EXPECT_EQ(smem_bm_get_rank_id(), UINT32_MAX);
  EXPECT_EQ(smem_bm_copy(handle, &params, SMEMB_COPY_G2G, 0), SMEM_NOT_INITIALIZED);
  EXPECT_EQ(smem_bm_copy(nullptr, &params, SMEMB_COPY_G2G, 0), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_bm_join(handle, 0), SMEM_NOT_INITIALIZED);
  EXPECT_EQ(smem_bm_ptr_by_mem_type(handle, SMEM_MEM_TYPE_HOST, 0), nullptr);
  EXPECT_EQ(smem_bm_get_rank_id_by_gva(handle, &word), UINT32_MAX);
  EXPECT_EQ(smem_shm_control_barrier(handle), SMEM_NOT_INITIALIZED);
  EXPECT_EQ(smem_shm_get_global_rank(handle), UINT32_MAX);
  EXPECT_EQ(smem_trans_register_mem(handle, &word, 4, 0), SMEM_NOT_INITIALIZED);
  smem_trans_config_t trans;
  smem_trans_config_init(&trans);
  EXPECT_EQ(smem_trans_create("tcp://127.0.0.1:5000", "127.0.0.1:1", &trans), nullptr);
  trans.role = SMEM_TRANS_NONE;
  EXPECT_EQ(smem_trans_init(&trans), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_get_last_err_code(), SMEM_INVALID_PARAM);
  trans.role = SMEM_TRANS_BOTH;
  trans.flags = 2;  // for the original's devices
  EXPECT_EQ(smem_trans_init(&trans), SMEM_OK);
  smem_uninit();
}

// ---- the store

TEST(Base, init_timeout_limits_the_wait_for_the_store) {
  const std::string url = local_url();
  smem_bm_config_t config = bm_config();
  config.startConfigStoreServer = false;
  config.initTimeout = 1;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_TIMEOUT) << smem_get_last_err_msg();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Base, repeated_init_needs_the_same_arguments) {
  const std::string url = local_url();
  const smem_bm_config_t config = bm_config();
  ASSERT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK);
  EXPECT_EQ(smem_bm_init(url.c_str(), 3, 0, &config), SMEM_REPEAT_CALL);
  EXPECT_EQ(smem_bm_get_rank_id(), 0U);
  smem_uninit();
  EXPECT_EQ(smem_bm_get_rank_id(), UINT32_MAX);
  ASSERT_EQ(smem_bm_init(url.c_str(), 3, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  smem_uninit();
}

TEST(Base, process_that_only_serves_is_no_member) {
  const std::string url = local_url();
  smem_bm_config_t config = bm_config();
  config.startConfigStoreOnly = true;
  ASSERT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_get_rank_id(), UINT32_MAX);
  EXPECT_EQ(smem_bm_create(0, 2, SMEMB_DATA_OP_SDMA, 2 << 20, 0, 0), nullptr);
  EXPECT_TRUE(has_error("startConfigStoreOnly"));
  smem_uninit();
}

TEST(Base, store_serves_at_an_ipv6_address) {
  const int port = free_port(AF_INET6);
  if (port < 0) GTEST_SKIP() << "missing: IPv6";
  const std::string url = fmt::format("tcp://[::1]:{}", port);
  const smem_bm_config_t config = bm_config();
  ASSERT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_get_rank_id(), 0U);
  smem_uninit();
}

TEST(Base, child_of_fork_begins_anew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has no threads in the child of a process with threads";
#endif
  const std::string url = local_url();
  const smem_bm_config_t config = bm_config();
  ASSERT_EQ(smem_bm_init(url.c_str(), 4, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool anew = smem_bm_get_rank_id() == UINT32_MAX;
    const bool joined = smem_bm_init(url.c_str(), 4, 0, &config) == SMEM_OK && smem_bm_get_rank_id() == 1;
    ::_exit(anew && joined ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(smem_bm_get_rank_id(), 0U);
  smem_uninit();
}

// ---- ranks

/// A process that serves the store until end().
struct StoreServer {
  explicit StoreServer(const std::string& url)
      : child([&, this] {
          result_out.put(smem_create_config_store(url.c_str()));
          (void)end_in.get();
          smem_uninit();
          return true;
        }) {}
  int result() { return result_out.get(); }
  bool end() {
    end_in.put(0);
    return child.join();
  }
  Pipe result_out;
  Pipe end_in;
  Child child;
};

/// A process that joins the store, reports its rank (-1: the result isn't OK), and ends at a word or a signal.
struct Ranked {
  Ranked(const std::string& url, std::uint32_t world)
      : child([&, this] {
          const smem_bm_config_t config = bm_config();
          const bool joined = smem_bm_init(url.c_str(), world, 0, &config) == SMEM_OK;
          rank_out.put(joined ? static_cast<int>(smem_bm_get_rank_id()) : -1);
          (void)end_in.get();
          smem_uninit();
          return true;
        }) {}
  int rank() { return rank_out.get(); }
  bool end() {
    end_in.put(0);
    return child.join();
  }
  Pipe rank_out;
  Pipe end_in;
  Child child;
};

TEST(Ranks, automatic_ranks_are_a_permutation_and_freed_ranks_are_assigned_again) {
  const std::string url = local_url();
  // The processes race to serve the store; the one that serves must not be killed, so a process of its own does.
  StoreServer server(url);
  ASSERT_EQ(server.result(), SMEM_OK);
  std::vector<std::unique_ptr<Ranked>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Ranked>(url, 4));
  std::set<int> ranks;
  std::vector<int> by_process;
  for (auto& one : all) by_process.push_back(one->rank());
  ranks.insert(by_process.begin(), by_process.end());
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(Ranked(url, 4).rank(), -1) << "the world is full";
  all[2]->child.kill();
  // The store sees the end of the connection, after which the rank is free.
  int replaced = -1;
  std::unique_ptr<Ranked> replacement;
  for (int tries = 0; tries < 300 && replaced < 0; ++tries) {
    replacement = std::make_unique<Ranked>(url, 4);
    replaced = replacement->rank();
    if (replaced < 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(replaced, by_process[2]);
  EXPECT_TRUE(replacement->end());
  for (const int i : {0, 1, 3}) EXPECT_TRUE(all[static_cast<std::size_t>(i)]->end());
  EXPECT_TRUE(server.end());
}

/// A program of the first release sets its rank and leaves autoRanking as it is.
TEST(Ranks, rank_of_the_program_is_used_without_auto_ranking) {
  const std::string url = local_url();
  StoreServer server(url);
  ASSERT_EQ(server.result(), SMEM_OK);
  smem_bm_config_t config = bm_config();
  config.rankId = 2;
  config.flags = 2;  // for the original's devices
  ASSERT_EQ(smem_bm_init(url.c_str(), 4, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_get_rank_id(), 2U);
  smem_uninit();
  EXPECT_TRUE(server.end());
}

TEST(Ranks, processes_race_to_serve_the_store) {
  const std::string url = local_url();
  std::vector<std::unique_ptr<Ranked>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Ranked>(url, 4));
  std::set<int> ranks;
  for (auto& one : all) ranks.insert(one->rank());
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  for (auto& one : all) one->child.kill();
}

// ---- the store as an object

std::string cluster_status() {
  std::uint32_t length = 0;
  (void)smem_config_store_get_cluster_status(nullptr, 0, &length);
  std::string text(length + 1, 'x');
  const std::int32_t code = smem_config_store_get_cluster_status(text.data(), length + 1, &length);
  EXPECT_EQ(smem_config_store_get_cluster_status(text.data(), length, nullptr), SMEM_BUFFER_TOO_SMALL);
  EXPECT_TRUE(code == SMEM_OK || code == SMEM_NOT_EXIST) << smem_get_last_err_msg();
  text.resize(length);
  return text;
}

TEST(StoreObject, server_reports_the_ranks_of_clients_that_end) {
  const std::string url = local_url();
  Pipe broken_out, set_out, end_in;
  Child server([&] {
    const smem_config_store_t store = smem_config_store_create_server(url.c_str());
    smem_config_store_set_server_broken_handler(
        store,
        [](void* context, std::uint32_t link, std::uint32_t rank) {
          static_cast<Pipe*>(context)->put(static_cast<int>(100 * link + rank));
          return 0;
        },
        &broken_out);
    const bool has_no_leader = smem_config_store_set_leader_handler(store, nullptr, nullptr) == 1 &&
                               smem_config_store_set_leader_handler(nullptr, nullptr, nullptr) == -1;
    set_out.put(store != nullptr && has_no_leader ? 0 : 1);
    (void)end_in.get();
    smem_config_store_destroy_server(store, url.c_str());
    return cluster_status() == "[]";
  });
  EXPECT_EQ(set_out.get(), 0);
  Ranked first(url, 4);
  const int rank = first.rank();
  Ranked second(url, 4);
  const int other = second.rank();
  first.child.kill();
  EXPECT_EQ(broken_out.get(), rank);
  EXPECT_TRUE(second.end());
  EXPECT_EQ(broken_out.get(), 100 + other);
  end_in.put(0);
  EXPECT_TRUE(server.join());
}

TEST(StoreObject, status_describes_the_stores_of_this_process) {
  EXPECT_EQ(cluster_status(), "[]");
  EXPECT_EQ(smem_config_store_get_cluster_status(nullptr, 0, nullptr), SMEM_INVALID_PARAM);
  const std::string url = local_url();
  const smem_bm_config_t config = bm_config();
  ASSERT_EQ(smem_bm_init(url.c_str(), 3, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(cluster_status(),
            fmt::format(R"([{{"type":"server","address":"{}","refusedConnections":0}},)"
                        R"({{"type":"client","api":"bm","url":"{}","worldSize":3,"rank":0,"connected":true}}])",
                        url.substr(6), url));
  smem_uninit();
}

TEST(StoreObject, another_store_keeps_the_rank) {
  const std::string url = local_url();
  const std::string next_url = local_url();
  StoreServer server(url);
  StoreServer next(next_url);
  ASSERT_EQ(server.result() + next.result(), SMEM_OK);
  smem_bm_config_t config = bm_config();
  config.rankId = 1;
  config.createTimeout = 2;
  EXPECT_EQ(smem_bm_update_store_url(next_url.c_str()), SMEM_NOT_INITIALIZED);
  ASSERT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_update_store_url(url.c_str()), SMEM_OK) << "it is connected";
  EXPECT_TRUE(server.end());
  EXPECT_EQ(smem_bm_update_store_url("tcp://127.0.0.1"), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_bm_update_store_url(local_url().c_str()), SMEM_TIMEOUT) << "nothing serves there";
  EXPECT_EQ(smem_bm_create(0, 2, SMEMB_DATA_OP_SDMA, 2 << 20, 0, 0), nullptr) << "the store has ended";
  const std::uint16_t port = static_cast<std::uint16_t>(std::stoi(next_url.substr(next_url.rfind(':') + 1)));
  ASSERT_EQ(smem_bm_update_store_server("127.0.0.1", port), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_get_rank_id(), 1U);
  const smem_bm_t pool = smem_bm_create(0, 2, SMEMB_DATA_OP_SDMA, 2 << 20, 0, 0);
  EXPECT_EQ(smem_bm_join(pool, 0), SMEM_OK) << smem_get_last_err_msg();
  smem_bm_destroy(pool);
  smem_uninit();
  EXPECT_TRUE(next.end());
}

TEST(StoreObject, there_is_no_leader) {
  char ip[64];
  std::uint16_t port = 0;
  EXPECT_EQ(smem_bm_register_leader_change_callback(nullptr, nullptr), SMEM_NOT_EXIST);
  EXPECT_EQ(smem_bm_get_bindable_leader_address(ip, sizeof ip, &port), SMEM_NOT_EXIST);
  EXPECT_EQ(smem_bm_get_bindable_leader_address_by_store_url("tcp://127.0.0.1:5000", nullptr, 2, ip, sizeof ip, &port),
            SMEM_NOT_EXIST);
  smem_bm_release_leader_address_store();
}

TEST(StoreObject, destroyed_store_serves_no_more) {
  const std::string url = local_url();
  ASSERT_EQ(smem_create_config_store(url.c_str(), SMEM_STORE_SKIP_RECOVER), SMEM_OK);
  smem_destroy_config_store(url.c_str());
  smem_bm_config_t config = bm_config();
  config.startConfigStoreServer = false;
  config.initTimeout = 1;
  EXPECT_EQ(smem_bm_init(url.c_str(), 1, 0, &config), SMEM_TIMEOUT);
  ASSERT_EQ(smem_create_config_store(url.c_str()), SMEM_OK) << "the port is free";
  EXPECT_EQ(smem_bm_init(url.c_str(), 1, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  smem_uninit();
}

// ---- security

TEST(Security, tls_setters_fail_closed) {
  ::unsetenv("HMC_TLS");
  const std::string url = local_url();
  const smem_bm_config_t config = bm_config();
  const char info[] = "tlsCaPath:/etc/ssl;tlsCert:/etc/ssl/cert.pem";
  EXPECT_EQ(smem_set_conf_store_tls(true, info, sizeof info - 1), SMEM_ERROR);
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_ERROR) << "no clear text after the setter";
  EXPECT_EQ(smem_create_config_store(url.c_str()), SMEM_ERROR);
  smem_shm_config_t shm;
  smem_shm_config_init(&shm);
  EXPECT_EQ(smem_shm_init(url.c_str(), 2, 0, 0, &shm), SMEM_ERROR);
  smem_trans_config_t trans;
  smem_trans_config_init(&trans);
  trans.role = SMEM_TRANS_SENDER;
  EXPECT_EQ(smem_trans_init(&trans), SMEM_ERROR);
  EXPECT_EQ(smem_set_conf_store_tls(false, nullptr, 0), SMEM_OK);
  EXPECT_EQ(smem_set_conf_store_tls(true, nullptr, 0), SMEM_ERROR) << "without HMC_TLS";
  EXPECT_EQ(smem_set_conf_store_tls(false, nullptr, 0), SMEM_OK);
  EXPECT_EQ(smem_set_config_store_tls_key("key", 3, "word", 4, nullptr), SMEM_ERROR);
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_ERROR);
  EXPECT_EQ(smem_set_conf_store_tls(false, nullptr, 0), SMEM_OK);
  smem_tls_options_t options{};
  options.enable_tls = 1;
  options.tls_ca_path = "/etc/ssl";
  EXPECT_EQ(smem_config_store_set_tls(&options, nullptr, nullptr), SMEM_ERROR);
  EXPECT_EQ(smem_config_store_create_server(url.c_str()), nullptr);
  EXPECT_EQ(smem_config_store_set_tls(nullptr, nullptr, nullptr), SMEM_OK);
  smem_tls_option first_release;
  EXPECT_EQ(smem_set_ssl_option(&first_release), SMEM_OK) << "TLS isn't enabled";
  first_release.enableTls = true;
  first_release.tlsCaFile = {"ca.pem"};
  EXPECT_EQ(smem_set_ssl_option(&first_release), SMEM_ERROR);
  EXPECT_EQ(smem_set_ssl_option(nullptr), SMEM_INVALID_PARAM);
  EXPECT_EQ(smem_set_conf_store_tls(false, nullptr, 0), SMEM_OK);
  smem_bm_config_t with_tls = config;
  with_tls.storeTlsConfig.tlsEnable = true;
  std::strcpy(with_tls.storeTlsConfig.caPath, "/etc/ssl/ca.pem");
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &with_tls), SMEM_ERROR);
  with_tls.storeTlsConfig = {};
  with_tls.hcomTlsConfig.tlsEnable = true;
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &with_tls), SMEM_ERROR);
  EXPECT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  smem_uninit();
}

TEST(Security, tls_by_the_secret_is_accepted_and_used) {
  ::setenv("HMC_SECRET", std::string(64, '5').c_str(), 1);
  ::setenv("HMC_TLS", "1", 1);
  const std::string url = local_url();
  smem_bm_config_t config = bm_config();
  config.storeTlsConfig.tlsEnable = true;
  EXPECT_EQ(smem_set_conf_store_tls(true, "", 0), SMEM_OK) << smem_get_last_err_msg();
  ASSERT_EQ(smem_bm_init(url.c_str(), 2, 0, &config), SMEM_OK) << smem_get_last_err_msg();
  EXPECT_EQ(smem_bm_get_rank_id(), 0U);
  smem_uninit();
}

/// Forwards one connection from `listener` to the port on 127.0.0.1 until an end closes, and returns all bytes.
std::string forward(int listener, int port) {
  const int from = ::accept(listener, nullptr, nullptr);
  const int to = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  std::string seen;
  std::array<pollfd, 2> ends = {{{from, POLLIN, 0}, {to, POLLIN, 0}}};
  for (bool open = true; open;) {
    (void)::poll(ends.data(), ends.size(), -1);
    for (std::size_t i = 0; i < 2 && open; ++i) {
      if (ends[i].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t bytes = ::recv(ends[i].fd, buffer.data(), buffer.size(), 0);
      open = bytes > 0 && ::send(ends[1 - i].fd, buffer.data(), static_cast<std::size_t>(bytes), MSG_NOSIGNAL) == bytes;
      if (open) seen.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
  }
  ::close(from);
  ::close(to);
  return seen;
}

/// What an observer of the network sees while a process gets a rank from the store.
std::string observed(const char* tls) {
  ::setenv("HMC_SECRET", std::string(64, '5').c_str(), 1);
  ::setenv("HMC_TLS", tls, 1);
  const int port = free_port();
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  Pipe ready;
  Pipe end;
  Child server([&] {
    ready.put(smem_create_config_store(fmt::format("tcp://127.0.0.1:{}", port).c_str()));
    (void)end.get();
    return true;
  });
  EXPECT_EQ(ready.get(), SMEM_OK);
  Child client([&] {
    smem_bm_config_t config = bm_config();
    config.startConfigStoreServer = false;
    const std::string url = fmt::format("tcp://127.0.0.1:{}", ntohs(address.sin_port));
    return smem_bm_init(url.c_str(), 2, 0, &config) == SMEM_OK;
  });
  const std::string seen = forward(listener, port);
  EXPECT_TRUE(client.join());
  end.put(0);
  EXPECT_TRUE(server.join());
  ::close(listener);
  return seen;
}

TEST(Security, observer_of_an_encrypted_store_sees_no_names) {
  EXPECT_NE(observed("0").find("smem.bm"), std::string::npos) << "without TLS it does";
  const std::string seen = observed("1");
  EXPECT_GT(seen.size(), 100U);
  EXPECT_EQ(seen.find("smem.bm"), std::string::npos);
}

TEST(Security, processes_with_another_secret_are_refused) {
  const std::string url = local_url();
  const std::string secret(64, '5');
  ::setenv("HMC_SECRET", secret.c_str(), 1);
  ::unsetenv("HMC_TLS");
  StoreServer server(url);
  ASSERT_EQ(server.result(), SMEM_OK);
  const auto joins = [&](const std::string& with) {
    Child client([&] {
      with.empty() ? ::unsetenv("HMC_SECRET") : ::setenv("HMC_SECRET", with.c_str(), 1);
      smem_bm_config_t config = bm_config();
      config.initTimeout = 3;
      return smem_bm_init(url.c_str(), 2, 0, &config) == SMEM_OK;
    });
    return client.join();
  };
  EXPECT_FALSE(joins(std::string(64, '6')));
  EXPECT_FALSE(joins(""));
  EXPECT_TRUE(joins(secret));
  EXPECT_TRUE(server.end());
}

}  // namespace
}  // namespace hmc::compat
