// The smallest complete job: init, one barrier, close.
#include <hmc/hmc.hpp>

int main() {
  hmc::Runtime runtime = hmc::Runtime::init();
  runtime.world().barrier();
  runtime.close();
}
