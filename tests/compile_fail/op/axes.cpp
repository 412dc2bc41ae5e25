// Operations that take axes apart, put them together or exchange them.
import lamina;
using namespace lamina;

// case: flatten_argument
// expect: for typed operands the call must give the rank: write `flatten<2>(x)`
// within: 13 lines
namespace flatten_argument {
using image = tensor<float, extents<2, 3, 4, 5>>;

void use() {
#ifdef BAD
  auto y = flatten(image(), {.from = 2});
#else
  auto y = flatten<2>(image());
#endif
}
}  // namespace flatten_argument

// case: flatten_axis
// expect: flatten: axis 3 is outside the rank: [3x4]
void flatten_axis() {
#ifdef BAD
  auto y = flatten<3>(matrix<float, 3, 4>());
#else
  auto y = flatten<0>(matrix<float, 3, 4>());
#endif
}

// case: permute_repeated_axis
// expect: permute: the order {0, 0} does not name every axis once: [3x4]
void permute_repeated_axis() {
#ifdef BAD
  auto y = permute<0, 0>(matrix<float, 3, 4>());
#else
  auto y = permute<1, 0>(matrix<float, 3, 4>());
#endif
}

// case: reshape_argument
// expect: for typed operands the call must give the rank: write `reshape(x, {6, 2})`
auto reshape_argument(const matrix<float, 3, 4>& x, const shape& s) {
#ifdef BAD
  return reshape(x, s);
#else
  return reshape(x, {s[0], s[1]});
#endif
}

// case: reshape_count
// expect: reshape: 12 elements do not make [5x2]: [3x4]
void reshape_count() {
#ifdef BAD
  auto y = reshape<extents<5, 2>>(matrix<float, 3, 4>());
#else
  auto y = reshape<extents<6, 2>>(matrix<float, 3, 4>());
#endif
}

// case: squeeze_size
// expect: squeeze: axis 0 has 3 positions, not one: [3x4]
void squeeze_size() {
#ifdef BAD
  auto y = squeeze<0>(matrix<float, 3, 4>());
#else
  auto y = squeeze<0>(matrix<float, 1, 4>());
#endif
}

// case: unsqueeze_axis
// expect: unsqueeze: the axes {3} are not distinct axes of a result of rank 3: [3x4]
void unsqueeze_axis() {
#ifdef BAD
  auto y = unsqueeze<3>(matrix<float, 3, 4>());
#else
  auto y = unsqueeze<2>(matrix<float, 3, 4>());
#endif
}

// case: concat_sizes
// expect: concat: the sizes differ on axis 1, not only on 0: [3x4] [3x5]
void concat_sizes() {
#ifdef BAD
  auto y = concat<0>(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#else
  auto y = concat<1>(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#endif
}

// case: split_parts
// expect: split_evenly: axis 0 does not divide into 2 equal parts: [3x4]
void split_parts() {
#ifdef BAD
  auto y = split<2>(matrix<float, 3, 4>());
#else
  auto y = split<2, 1>(matrix<float, 3, 4>());
#endif
}

// case: split_positions
// expect: split: 2 positions from 3 do not fit in 4: [4]
namespace split_positions {
#ifdef BAD
constexpr op::section::attributes last{.start = 3, .count = 2, .whole = 4};
#else
constexpr op::section::attributes last{.start = 2, .count = 2, .whole = 4};
#endif
void use(const tensor<float, extents<4>>& x) { auto y = apply_fixed<op::section, last>(x); }
}  // namespace split_positions

// case: split_sizes
// expect: split: the parts of axis 1 add up to 5 positions: [3x4]
void split_sizes() {
#ifdef BAD
  auto y = split<axes(2, 3), 1>(matrix<float, 3, 4>());
#else
  auto y = split<axes(1, 3), 1>(matrix<float, 3, 4>());
#endif
}
