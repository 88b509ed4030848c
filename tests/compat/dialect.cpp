// A program of the older API, compiled as C++14, C++17 and C++20. As C++20 it also includes the newer API.
#include <hmc.h>
#if __cplusplus >= 202002L
#include <hmc/hmc.hpp>
#endif

#include <cstdio>
#include <vector>

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
  try {
    ConnBuffer none(7, 1, MemoryType::CPU);
    return fail("device 7");
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) return fail("code");
  }

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
