// Inter-process events of the fake libcuda.
#pragma once

#include "tests/fake_drivers/streams.hpp"

namespace fake {

Result create_shared_event(void*& event, const EventTraits& traits);
/// `handle`: 64 bytes.
Result get_event_handle(void* handle, void* event);
Result open_event_handle(void*& event, const void* handle, int device);

}  // namespace fake
