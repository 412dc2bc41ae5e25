// Conflicting policies, and policies for missing sublayers.
import lamina;
using namespace lamina;

// case: policy_activation
// expect: activation is given `int`, not a layer: a layer is a class with a member `forward`
namespace policy_activation {
#ifdef BAD
using said = policies<activation(3)>;
#else
using said = policies<activation(nn::tanh{})>;
#endif
said s;
}  // namespace policy_activation

// case: policy_axis_count
// expect: dot: the policy axis_count must be 1, 2 or 3
namespace policy_axis_count {
#ifdef BAD
using said = policies<axis_count(4)>;
#else
using said = policies<axis_count(2)>;
#endif
train_layer<nn::dot, inputs<port<"lhs", matrix<float, 3, 3>>, port<"rhs", matrix<float, 3, 3>>>, said> layer("dot");
}  // namespace policy_axis_count

// case: policy_device
// expect: device `gpu` does not exist; the only one is `cpu`
namespace policy_device {
#ifdef BAD
using set = policies<device<"gpu">>;
#else
using set = policies<device<"cpu">>;
#endif
}  // namespace policy_device

// case: policy_element_conflict
// expect: policy `element` is given two different values: `element<double>` and `element<float>`
namespace policy_element_conflict {
#ifdef BAD
using set = policies<element<double>, element<float>>;
#else
using set = policies<element<double>, use_bias(false)>;
#endif
}  // namespace policy_element_conflict

// case: policy_initialize_name
// expect: policy `initialize` names parameter `wieght`, which no layer has; there are `weight`, `bias`; did you mean `weight`?
namespace policy_initialize_name {
constexpr auto net = sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<initialize<"wieght">(initializer::constant(1))>>;
#else
using trained = model<net, input<"N", 4>, policies<initialize<"weight">(initializer::constant(1))>>;
#endif
trained* t;
}  // namespace policy_initialize_name

// case: policy_initialize_sublayer
// expect: policy `initialize` names parameter `gain`, which no layer of `body.fc` has; there are `weight`, `bias`
namespace policy_initialize_sublayer {
constexpr auto net = sequential(sublayer<"norm">(nn::layer_norm{.normalized_shape = {4}}),
                                sublayer<"body">(sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}))));
#ifdef BAD
using said = policies<sub<"body">(sub<"fc">(initialize<"gain">(initializer::constant(1))))>;
#else
using said =
    policies<initialize<"weight">(initializer::constant(0)), sub<"body">(initialize<"bias">(initializer::constant(1)))>;
#endif
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, said> layer("net");
}  // namespace policy_initialize_sublayer

// case: policy_nested_unknown_sublayer
// expect: the policies name sublayer `outer.inner.x`, which does not exist; the sublayers are: `outer.inner.a`
namespace policy_nested_unknown_sublayer {
constexpr auto net =
    sequential(sublayer<"outer">(sequential(sublayer<"inner">(sequential(sublayer<"a">(nn::linear{4, 3}))))));
#ifdef BAD
model<net, input<"N", 4>, policies<sub<"outer">(sub<"inner">(sub<"x">(trainable(false))))>> m;
#else
model<net, input<"N", 4>, policies<sub<"outer">(sub<"inner">(sub<"a">(trainable(false))))>> m;
#endif
}  // namespace policy_nested_unknown_sublayer

// case: policy_random_engine
// expect: random engine `mt19937` does not exist; the only one is `philox`, whose bits do not depend on the number of threads
namespace policy_random_engine {
#ifdef BAD
using set = policies<random_engine<"mt19937">>;
#else
using set = policies<random_engine<"philox">>;
#endif
}  // namespace policy_random_engine

// case: policy_sub_conflict
// expect: sublayer `body`: sublayer `dot`: policy `trainable` is given two different values: `trainable(true)` and `trainable(false)`
namespace policy_sub_conflict {
#ifdef BAD
using set = policies<sub<"body">(sub<"dot">(trainable(true), trainable(false)))>;
#else
using set = policies<sub<"body">(trainable(true), sub<"dot">(trainable(false)))>;
#endif
}  // namespace policy_sub_conflict

// case: policy_sub_inside_code
// expect: the policies name sublayer `block.bdoy`, which does not exist; the sublayers are: `block.body`
namespace policy_sub_inside_code {
constexpr auto net = sequential(sublayer<"block">(nn::residual{nn::linear{4, 4}}));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<sub<"block">(sub<"bdoy">(trainable(false)))>>;
#else
using trained = model<net, input<"N", 4>, policies<sub<"block">(sub<"body">(trainable(false)))>>;
#endif
trained* t;
}  // namespace policy_sub_inside_code

// case: policy_sub_name
// expect: the sublayer name `body.dot` contains a dot; a dot separates a sublayer from its port
namespace policy_sub_name {
#ifdef BAD
using set = policies<sub<"body.dot">(trainable(false))>;
#else
using set = policies<sub<"body">(sub<"dot">(trainable(false)))>;
#endif
}  // namespace policy_sub_name

// case: policy_sub_of_plain_layer
// expect: the policies name sublayer `fc.x`, which does not exist; `fc` has no sublayers
namespace policy_sub_of_plain_layer {
constexpr auto net = sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}));
#ifdef BAD
using said = policies<sub<"fc">(sub<"x">(trainable(false)))>;
#else
using said = policies<sub<"fc">(trainable(false))>;
#endif
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, said> layer("net");
// One set may serve several layers, also layers without sublayers or parameters.
train_layer<nn::tanh, inputs<port<"input", matrix<float>>>,
            policies<sub<"fc">(trainable(false)), initialize<"weight">(initializer::constant(1))>>
    act("act");
}  // namespace policy_sub_of_plain_layer

// case: policy_user_conflict
// expect: policy `mode` is given two different values: `mode{1, 2}` and `mode{3, 4}`
namespace policy_user_conflict {
struct mode {
  int low = 0, high = 0;
};
#ifdef BAD
using set = policies<mode(1, 2), mode(3, 4)>;
#else
using set = policies<mode(1, 2), sub<"a">(mode(3, 4))>;
#endif
}  // namespace policy_user_conflict
