// The API of HMC's older library, implemented by this library. For C++14 and later. May be included together with
// <hmc/hmc.hpp>. <mem.h> and <status.h> are other names of this header.
#pragma once

// The older header also included the headers of the vendor for which its program was compiled.
#if defined(ENABLE_CUDA)
#include <cuda_runtime.h>
#elif defined(ENABLE_ROCM)
#include <hip/hip_runtime.h>
#elif defined(ENABLE_MUSA)
#include <musa_runtime.h>
#elif defined(ENABLE_NEUWARE)
#include <cnrt.h>
#endif
#include <unistd.h>

// Programs rely on it for all of these.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hmc/communicator.hpp>
#include <hmc/conn_buffer.hpp>
#include <hmc/error.hpp>
#include <hmc/memory_type.hpp>

namespace hmc {

/// The name of a status. "Unknown status" for a number that isn't a status_t.
HMC_API const char* status_to_string(status_t status) noexcept;

/// The type that DEFAULT stands for on this machine.
HMC_API MemoryType memory_supported();
/// True if RDMA devices access device memory (dma-buf). False in this version: device memory is staged through host
/// memory, and hmcinfo reports the reason.
HMC_API bool memory_dmabuf_supported();

#define ACCEL_PAGE_SIZE (64 * 1024)
typedef std::uint64_t CNaddr;  ///< a device address

/// The interface to the memory of one device: what Memory::createMemoryClass() returns.
class HMC_API MemoryBase {
 public:
  MemoryBase(int on_device, MemoryType type) : device_id(on_device), mem_type(type) {}
  virtual ~MemoryBase();
  MemoryBase(const MemoryBase&) = delete;
  MemoryBase& operator=(const MemoryBase&) = delete;

  /// As the functions of Memory.
  virtual status_t init() = 0;
  virtual status_t free() = 0;
  virtual status_t allocateBuffer(void** addr, std::size_t size) = 0;
  virtual status_t allocatePeerableBuffer(void** addr, std::size_t size) = 0;
  virtual status_t freeBuffer(void* addr) = 0;
  virtual status_t copyHostToDevice(void* dest, const void* src, std::size_t size) = 0;
  virtual status_t copyDeviceToHost(void* dest, const void* src, std::size_t size) = 0;
  virtual status_t copyDeviceToDevice(void* dest, const void* src, std::size_t size) = 0;

 protected:
  int device_id;
  MemoryType mem_type;
};

/// Allocates and copies memory of one device. The constructor, createMemoryClass and setDeviceIdAndMemoryType throw
/// Error{unsupported}, a std::runtime_error, with the reason, if this machine has no memory of the given type. No other
/// function throws. Threads: any, except setDeviceIdAndMemoryType, init and free.
class HMC_API Memory {
 public:
  /// If there is no such device, getInitStatus() and all other calls return the status of the failure. Host memory
  /// accepts any `device_id` and ignores it.
  Memory(int device_id, MemoryType mem_type = MemoryType::DEFAULT);
  ~Memory();  ///< frees the buffers that are still allocated
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// A separate object for the same device and memory of `mem_type`. Null for DEFAULT.
  std::unique_ptr<MemoryBase> createMemoryClass(MemoryType mem_type);
  /// Tests the device again, and returns the new getInitStatus().
  status_t init();
  /// Frees the buffers that are still allocated. Later calls may allocate again.
  status_t free();

  /// Zeroed memory. ERROR if the machine or the cgroup hasn't enough, or `addr` is null.
  status_t allocateBuffer(void** addr, std::size_t size);
  /// Memory that other devices and processes of this node can map, if the driver supports that; else as allocateBuffer.
  status_t allocatePeerableBuffer(void** addr, std::size_t size);
  /// NOT_FOUND if this object hasn't allocated the address. Null: ERROR for host memory, else SUCCESS.
  status_t freeBuffer(void* addr);

  /// Blocking copies. Pointers of any kind are accepted; the name states the intended direction.
  status_t copyHostToDevice(void* dest, const void* src, std::size_t size);
  status_t copyDeviceToHost(void* dest, const void* src, std::size_t size);
  status_t copyDeviceToDevice(void* dest, const void* src, std::size_t size);

  /// Later calls use this device. Buffers that are already allocated stay valid. If it throws, nothing has changed.
  status_t setDeviceIdAndMemoryType(int device_id, MemoryType mem_type = MemoryType::DEFAULT);
  MemoryType getMemoryType() const;  ///< the actual type if DEFAULT was requested
  status_t getInitStatus() const;
  int getDeviceId() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Communicator;

// ---- the control plane

enum CtrlMsgType : std::uint16_t { CTRL_INT = 1, CTRL_STRUCT = 2 };
struct CtrlMsgHeader {
  std::uint16_t type;
  std::uint16_t flags;
  std::uint32_t length;  ///< bytes of the payload
};

/// Messages between processes. A call names the peer by a number. The older calls name it by an IP. One object per
/// process.
///
///  - Messages from one peer arrive in order, complete, and exactly once. A message has at most 64 MiB.
///  - Both sides prove that they have the job's secret, HMC_SECRET. Without HMC_SECRET a process accepts only peers of
///    its user on this machine (see StoreService), and logs that.
///  - A peer sends its number in the handshake; its source address doesn't identify it. While a peer is connected,
///    another process with the same number is refused. Two processes may connect to each other at the same time.
///  - Processes of one machine use Unix sockets, others TCP. CTRL_TRANSPORT=tcp or uds forces one.
///  - A wait ends after HMC_TIMEOUT_S (300) seconds. If the peer has died or has disconnected, calls return false at
///    once, after all messages that it sent were received, also if it has connected again meanwhile.
///
/// Functions return false on failure. Failures to listen and to connect are logged. No function raises a signal.
/// Threads: any.
class HMC_API CtrlSocketManager {
 public:
  using CtrlId = std::uint32_t;

