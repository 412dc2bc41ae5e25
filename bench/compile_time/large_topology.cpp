// A topology of 200 sublayers, put in order, checked, and made a model of.
import lamina;
#include "large_topology.h"

int main() {
  lamina::model<large_test::large, lamina::input<"N", 16>> net;
  return net.parameters().size() == 100 ? 0 : 1;
}
