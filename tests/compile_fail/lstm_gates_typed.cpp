// expect: lstm_gates: gives two results, which a typed expression does not hold; use values of a program, or the layer nn::lstm_cell
import lamina;
using namespace lamina;
using namespace lamina::ir;

#ifdef BAD
auto use(const matrix<float, 2, 12>& gates, const matrix<float, 2, 3>& cell) { return lstm_gates(gates, cell); }
#else
auto use(const value& gates, const value& cell) { return lstm_gates(gates, cell); }
#endif
