// expect: several_axes_of_a_typed_operand_are_a_list_as_in_sum_x_0_2
import lamina;
using namespace lamina;

auto use(const tensor<float, extents<2, 3, 4>>& x) {
#ifdef BAD
  return reduce_sum(x, {.axes = {0, 2}});
#else
  return reduce_sum(x, {0, 2});
#endif
}
