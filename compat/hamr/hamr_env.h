#ifndef hamr_env_h
#define hamr_env_h

#include <hamr_config.h>

namespace hamr {

/// HMC reports through HMC_LOG instead.
constexpr int get_verbose() { return 0; }

}  // namespace hamr

#endif
