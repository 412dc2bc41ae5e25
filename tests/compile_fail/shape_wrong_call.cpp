// expect: sublayer `block.product` (dot): it is called with 1 input but has 2: `lhs`, `rhs` (`lhs` is [3x3])
import lamina;

using namespace lamina;
struct block {
  nn::dot product;
  constexpr auto forward(auto& s, const auto& x) const {
#ifdef BAD
    return s("product", product, x);
#else
    return s("product", product, x, x);
#endif
  }
};
constexpr auto net = sequential(sublayer<"block">(block{}));
static_assert(no_error<shape_check<net, input<3, 3>>>);
