// Other functions that would change or save shared weights, and functions of layers on a model.
// within: 40 lines
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m, const image_dataset& data, load_buffer& b, gradient_collector& g, infer_layer<nn::add>& layer) {
  const reference_factory<net, input<"N", 4>> factory(m);
  auto r = factory.create();
  auto o = factory.origin();
  const program_factory programs(m.core().inference_program(), m.parameters());
  auto p = programs.create();
  (void)data, (void)b, (void)g, (void)layer, (void)r, (void)o, (void)p;
#ifdef BAD
  // expect below: a reference model cannot be changed: it shares its weights with the others of its factory
  init(r);
#else
  init(layer);
#endif
#ifdef BAD
  // expect below: a reference model cannot load parameters: it shares its weights with the others of its factory
  load_weights(r, b);
#else
  load_weights(layer, b);
#endif
#ifdef BAD
  // expect below: a reference model cannot be saved: it shares its weights with the others of its factory
  save_weights(r, b);
#else
  save_weights(layer, b);
#endif
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  collect_gradients(r, g);
#else
  collect_gradients(layer, g);
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be saved: it shares its weights with the others of its factory
  save_weights(o, b);
#else
  save_weights(layer, b);
#endif
#ifdef BAD
  // expect below: a reference model cannot load parameters: it shares its weights with the others of its factory
  load_weights(p, b);
#else
  load_weights(layer, b);
#endif
#ifdef BAD
  // expect below: save_weights takes a layer; got a model: use save(model, path), load(model, path) and model.parameters()
  save_weights(m, b);
#else
  save(m, "net.safetensors");
#endif
#ifdef BAD
  // expect below: init takes a layer; got a model
  init(m);
#else
  m.parameters();
#endif
#ifdef BAD
  // expect below: a reference model cannot be saved: it shares its weights with the others of its factory
  save_net("net", r);
#else
  save_net("net", m);
#endif
#ifdef BAD
  // expect below: a reference model cannot be saved: it shares its weights with the others of its factory
  r.save("net.safetensors");
#else
  save(m, "net.safetensors");
#endif
#ifdef BAD
  // expect below: a reference model cannot load parameters: it shares its weights with the others of its factory
  r.load("net.safetensors");
#else
  load(m, "net.safetensors");
#endif
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  r.train(data);
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
#ifdef BAD
  // expect below: a reference model cannot be trained: it shares its weights with the others of its factory
  r.fit(data, loss::cross_entropy{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
#ifdef BAD
  // expect below: a reference model cannot be changed: it shares its weights with the others of its factory
  r.add(nn::relu{});
#else
  (void)m.core();
#endif
#ifdef BAD
  // expect below: a reference model cannot be changed: it shares its weights with the others of its factory
  r.update(m.parameters());
#else
  factory.update(m.parameters());
#endif
#ifdef BAD
  // expect below: the origin of a factory cannot be changed: it shares its weights with the others of its factory
  o.update(m.parameters());
#else
  factory.update(m.parameters());
#endif
}
