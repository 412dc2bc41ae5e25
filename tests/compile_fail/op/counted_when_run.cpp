// Results with data-dependent extents, for typed operands.
// within: 16 lines
import lamina;
using namespace lamina;

void use(const matrix<float>& x, const tensor<bool, extents<dyn, dyn>>& mask, const scalar<float>& k) {
  auto twin = where(mask, x, x * k);
#ifdef BAD
  // expect below: an extent of the result of `non_zero` is known only at run time, but an expression needs it before; use it on values of a program or a net
  auto y0 = non_zero(x);
#else
  auto y0 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `argwhere` is known only at run time
  auto y1 = argwhere(x);
#else
  auto y1 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `unique` is known only at run time
  auto y2 = unique(x);
#else
  auto y2 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `masked_select` is known only at run time
  auto y3 = masked_select(x, mask);
#else
  auto y3 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `compress` is known only at run time
  auto y4 = compress(x, mask);
#else
  auto y4 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `truncate` is known only at run time
  auto y5 = truncate(x, k);
#else
  auto y5 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `non_max_suppression` is known only at run time
  auto y6 = non_max_suppression(x, x);
#else
  auto y6 = top_k<1>(x);
#endif
#ifdef BAD
  // expect below: an extent of the result of `top_k` is known only at run time
  auto y7 = top_k(x, k);
#else
  auto y7 = top_k<1>(x);
#endif
}
