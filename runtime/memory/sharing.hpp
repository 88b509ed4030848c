// Sharing of device memory between processes of a node: kinds and exported form.
#pragma once

#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::memory {

/// In the order in which they are tried. For each kind:
/// - `Provider::why_not(kind)` tests it and returns the reason if it doesn't work.
/// - A failed export or import leaks nothing.
/// - Two imports of the same memory share one mapping, which the last holder closes. Imports may be closed in any
///   order.
/// - Imports stay valid after the exporter has exited.
enum class SharingKind {
  same_process,  ///< both sides are one process: the same allocation
  vmm_fd,        ///< physical memory by file descriptor
  fabric,        ///< physical memory by fabric handle, if the system permits it
  ipc,           ///< the vendor's older IPC handle of 64 bytes, with an offset
};
inline constexpr SharingKind sharing_kinds[] = {SharingKind::same_process, SharingKind::vmm_fd, SharingKind::fabric,
                                                SharingKind::ipc};
const char* name_of(SharingKind kind) noexcept;

/// The exported form of an allocation. `fd`, if any, is sent with the bytes by SCM_RIGHTS.
struct Exported {
  base::Bytes bytes;
  base::UniqueFd fd;
};

}  // namespace hmc::memory
