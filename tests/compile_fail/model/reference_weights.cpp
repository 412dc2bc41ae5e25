// Shared weights cannot be changed through a reference model.
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using net_type = model<net, input<"N", 4>>;

void use(net_type& m) {
  const reference_factory<net, input<"N", 4>> factory(m);
  auto r = factory.create();
#ifdef BAD
  // expect below: 'this' argument to member function 'update' has type 'element_type' (aka 'const lamina::reference_core'), but function is not marked const
  r.shared_part()->update(m.parameters());
#else
  factory.update(m.parameters());
#endif
#ifdef BAD
  // expect below: 'weights' is a private member of 'lamina::reference_core'
  (void)r.shared_part()->weights();
#else
  (void)r.shared_part()->shared_bytes();
#endif
#ifdef BAD
  // expect below: but function is not marked const
  r.shared_part()->plans().clear();
#else
  factory.plans().clear();
#endif
#ifdef BAD
  // expect below: but function is not marked const
  r.shared_part()->plans().limit({.entries = 3});
#else
  factory.plans().limit({.entries = 3});
#endif
}
