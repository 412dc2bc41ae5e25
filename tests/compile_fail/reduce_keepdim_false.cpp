// expect: keepdim_of_a_typed_operand_is_true_or_left_out
import lamina;
using namespace lamina;

auto use(const tensor<float, extents<2, 3, 4>>& x) {
#ifdef BAD
  return mean(x, {.axes = 1, .keepdim = false});
#else
  return mean(x, {.axes = 1, .keepdim = true});
#endif
}
