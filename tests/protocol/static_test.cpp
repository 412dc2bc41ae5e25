// Static properties of layers: sizes, members, free functions, and whether they pass gradients on.
import lamina;
import lamina.std;

using namespace lamina;

namespace {

constexpr nn::linear fc{3, 2};
using matrix_port = inputs<port<"input", matrix<float>>>;

// ---- an inference layer stores nothing, or its parameters
static_assert(std::is_empty_v<infer_layer<nn::add>> && std::is_empty_v<infer_layer<nn::tanh>>);
static_assert(sizeof(infer_layer<constant_layer<fc>>) ==
              sizeof(std::string) + sizeof(std::vector<int>) + sizeof(std::int64_t));  // name, parameters, seed
constexpr auto no_weights = sequential(nn::relu{}, nn::residual{nn::tanh{}}, nn::dropout{0.5});
constexpr auto weights_inside = sequential(nn::relu{}, nn::residual{nn::linear{3, 3}});
static_assert(std::is_empty_v<infer_layer<constant_layer<no_weights>>>);
static_assert(infer_layer<constant_layer<weights_inside>>::has_states);

// ---- members are there where they mean something
template <class L>
concept Initializable = requires(L l) { l.init(); };
template <class L>
concept Collectable = requires(L l, gradient_collector c) { l.collect_gradients(c); };
template <class L>
concept Backward = requires(L l, matrix<float> g) { l.backward(dict("output"_key = g)); };
using add_layer = train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>>;
using fc_layer = train_layer<constant_layer<fc>, matrix_port>;
using frozen = train_layer<constant_layer<fc>, matrix_port, policies<trainable(false)>>;
static_assert(!Initializable<add_layer> && !Collectable<add_layer> && Backward<add_layer>);
static_assert(Initializable<fc_layer> && Collectable<fc_layer> && Initializable<frozen> && !Collectable<frozen>);
static_assert(!Initializable<infer_layer<nn::add>> && Initializable<infer_layer<constant_layer<fc>>>);
static_assert(!Backward<infer_layer<nn::tanh>> && !Collectable<infer_layer<constant_layer<fc>>>);
static_assert(fc_layer::is_update && !fc_layer::is_feedback && !frozen::is_update);
static_assert(
    !train_layer<constant_layer<weights_inside>, matrix_port, policies<sub<"1">(trainable(false))>>::is_update);

// ---- the free functions exist for every layer
static_assert(requires(add_layer a, infer_layer<nn::add> i, load_buffer b, gradient_collector c) {
  init(a);
  init(i);
  load_weights(a, b);
  save_weights(i, b);
  collect_gradients(i, c);
  assert_neutral(i);
});

// ---- A -> B: B hands gradients on where A is trained or hands them on
constexpr auto chain = sequential(sublayer<"first">(nn::relu{}), sublayer<"a">(nn::linear{3, 3}),
                                  sublayer<"b">(nn::tanh{}), sublayer<"c">(nn::linear{3, 2}));
using all = propagation<chain, policies<>, input<"N", 3>>;
static_assert(!all::updates({"first"}) && all::updates({"a"}) && !all::updates({"b"}) && all::updates({"c"}));
static_assert(!all::feeds_back({"first"}) && !all::feeds_back({"a"}) && all::feeds_back({"b"}) &&
              all::feeds_back({"c"}));
using head_only = propagation<chain, policies<sub<"a">(trainable(false))>, input<"N", 3>>;
static_assert(!head_only::feeds_back({"b"}) && !head_only::feeds_back({"c"}) && head_only::updates({"c"}));
// Mismatched inputs are refused, and a path without a sublayer is not constant.
template <class... In>
concept propagates = requires { typename propagation<chain, policies<>, In...>; };
static_assert(propagates<input<"N", 3>> && !propagates<input<"N", 7>>);
template <fixed_string Name>
concept asks = requires { typename std::bool_constant<all::updates({Name.view()})>; };
static_assert(asks<"b"> && !asks<"nosuch">);
using fed_back = propagation<chain, policies<trainable(false), feedback(true)>, input<"N", 3>>;
static_assert(fed_back::feeds_back({"first"}) && fed_back::feeds_back({"c"}) && !fed_back::updates({"c"}));

constexpr auto inner =
    topology(sublayer<"w">(nn::param_source{{3, 3}}), sublayer<"dot">(nn::dot{}), sublayer<"out">(nn::tanh{}),
             connect<"input", "dot.lhs">, connect<"w.output", "dot.rhs">, connect<"dot.output", "out.input">,
             connect<"out.output", "output">);
constexpr auto outer = topology(
    sublayer<"left">(inner), sublayer<"right">(inner), sublayer<"side">(nn::relu{}), sublayer<"sum">(nn::add{}),
    connect<"x", "left.input">, connect<"left.output", "right.input">, connect<"x", "side.input">,
    connect<"right.output", "sum.lhs">, connect<"side.output", "sum.rhs">, connect<"sum.output", "y">);
using nested = propagation<outer, policies<sub<"left">(trainable(false))>, input<"N", 3>>;
static_assert(!nested::updates({"left"}) && nested::updates({"right"}) && nested::updates({"right", "w"}));
static_assert(!nested::feeds_back({"right"}) && nested::feeds_back({"right", "dot"}) &&
              nested::feeds_back({"right", "out"}));
static_assert(!nested::feeds_back({"left", "dot"}) && !nested::feeds_back({"side"}) && nested::feeds_back({"sum"}));
using left_too = propagation<outer, policies<>, input<"N", 3>>;
static_assert(left_too::feeds_back({"right"}) && left_too::feeds_back({"left", "dot"}) &&
              !left_too::feeds_back({"left"}));

}  // namespace
