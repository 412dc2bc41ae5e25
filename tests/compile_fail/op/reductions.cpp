// Reductions and orders along axes.
import lamina;
using namespace lamina;

// case: argmax_axis
// expect: argmax: axis 5 is outside the rank: [3x4]
void argmax_axis() {
#ifdef BAD
  auto y = argmax<5>(matrix<float, 3, 4>());
#else
  auto y = argmax<-1>(matrix<float, 3, 4>());
#endif
}

// case: argmax_of_logic
// expect: argmax: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[3x4]
void argmax_of_logic() {
#ifdef BAD
  auto y = argmax(matrix<bool, 3, 4>());
#else
  auto y = argmax(matrix<int, 3, 4>());
#endif
}

// case: cumsum_of_logic
// expect: cumsum: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[3]
void cumsum_of_logic() {
#ifdef BAD
  auto y = cumsum(vector<bool, 3>());
#else
  auto y = cumsum(vector<float, 3>());
#endif
}

// case: reduce_all_of_numbers
// expect: reduce_all: takes bool, not float32; cast first, as in cast<bool>(x): float32[3]
void reduce_all_of_numbers() {
#ifdef BAD
  auto y = reduce_all(vector<float, 3>());
#else
  auto y = reduce_all(vector<float, 3>() > 0);
#endif
}

// case: reduce_axis
// expect: reduce_sum: the axes {2} are not distinct axes of the operand: [3x4]
void reduce_axis() {
#ifdef BAD
  auto y = reduce_sum<axes(2)>(matrix<float, 3, 4>());
#else
  auto y = reduce_sum<axes(1)>(matrix<float, 3, 4>());
#endif
}

// case: reduce_keepdim_false
// expect: keepdim_of_a_typed_operand_is_true_or_left_out
auto reduce_keepdim_false(const tensor<float, extents<2, 3, 4>>& x) {
#ifdef BAD
  return mean(x, {.axes = 1, .keepdim = false});
#else
  return mean(x, {.axes = 1, .keepdim = true});
#endif
}

// case: reduce_number_of_axes
// expect: several_axes_of_a_typed_operand_are_a_list_as_in_sum_x_0_2
auto reduce_number_of_axes(const tensor<float, extents<2, 3, 4>>& x) {
#ifdef BAD
  return reduce_sum(x, {.axes = {0, 2}});
#else
  return reduce_sum(x, {0, 2});
#endif
}

// case: softmax_last_axes
// expect: softmax_over_last: cannot take the last 3 axes of the operand: [3x4]
void softmax_last_axes() {
#ifdef BAD
  auto y = softmax_over_last<3>(matrix<float, 3, 4>());
#else
  auto y = softmax_over_last<2>(matrix<float, 3, 4>());
#endif
}

// case: softmax_of_integers
// expect: softmax: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
void softmax_of_integers() {
#ifdef BAD
  auto y = softmax(matrix<int, 3, 4>());
#else
  auto y = softmax(matrix<float, 3, 4>());
#endif
}

// case: log_softmax_of_integers
// expect: log_softmax: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
void log_softmax_of_integers() {
#ifdef BAD
  auto y = log_softmax(matrix<int, 3, 4>());
#else
  auto y = log_softmax(matrix<float, 3, 4>());
#endif
}

// case: top_k_count
// expect: top_k: axis -1 cannot give 5 elements: [3x4]
void top_k_count() {
#ifdef BAD
  auto y = top_k<5>(matrix<float, 3, 4>());
#else
  auto y = top_k<4>(matrix<float, 3, 4>());
#endif
}
