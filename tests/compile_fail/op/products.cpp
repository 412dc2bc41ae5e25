// Products of matrices, and the gates of recurrent layers.
import lamina;
using namespace lamina::ir;
using namespace lamina;

// case: matmul_inner_sizes
// expect: matmul: the inner sizes differ: [?x784] [100x10]
namespace matmul_inner_sizes {
using rows = tensor<float, extents<dyn, 784>>;

void use() {
#ifdef BAD
  auto y = matmul(rows(3), matrix<float, 100, 10>());
#else
  auto y = matmul(rows(3), matrix<float, 784, 10>());
#endif
}
}  // namespace matmul_inner_sizes

// case: matmul_of_vector
// expect: matmul: both operands must be matrices: [4] [4x2]
void matmul_of_vector() {
#ifdef BAD
  auto y = matmul(vector<float, 4>(), matrix<float, 4, 2>());
#else
  auto y = matmul(matrix<float, 1, 4>(), matrix<float, 4, 2>());
#endif
}

// case: matmul_of_other_types_in_half
// expect: matmul: `compute` is bfloat16 and the operands are float64; float32 operands may be rounded to bfloat16 or float16: [2x3] [3x4]
void matmul_of_other_types_in_half() {
  constexpr matmul_attributes half{.compute = dtype::bfloat16};
#ifdef BAD
  auto y = apply_fixed<op::matmul, half>(matrix<double, 2, 3>(), matrix<double, 3, 4>());
#else
  auto y = apply_fixed<op::matmul, half>(matrix<float, 2, 3>(), matrix<float, 3, 4>());
#endif
}

// case: dot_axes
// expect: dot: the last axes of the first do not match the first axes of the second: [2x3x4] [4x3x2]
void dot_axes() {
#ifdef BAD
  auto y = dot<2>(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<4, 3, 2>>());
#else
  auto y = dot<2>(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<3, 4, 2>>());
#endif
}

// case: dot_of_vector
// expect: dot: both operands must have 2 axes or more: [4] [4x2]
void dot_of_vector() {
#ifdef BAD
  auto y = dot<2>(vector<float, 4>(), matrix<float, 4, 2>());
#else
  auto y = dot<1>(vector<float, 4>(), matrix<float, 4, 2>());
#endif
}

// case: transpose_rank
// expect: transpose: takes a matrix; `permute` exchanges axes of other ranks: [2x3x4]
void transpose_rank() {
#ifdef BAD
  auto y = transpose(tensor<float, extents<2, 3, 4>>());
#else
  auto y = transpose(matrix<float, 2, 3>());
#endif
}

// case: gru_gates_columns
// expect: gru_gates: the gates must have 3 times the columns of the state: [2x8] [2x8] [2x3]
void gru_gates_columns() {
#ifdef BAD
  auto y = gru_gates(matrix<float, 2, 8>(), matrix<float, 2, 8>(), matrix<float, 2, 3>());
#else
  auto y = gru_gates(matrix<float, 2, 9>(), matrix<float, 2, 9>(), matrix<float, 2, 3>());
#endif
}

// case: lstm_gates_typed
// expect: lstm_gates: gives two results, which a typed expression cannot hold; use values of a program, or the layer nn::lstm_cell
#ifdef BAD
auto lstm_gates_typed(const matrix<float, 2, 12>& gates, const matrix<float, 2, 3>& cell) {
  return lstm_gates(gates, cell);
}
#else
auto lstm_gates_typed(const value& gates, const value& cell) { return lstm_gates(gates, cell); }
#endif
