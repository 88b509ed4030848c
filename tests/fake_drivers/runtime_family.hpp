// Shared by the files of the fake libamdhip64 and libmusart.
#pragma once

namespace fake {

/// The device of this thread, set by SetDevice.
extern thread_local constinit int current_device;

}  // namespace fake
