// Reference models share their weights, so no operation may change them.
import lamina;
using namespace lamina;

// case: reference_backward
// expect: a reference model cannot be trained: it shares its weights with the others of its factory
namespace reference_backward {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  r.backward(x);
#else
  (void)r(x);
#endif
}
}  // namespace reference_backward

// case: reference_core
// expect: a reference model cannot be changed: it shares its weights with the others of its factory
namespace reference_core {
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
}  // namespace reference_core

// case: reference_fit
// expect: a reference model cannot be trained: it shares its weights with the others of its factory
namespace reference_fit {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  fit(r, data, loss::cross_entropy{}, optim::sgd{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
}  // namespace reference_fit

// case: reference_load
// expect: a reference model cannot load parameters: it shares its weights with the others of its factory
namespace reference_load {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  load(r, "net.safetensors");
#else
  load(m, "net.safetensors");
#endif
}
}  // namespace reference_load

// case: reference_parameters
// expect: a reference model cannot hand out its parameters: it shares its weights with the others of its factory. Train, load or save a model, and hand its parameters to factory.update(...)
namespace reference_parameters {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  (void)r.parameters();
#else
  (void)r(x);
#endif
}
}  // namespace reference_parameters

// case: reference_save
// expect: a reference model cannot be saved: it shares its weights with the others of its factory
namespace reference_save {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const matrix<float, 3, 4>& x, const image_dataset& data) {
  auto r = reference_factory<net, input<"N", 4>>(m).create();
  (void)x, (void)data;
#ifdef BAD
  save(r, "net.safetensors");
#else
  save(m, "net.safetensors");
#endif
}
}  // namespace reference_save

// case: reference_training
// expect: a reference model cannot be trained: it shares its weights with the others of its factory
namespace reference_training {
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
}  // namespace reference_training
