// Sharing of device memory between processes of a node: what goes over the wire.
#pragma once

#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd.hpp"

namespace hmc::memory {

/// In the order in which they are tried.
///
/// What holds for each: `Provider::why_not(kind)` tries it and says why not; a failure part-way leaves
/// nothing behind; importing the same memory twice gives the same mapping, closed with its last
/// holder; imports may be closed in any order; the exporter's death leaves importers valid.
enum class SharingKind {
  same_process,  ///< both sides are one process: the same allocation
  vmm_fd,        ///< physical memory by file descriptor
  fabric,        ///< the same by a handle of bytes, where the system grants it
  ipc,           ///< the vendor's older handle of 64 bytes, with an offset
};
inline constexpr SharingKind sharing_kinds[] = {SharingKind::same_process, SharingKind::vmm_fd, SharingKind::fabric,
                                                SharingKind::ipc};
const char* name_of(SharingKind kind) noexcept;

/// What an exporter gives. `fd`, where there is one, goes beside the bytes as SCM_RIGHTS.
struct Exported {
  base::Bytes bytes;
  base::UniqueFd fd;
};

/// A second holder of the same, for another importer. Throws Error.
Exported duplicate(const Exported& exported);

}  // namespace hmc::memory
