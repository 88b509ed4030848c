// Computation to overlap with communication.
#pragma once

#include <cstddef>

namespace bench {

/// A fixed amount of arithmetic, which takes about `us` microseconds on an idle core. It isn't a fixed time: if the
/// progress of a collective uses the core, the work takes longer, which reduces the overlap.
class Work {
 public:
  explicit Work(double us);
  void run() const;

 private:
  std::size_t steps_;
};

}  // namespace bench
