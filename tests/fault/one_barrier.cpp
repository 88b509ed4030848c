// The smallest whole job: it starts, meets, and ends.
#include <hmc/hmc.hpp>

int main() {
  hmc::Runtime runtime = hmc::Runtime::init();
  runtime.world().barrier();
  runtime.close();
}
