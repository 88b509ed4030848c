// A program of the older API, compiled as C++14, C++17 and C++20. As C++20 it also includes the newer API. The quoted
// headers are named as in the older library's performance programs.
#include <hmc.h>
#include <mem.h>
#include <status.h>
#if __cplusplus >= 202002L
#include <hmc/hmc.hpp>
#endif

#include <cstdio>
#include <vector>

#include "../src/memories/mem_type.h"
#include "../src/resource_manager/gpu_interface.h"

using namespace hmc;

struct Point {
  int x;
  double y;
};

static int fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 1;
}

int main() {
  auto buffer = std::make_shared<ConnBuffer>(0, 4096, MemoryType::CPU);
  std::vector<unsigned char> bytes(100), back(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(3 * i + 1);
  if (buffer->writeFromCpu(bytes.data(), 100, 8) != status_t::SUCCESS) return fail("writeFromCpu");
  if (buffer->copyWithin(1000, 8, 100) != status_t::SUCCESS) return fail("copyWithin");
  if (buffer->readToCpu(back.data(), 100, 1000) != status_t::SUCCESS || back != bytes) return fail("readToCpu");
  if (buffer->mem_type != MemoryType::CPU || buffer->device_id != 0 || buffer->buffer_size != 4096)
    return fail("fields");
  if (buffer->mem_ops == nullptr || buffer->mem_ops->getMemoryType() != MemoryType::CPU) return fail("mem_ops");
  try {
    ConnBuffer none(0, 1, static_cast<MemoryType>(99));
    return fail("type 99");
  } catch (const Error& error) {
    if (error.code() != Code::unsupported) return fail("code");
  }

  HostMemory host(0, MemoryType::CPU);
  void* first = nullptr;
  int second = 0;
  const int number = 1234567;
  if (host.allocateBuffer(&first, sizeof number) != status_t::SUCCESS) return fail("allocateBuffer");
  if (host.copyHostToDevice(first, &number, sizeof number) != status_t::SUCCESS) return fail("copyHostToDevice");
  if (host.copyDeviceToHost(&second, first, sizeof number) != status_t::SUCCESS || second != number)
    return fail("copyDeviceToHost");
  if (host.freeBuffer(first) != status_t::SUCCESS || host.free() != status_t::SUCCESS) return fail("freeBuffer");
  if (gpuSetDevice(0) != status_t::UNSUPPORT) return fail("gpuSetDevice");
  logInfo("%d bytes were copied", static_cast<int>(sizeof number));

  CtrlSocketManager& control = CtrlSocketManager::instance();
  const std::string path = CtrlSocketManager::udsPathFor(".", static_cast<CtrlSocketManager::CtrlId>(__cplusplus));
  if (!control.start("127.0.0.1", 0, path) || !control.connectUds(0, path, 1)) return fail("control");
  const Point sent{7, 0.5};
  Point received{0, 0};
  if (!control.sendStruct(0, sent) || !control.recvStruct(1, received) || received.x != 7) return fail("struct");
  control.closeAll();
  control.stop();
  return 0;
}
