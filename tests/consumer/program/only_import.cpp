// A program without a single header: everything that it needs comes with the module.
import lamina;

using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 8}, nn::relu{},
                                       nn::linear{.in_features = 8, .out_features = 2});

int main() {
  matrix<float> a{{1, 2}, {3, 4}};
  auto y = evaluate(tanh(a * a) + 2.f * a);
  if (y.shape() != shape{2, 2} || y(0, 1) < 4.99f) return 1;

  // Iteration over a view, whose iterators need no header.
  float sum = 0;
  for (float v : a.data()) sum += v;
  if (sum != 10) return 2;

  // Several results in a structured binding, without <tuple>.
  auto [loss, gradient_of_a] =
      evaluate(reduce_sum(square(var<"a">(a))), gradient<"a">(reduce_sum(square(var<"a">(a)))));
  if (item(loss) != 30 || gradient_of_a(1, 1) != 8) return 3;

  auto sides = dict("lhs"_key = 2, "rhs"_key = 0.5);
  if (sides["lhs"_key] != 2 || sides["rhs"_key] != 0.5) return 4;

  model<net, input<"N", 4>> trained({.seed = 1});
  auto factory = reference_factory<net, input<"N", 4>>(trained);
  auto reference = factory.create();
  matrix<float, dyn, 4> x(3);
  auto one = trained(x), other = reference(x);
  for (int i = 0; i < 3; ++i)
    if (one(i, 0) != other(i, 0)) return 5;
  return 0;
}
