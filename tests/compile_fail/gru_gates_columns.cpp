// expect: gru_gates: the gates must have 3 times the columns of the state: [2x8] [2x8] [2x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = gru_gates(matrix<float, 2, 8>(), matrix<float, 2, 8>(), matrix<float, 2, 3>());
#else
  auto y = gru_gates(matrix<float, 2, 9>(), matrix<float, 2, 9>(), matrix<float, 2, 3>());
#endif
}
