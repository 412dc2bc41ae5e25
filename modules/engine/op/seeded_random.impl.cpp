module lamina:op.seeded_random.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.random;
import :op.reduce;
import :op.seeded_random;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using namespace detail;

namespace {
template <class Op>
value random_like(const value& like, dtype element, double first, double second, seed_attributes a) {
  program& p = like.owner();
  const dtype computed_as = is_real(element) ? element : dtype::float32;
  const value shaped =
      like.type().element == computed_as ? like : value(broadcast_like(p.number(0., computed_as), like));
  return converted(apply<Op>(random_attributes{first, second, a.site}, constant_list(p, {a.seed, 0}), shaped), element);
}
}  // namespace

value uniform_like(const value& like, dtype element, double low, double high, seed_attributes a, const origin&) {
  return random_like<op::random_uniform>(like, element, low, high, a);
}
value normal_like(const value& like, dtype element, double mean, double deviation, seed_attributes a, const origin&) {
  return random_like<op::random_normal>(like, element, mean, deviation, a);
}
value bernoulli(const value& x, dtype element, seed_attributes a, const origin&) {
  return converted(uniform_like(x, x.type().element, 0, 1, a) < x, element);
}
value multinomial(const value& scores, std::int64_t count, seed_attributes a, const origin&) {
  if (scores.shape().rank != 2 || count < 0) {
    text t;
    raise(error_kind::shape,
          t << "multinomial: scores [N, C] and a count are expected, not " << scores.shape() << " and " << count);
  }
  const value until = unsqueeze(cumsum(softmax(scores, {-1}), cumsum_attributes{.axis = 1}), axes(1));  // [N, 1, C]
  const value nowhere = constant_list(scores.owner(), std::vector<std::int64_t>(static_cast<std::size_t>(count)));
  const value wide = gather(scores, nowhere, 1);  // only its shape is read
  const value total = slice(until, slice_attributes{-1, std::numeric_limits<std::int64_t>::max(), 2, 1});
  const value at = unsqueeze(uniform_like(wide, scores.type().element, 0, 1, a), axes(2)) * total;  // [N, count, 1]
  return reduce_sum(converted(at >= until, dtype::int64), reduce_attributes{.axes = axes(2)});
}
dropped dropout_of(const value& x, const value& ratio, const value& training, seed_attributes a, const origin&) {
  const dtype element = x.type().element;
  const value rate = reshape(converted(ratio, element), lamina::shape{}), on = reshape(training, lamina::shape{});
  const value mask = (uniform_like(x, element, 0, 1, a) >= rate) || !on;
  return {where(mask, x * where(on, 1 / (1 - rate), 1 + rate * 0), 0), mask};
}

}  // namespace lamina
