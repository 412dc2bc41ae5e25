// Topologies: names, order, nesting, shapes through all layers, and the same traversal at run time.
module;
#include <boost/test/unit_test.hpp>

#include <array>
#include <string>
#include <vector>

module lamina;

using namespace lamina;

namespace {

// ---- chains
constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{},
    sublayer<"fc1">(nn::linear{.in_features = 400, .out_features = 120}), nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10});
static_assert(ValidTopology<lenet> && Layer<decltype(lenet)>);
static_assert(lenet.size == 12 && lenet.names[0] == label("0") && lenet.names[7] == label("fc1") &&
              lenet.names[11] == label("11"));
static_assert(no_error<shape_check<lenet, input<"N", 1, 28, 28>>>);
static_assert(output_type_of<lenet, input<"N", 1, 28, 28>> == tensor_type{dtype::float32, {"N", 10}});
static_assert(output_type_of<lenet, input<3, 1, 28, 28>> == tensor_type{dtype::float32, {3, 10}});
static_assert(output_type_of<lenet, port_input<"input", double, dyn, 1, 28, 28>>.dims.rank ==
              0);  // double input, float parameters
static_assert(!no_error<shape_check<lenet, input<"N", 1, 32, 32>>>);
static_assert(no_error<typed_shape_check<lenet, dtype::float64, port_input<"input", double, "N", 1, 28, 28>>>);
static_assert(typed_outputs_of<lenet, dtype::float64, input<"N", 1, 28, 28>>[0] ==
              tensor_type{dtype::float64, {"N", 10}});

// ---- connections, in any order
constexpr auto weight =
    topology(sublayer<"param">(nn::param_source{.shape = {784, 10}}), sublayer<"dot">(nn::dot{}),
             connect<"param.output", "dot.rhs">, connect<"input", "dot.lhs">, connect<"dot.output", "output">);
constexpr auto weight_again =
    topology(connect<"dot.output", "output">, connect<"input", "dot.lhs">, sublayer<"dot">(nn::dot{}),
             connect<"param.output", "dot.rhs">, sublayer<"param">(nn::param_source{.shape = {784, 10}}));
static_assert(ValidTopology<weight> && ValidTopology<weight_again>);
static_assert(weight.wires.order[0] == 0 && weight_again.wires.order[0] == 1);  // param before dot
static_assert(output_type_of<weight, input<"N", 784>>.dims == shape{"N", 10});
static_assert(output_type_of<weight_again, input<"N", 784>>.dims == shape{"N", 10});

// ---- several inputs and outputs, by name and by position
constexpr auto two_ports =
    topology(sublayer<"product">(nn::dot{}), sublayer<"act">(nn::relu{}), connect<"a", "product.lhs">,
             connect<"b", "product.rhs">, connect<"product.output", "act.input">, connect<"act.output", "activated">,
             connect<"product.output", "plain">, connect<"a", "same">);
static_assert(two_ports.inputs().size() == 2 && two_ports.inputs()[1] == label("b"));
static_assert(two_ports.outputs().size() == 3 && two_ports.outputs()[0] == label("activated") &&
              two_ports.outputs()[2] == label("same"));
static_assert(output_type_of<two_ports, input<2, 3>, input<3, 5>>.dims == shape{2, 5});
static_assert(output_types_of<two_ports, input<2, 3>, input<3, 5>>[2].dims == shape{2, 3});
static_assert(output_type_of<two_ports, port_input<"b", float, 3, 5>, port_input<"a", float, 2, 3>>.dims ==
              shape{2, 5});
static_assert(output_type_of<two_ports, port_input<"b", float, 3, 5>, input<2, 3>>.dims == shape{2, 5});
static_assert(input_ports<two_ports, port_input<"b", float, 3, 5>, input<2, 3>> == std::array<int, 2>{1, 0});
static_assert(!no_error<shape_check<two_ports, input<2, 3>, input<4, 5>>>);
static_assert(!no_error<shape_check<two_ports, input<2, 3>>>);

// ---- layers of several outputs, one of them not used
struct halves {
  static constexpr view<const label> outputs() { return port_names<"low", "high">; }
  template <class V> constexpr auto forward(auto&, const V& x) const {
    return std::array<V, 2>{slice(x, {.start = 0, .stop = 2, .axis = 1}), slice(x, {.start = 2, .stop = 5, .axis = 1})};
  }
};
constexpr auto lower = topology(sublayer<"cut">(halves{}), connect<"input", "cut.input">, connect<"cut.low", "output">,
                                discard<"cut.high">);
static_assert(ValidTopology<lower>);
static_assert(output_type_of<lower, input<7, 5>>.dims == shape{7, 2});

