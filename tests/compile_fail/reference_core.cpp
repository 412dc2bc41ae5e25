// expect: a reference model cannot be changed: it shares its weights with the others of its factory
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  (void)r.core();
#else
  (void)m.core();
#endif
}
