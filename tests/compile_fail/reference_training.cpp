// expect: a reference model cannot be trained: it shares its weights with the others of its factory
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m) {
#ifdef BAD
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  training step(r, loss::cross_entropy{}, optim::sgd{});
#else
  training step(m, loss::cross_entropy{}, optim::sgd{});
#endif
}