// ---- nesting: topologies in topologies, and layers made of layers by code
constexpr auto inner_nets = topology(
    connect<"a.output", "b.input">, connect<"b.output", "output">, connect<"input", "a.input">,
    sublayer<"b">(sequential(nn::tanh{}, nn::linear{.in_features = 10, .out_features = 3})), sublayer<"a">(weight));
static_assert(output_type_of<inner_nets, input<"N", 784>>.dims == shape{"N", 3});

struct two_convolutions {
  nn::conv2d a, b;
  constexpr auto forward(auto& s, const auto& x) const { return relu(s("b", b, relu(s("a", a, x))) + x); }
};
constexpr nn::conv2d keeping{.in_channels = 4, .out_channels = 4, .kernel_size = 3, .padding = 1};
constexpr auto by_code = sequential(two_convolutions{keeping, keeping},
                                    sublayer<"block">(nn::residual{sequential(keeping, nn::batch_norm2d{4})}));
static_assert(output_type_of<by_code, input<"N", 4, 8, 8>>.dims == shape{"N", 4, 8, 8});

// A variable template as a family of topologies; a plain layer as a whole model.
template <int depth> constexpr auto tower =
    sequential(tower<depth - 1>, nn::linear{.in_features = 4, .out_features = 4}, nn::relu{});
template <> constexpr auto tower<0> = sequential(nn::relu{});
static_assert(output_type_of<tower<5>, input<2, 4>>.dims == shape{2, 4});
constexpr nn::linear alone{.in_features = 3, .out_features = 2};
static_assert(ValidTopology<alone> && output_type_of<alone, input<"N", 3>>.dims == shape{"N", 2});

// ---- policies
static_assert(no_error<sub_policies_check<inner_nets,
                                          policies<sub<"b">(sub<"1">(trainable(false))), sub<"a">(trainable(false))>>>);
static_assert(!no_error<sub_policies_check<inner_nets, policies<sub<"b">(sub<"2">(trainable(false)))>>>);

// ---- the same walk at run time, over a scope that takes notes
struct notes {
  std::vector<std::string> parameters;
};
struct note_scope {
  notes* book;
  message_text* why;
  std::string path;
  note_scope nested(const label& name) const { return {book, why, path + name.string() + "."}; }
  traced parameter(std::string_view name, const shape& dims, const initializer&) const {
    book->parameters.push_back(path + std::string(name) + " " + dims.string());
    return {{dtype::float32, dims}, why};
  }
  traced operator()(std::string_view name, const auto& layer, const traced& x) const {
    auto inner = nested(label(name));
    traced out;
    detail::run_layer(inner, layer, view<const traced>(&x, 1), view<traced>(&out, 1));
    return out;
  }
  void refuse(std::string_view words) const { *why << words; }
};

template <class T> shape run(const T& layer, const shape& in, notes& book) {
  message_text why;
  note_scope scope{&book, &why, ""};
  traced x{{dtype::float32, in}, &why}, y;
  detail::run_layer(scope, layer, view<const traced>(&x, 1), view<traced>(&y, 1));
  return y.type.dims;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(topology)

BOOST_AUTO_TEST_CASE(parameters_have_the_names_of_their_path) {
  notes book;
  BOOST_TEST((run(inner_nets, {5, 784}, book) == shape{5, 3}));
  std::vector<std::string> expected{"a.param.weight [784x10]", "b.1.weight [3x10]", "b.1.bias [3]"};
  BOOST_TEST(book.parameters == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(unnamed_sublayers_are_named_by_position) {
  notes book;
  BOOST_TEST((run(lenet, {2, 1, 28, 28}, book) == shape{2, 10}));
  std::vector<std::string> expected{"0.weight [6x1x5x5]",   "0.bias [6]",     "3.weight [16x6x5x5]", "3.bias [16]",
                                    "fc1.weight [120x400]", "fc1.bias [120]", "9.weight [84x120]",   "9.bias [84]",
                                    "11.weight [10x84]",    "11.bias [10]"};
  BOOST_TEST(book.parameters == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(layers_made_by_code_name_their_parts) {
  static constexpr auto blocks =
      sequential(two_convolutions{keeping, keeping}, sublayer<"block">(nn::residual{sequential(keeping)}));
  notes book;
  BOOST_TEST((run(blocks, {1, 4, 6, 6}, book) == shape{1, 4, 6, 6}));
  std::vector<std::string> expected{"0.a.weight [4x4x3x3]",          "0.a.bias [4]",
                                    "0.b.weight [4x4x3x3]",          "0.b.bias [4]",
                                    "block.body.0.weight [4x4x3x3]", "block.body.0.bias [4]"};
  BOOST_TEST(book.parameters == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
