// What libamdhip64's and libmusart's files share.
#pragma once

namespace fake {

/// This thread's, as SetDevice set it.
extern thread_local constinit int current_device;

}  // namespace fake