  static CtrlSocketManager& instance();
  CtrlSocketManager(const CtrlSocketManager&) = delete;
  CtrlSocketManager& operator=(const CtrlSocketManager&) = delete;

  // ---- listening
  /// Listens on bind_ip:tcp_port (port 0: no TCP) and on the socket file `uds_path` (empty: none). If it already
  /// listens, returns true without effect. False if another process listens there: a socket file in use isn't replaced.
  bool start(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path = "");
  /// Ends listening. Connections stay.
  void stop();
  bool isServer() const;

  // ---- connecting. Retries for up to ten seconds while nothing listens at the address.
  bool connectTcp(CtrlId peer_id, const std::string& ip, std::uint16_t port, CtrlId self_id);
  bool connectUds(CtrlId peer_id, const std::string& uds_path, CtrlId self_id);
  /// The socket file of a peer in `dir`. With HMC_SECRET the name contains a hash of the
  /// secret, so that jobs use different files.
  static std::string udsPathFor(const std::string& dir, CtrlId peer_id);

  // ---- messages
  bool send(CtrlId peer_id, CtrlMsgType type, const void* payload, std::size_t len, std::uint16_t flags = 0);
  /// If the process listens and the peer hasn't connected yet, waits for it.
  bool recv(CtrlId peer_id, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload);
  bool sendInt(CtrlId peer_id, int v);
  bool recvInt(CtrlId peer_id, int& v);
  bool sendU64(CtrlId peer_id, std::uint64_t v);
  bool recvU64(CtrlId peer_id, std::uint64_t& v);
  template <typename T> bool sendStruct(CtrlId peer_id, const T& obj) {
    static_assert(std::is_trivially_copyable<T>::value, "T must be trivially copyable");
    return send(peer_id, CTRL_STRUCT, &obj, sizeof(T));
  }
  /// If the message isn't a CTRL_STRUCT of this size, it is consumed and the call returns false.
  template <typename T> bool recvStruct(CtrlId peer_id, T& obj) {
    static_assert(std::is_trivially_copyable<T>::value, "T must be trivially copyable");
    CtrlMsgHeader header{};
    std::vector<std::uint8_t> bytes;
    return recv(peer_id, header, bytes) && unpack(header, bytes, CTRL_STRUCT, &obj, sizeof(T));
  }

  void close(CtrlId peer_id);
  void closeAll();

  // ---- the older calls: they name a peer by the IP of its end of the connection
  /// The port of all calls below that have none: HMC_CTRL_PORT, or 5555.
  static std::uint16_t port();
  bool startServer(const std::string& bindIp) { return start(bindIp, port()); }
  bool startServer(const std::string& bindIp, std::uint16_t at_port) { return start(bindIp, at_port); }
  void stopServer() { stop(); }
  /// Connects if there is no connection yet. Returns the socket, which the library owns; -1 on failure.
  int getCtrlSockFd(const std::string& ip) { return getCtrlSockFd(ip, port()); }
  int getCtrlSockFd(const std::string& ip, std::uint16_t at_port);
  /// Sends and receives connect to ip:port() first, if no peer has this IP. A receive in a process that listens waits
  /// for the peer instead. If the process has called Communicator::initServer(ip, port, type) and doesn't listen yet,
  /// the first of these calls starts to listen at that ip and port().
  bool sendCtrlMsg(const std::string& ip, CtrlMsgType type, const void* payload, std::size_t len,
                   std::uint16_t flags = 0);
  bool recvCtrlMsg(const std::string& ip, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload);
  bool sendCtrlInt(const std::string& ip, int value);
  bool recvCtrlInt(const std::string& ip, int& value);
  template <typename T> bool sendCtrlStruct(const std::string& ip, const T& obj) {
    static_assert(std::is_trivially_copyable<T>::value, "T must be trivially copyable");
    return sendCtrlMsg(ip, CTRL_STRUCT, &obj, sizeof(T));
  }
  template <typename T> bool recvCtrlStruct(const std::string& ip, T& obj) {
    static_assert(std::is_trivially_copyable<T>::value, "T must be trivially copyable");
    CtrlMsgHeader header{};
    std::vector<std::uint8_t> bytes;
    return recvCtrlMsg(ip, header, bytes) && unpack(header, bytes, CTRL_STRUCT, &obj, sizeof(T));
  }
  void closeConnection(const std::string& ip);

 private:
  friend class Communicator;  // returns the reason of a failure
  void set_server(const std::string& ip);
  bool is_connected(CtrlId peer_id);
  CtrlSocketManager();
  ~CtrlSocketManager() = default;
  status_t try_start(const std::string& bind_ip, std::uint16_t tcp_port, const std::string& uds_path);
  status_t try_connect(CtrlId peer_id, const std::string& ip, std::uint16_t port, CtrlId self_id);
  status_t try_connect(CtrlId peer_id, const std::string& uds_path, CtrlId self_id);
  status_t try_send(CtrlId peer_id, CtrlMsgType type, const void* payload, std::size_t len, std::uint16_t flags);
  status_t try_recv(CtrlId peer_id, CtrlMsgHeader& hdr, std::vector<std::uint8_t>& payload);
  static bool unpack(const CtrlMsgHeader& header, const std::vector<std::uint8_t>& bytes, CtrlMsgType type, void* to,
                     std::size_t size);
  class State;
  State* const state_;  // never destroyed: a thread may still wait in recv at exit
};

}  // namespace hmc
