// A topology of 200 sublayers: sorted, checked, and instantiated as a model.
import lamina;
#include "large_topology.h"

int main() {
  lamina::model<large_test::large, lamina::input<"N", 16>> net;
  return net.parameters().size() == 100 ? 0 : 1;
}
