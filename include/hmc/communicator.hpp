// Communicator: one-sided and paired transfers between the ConnBuffers of processes. For C++14 and later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hmc/conn_buffer.hpp>

namespace hmc {

/// The kind of connection that a program asks for.
enum class ConnType { RDMA, UCX };

/// Transfers between this process's ConnBuffer and those of its peers.
///
/// NAMES. A call names its peer by IP and port:
///  - a peer to which this side has connected: the arguments of connectTo(), that is, the peer's data port
///  - a client that has connected to this side's server: the address of the client's own server. If the client has no
///    server: its IP, with any port.
///  - a call without a port: NOT_FOUND if several peers have the IP
///
/// CONNECTIONS. Each pair of Communicators has one connection per ConnType, even if both sides connect. Both sides may
/// transfer. A call whose ConnType has no peer of the name uses the other one's. A Communicator may have a server of
/// each ConnType.
/// HMC_SECRET authenticates connections. Without HMC_SECRET only processes of the same user on this machine are
/// accepted: see StoreService.
///
/// TRANSPORT. On one node: shared memory. Otherwise by the ConnType of initServer() and connectTo():
///  - RDMA: ibverbs. Without a usable RDMA device UCX or TCP, and the reason is logged once.
///  - UCX: UCX. If this build has no UCX, TCP.
///  - HMC_TRANSPORT forces one.
/// Device memory: a thread of its owner copies it through host memory.
///
/// ERRORS. No function throws, raises a signal or ends the process.
///  - ERROR: a range exceeds either buffer, or the peer has died or disconnected
///  - NOT_FOUND: no peer, or several peers, have the name
///  - UNSUPPORT: this machine has no memory of the given MemoryType
///  - TIMEOUT: a call without a timeout has waited for HMC_TIMEOUT_S (300) seconds
///
/// THREADS. Any. For one peer, calls of the same function (send, recv, sendDataTo, recvDataFrom) run one after another,
/// and so do transfers to and from its device memory.
class HMC_API Communicator {
 public:
  using CtrlId = std::uint32_t;  ///< as CtrlSocketManager's
  enum class CtrlTransport : std::uint8_t { TCP = 0, UDS = 1 };
  /// The control address of a peer.
  struct CtrlLink {
    CtrlTransport transport{CtrlTransport::TCP};
    std::string ip;
    std::uint16_t port{0};
    std::string uds_path;
  };

  /// `num_chs`: the number of queue pairs per peer, at most 8, for large transfers by RDMA. Both sides use the smaller
  /// number. Shared memory, UCX and TCP ignore it, because one thread of each side moves the bytes.
  explicit Communicator(std::shared_ptr<ConnBuffer> buffer, std::size_t num_chs = 1);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // ---- one-sided. put returns when the bytes are visible at the peer. A peer that receives a later control message
  // sees them.
  status_t put(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off, std::size_t size,
               ConnType connType = ConnType::RDMA);
  status_t get(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off, std::size_t size,
               ConnType connType = ConnType::RDMA);
  /// `wr_id` receives an id for wait(). No other transfer of this process has the same id.
  status_t putNB(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off, std::size_t size,
                 std::uint64_t* wr_id, ConnType connType = ConnType::RDMA);
  status_t getNB(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off, std::size_t size,
                 std::uint64_t* wr_id, ConnType connType = ConnType::RDMA);
  /// Waits for a transfer. Ids may be passed in any order. NOT_FOUND: there is no such transfer, or an earlier wait()
  /// has completed it. TIMEOUT: the transfer stays in flight. 0 is no transfer's id, and there is nothing to wait for.
  status_t wait(std::uint64_t wr_id);
  status_t wait(std::uint64_t wr_id, std::chrono::nanoseconds timeout);
  /// Completes all transfers and returns the first failure in the list's order.
  status_t wait(const std::vector<std::uint64_t>& wr_ids);
  status_t wait(const std::vector<std::uint64_t>& wr_ids, std::chrono::nanoseconds timeout);
  /// Transfers chunks of `chunk_size` bytes (0: 4 MiB), of which at most `max_inflight` are in flight.
  status_t putPipeline(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                       std::size_t size, std::size_t chunk_size = 0, std::size_t max_inflight = 64,
                       ConnType connType = ConnType::RDMA);
  status_t getPipeline(std::string ip, std::uint16_t port, std::size_t local_off, std::size_t remote_off,
                       std::size_t size, std::size_t chunk_size = 0, std::size_t max_inflight = 64,
                       ConnType connType = ConnType::RDMA);

