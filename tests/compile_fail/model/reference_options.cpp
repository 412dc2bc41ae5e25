// Training, saving and loading of shared weights, also with options in braces.
// within: 40 lines
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const image_dataset& data) {
  const reference_factory<net, input<"N", 4>> factory(m);
  auto r = factory.create();
  auto o = factory.origin();
  const program_factory programs(m.core().inference_program(), m.parameters());
  auto p = programs.create();
  (void)data, (void)r, (void)o, (void)p;
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  fit(r, data, loss::cross_entropy{}, optim::sgd{}, {.epochs = 1});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{}, {.epochs = 1});
#endif
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  training step(r, loss::cross_entropy{}, optim::sgd{});
#else
  training step(m, loss::cross_entropy{}, optim::sgd{});
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be trained: it shares its weights with the others of its factory
  fit(o, data, loss::cross_entropy{}, optim::sgd{}, {.epochs = 1});
#else
  (void)o(matrix<float, 3, 4>());
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be trained: it shares its weights with the others of its factory
  training one(o, loss::cross_entropy{}, optim::sgd{});
#else
  training one(m, loss::cross_entropy{}, optim::sgd{});
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be trained: it shares its weights with the others of its factory
  o.backward();
#else
  (void)o(matrix<float, 3, 4>());
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot hand out its parameters: it shares its weights with the others of its factory
  o.parameters();
#else
  m.parameters();
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be changed: it shares its weights with the others of its factory
  o.core();
#else
  m.core();
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be saved: it shares its weights with the others of its factory
  save(o, "net.safetensors");
#else
  save(m, "net.safetensors");
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot load parameters: it shares its weights with the others of its factory
  load(o, "net.safetensors");
#else
  load(m, "net.safetensors");
#endif
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  fit(p, data, loss::cross_entropy{}, optim::sgd{}, {.epochs = 1});
#else
  (void)p({});
#endif
#ifdef BAD
  // expect below: a reference model cannot hand out its parameters: it shares its weights with the others of its factory
  p.parameters();
#else
  m.parameters();
#endif
#ifdef BAD
  // expect below: a reference model cannot be saved: it shares its weights with the others of its factory
  save(p, "net.safetensors");
#else
  (void)p({});
#endif
#ifdef BAD
  // expect below: a reference model cannot load parameters: it shares its weights with the others of its factory
  load(p, "net.safetensors");
#else
  (void)p({});
#endif
}
