#ifndef hamr_buffer_transfer_h
#define hamr_buffer_transfer_h

namespace hamr {

/// The transfers that are complete when a call returns. Transfers to memory that the host can access always are.
enum class buffer_transfer {
  async = 0,      ///< transfers to a device are queued on the buffer's stream
  sync_host = 1,  ///< as async
  sync = 2        ///< all are complete
};

}  // namespace hamr

#endif