  // ---- one-sided, the same offset on both sides
  status_t writeTo(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType = ConnType::RDMA);
  status_t readFrom(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType = ConnType::RDMA);

  // ---- paired: each send needs a recv of the peer. Each side passes the position in its own buffer. send returns when
  // the bytes are visible at the peer.
  status_t send(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType = ConnType::RDMA);
  status_t recv(std::string ip, std::size_t ptr_bias, std::size_t size, ConnType connType = ConnType::RDMA);

  // ---- paired, any memory: the message travels through the receiver's ConnBuffer and overwrites it, unless that is
  // device memory. `buf_type` is the memory's type. `flag` receives the message's length. If the message is longer than
  // the receiver's memory, both sides return ERROR.
  status_t sendDataTo(std::string ip, void* send_buf, std::size_t buf_size, MemoryType buf_type,
                      ConnType connType = ConnType::RDMA);
  status_t sendDataTo(std::string ip, std::uint16_t port, void* send_buf, std::size_t buf_size, MemoryType buf_type,
                      ConnType connType = ConnType::RDMA);
  status_t recvDataFrom(std::string ip, void* recv_buf, std::size_t buf_size, MemoryType buf_type, std::size_t* flag,
                        ConnType connType = ConnType::RDMA);
  status_t recvDataFrom(std::string ip, std::uint16_t port, void* recv_buf, std::size_t buf_size, MemoryType buf_type,
                        std::size_t* flag, ConnType connType = ConnType::RDMA);

  // ---- control messages, through the process's CtrlSocketManager
  //  - NOT_FOUND: no such peer
  //  - TIMEOUT: nothing listens at the address, or the peer hasn't connected or answered in time
  //  - INVALID_CONFIG: a bad address, an address in use, or a peer of another machine without HMC_SECRET
  //  - UNSUPPORT: CTRL_TRANSPORT excludes the address
  //  - ERROR: the peer has disconnected, died or refused, or its message isn't a tag
  // ctrlRecv accepts null for `tag`.
  status_t ctrlSend(CtrlId peer, std::uint64_t tag);
  status_t ctrlRecv(CtrlId peer, std::uint64_t* tag);
  status_t initCtrlServer(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path = "");
  status_t closeCtrl();
  status_t connectCtrl(CtrlId peer_id, CtrlId self_id, const CtrlLink& link);
  status_t closeCtrlPeer(CtrlId peer_id);
  static std::string udsPathFor(const std::string& dir, CtrlId peer_id);

  // ---- connections
  status_t initServer(const std::string& bind_ip, std::uint16_t data_port, std::uint16_t ctrl_tcp_port,
                      const std::string& ctrl_uds_path, ConnType serverType);
  status_t initServer(std::string ip, std::uint16_t port, ConnType serverType);
  /// Accepts no more peers. Connected ones stay until disConnect() or the destructor.
  status_t closeServer();
  /// Waits for up to 30 seconds, and for the control connection 10, until a server accepts. After a second a warning
  /// names the address. No effect if it is connected.
  /// `peer_id`, `self_id`: the ids of both sides. The peer refuses a `self_id` that another peer uses, and a `peer_id`
  /// that isn't its own.
  status_t connectTo(CtrlId peer_id, CtrlId self_id, const std::string& peer_ip, std::uint16_t data_port,
                     const CtrlLink& ctrl_link, ConnType connType);
  status_t connectTo(std::string ip, std::uint16_t port, ConnType connType);
  /// No effect if no peer has the name.
  status_t disConnect(const std::string& ip, std::uint16_t port, ConnType connType);
  status_t disConnect(std::string ip, ConnType connType);
  /// SUCCESS if the peer is connected, ERROR if it has died or disconnected, else NOT_FOUND.
  status_t checkConn(const std::string& ip, std::uint16_t port, ConnType connType);
  status_t checkConn(std::string ip, ConnType connType);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace hmc
