// Tables and drawings of nets: counts computed by hand, expected text.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

struct shortcut {
  nn::linear a, b;
  constexpr auto forward(auto& s, const auto& x) const { return relu(s("b", b, relu(s("a", a, x))) + x); }
};
struct twice {
  nn::linear a;
  constexpr auto forward(auto& s, const auto& x) const { return s("a", a, s("a", a, x)); }
};
constexpr auto body =
    topology(connect<"sum.output", "output">, connect<"input", "left.input">, connect<"left.output", "sum.lhs">,
             connect<"right.output", "sum.rhs">, connect<"input", "right.input">,
             sublayer<"right">(nn::linear{.in_features = 4, .out_features = 4, .bias = false}),
             sublayer<"left">(nn::tanh{}), sublayer<"sum">(nn::add{}));
constexpr auto nested =
    sequential(sublayer<"stem">(nn::linear{.in_features = 6, .out_features = 4}), sublayer<"body">(body),
               sublayer<"block">(shortcut{{4, 4}, {4, 4}}), sublayer<"two">(twice{{4, 4}}));
constexpr auto product = topology(sublayer<"product">(nn::dot{}), connect<"a", "product.lhs">,
                                  connect<"b", "product.rhs">, connect<"product.output", "output">);
constexpr auto judged = topology(sublayer<"softmax">(nn::softmax{}), sublayer<"loss">(nn::nll_loss{}),
                                 connect<"x", "softmax.input">, connect<"softmax.output", "loss.input">,
                                 connect<"weights", "loss.weights">, connect<"loss.output", "value">);
constexpr auto steps = sequential(sublayer<"rnn">(nn::rnn{.input_size = 3, .hidden_size = 2}));
constexpr auto lenet_of_any_size =
    sequential(sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 2, .kernel_size = 5}));
constexpr auto lonely = nn::linear{.in_features = 3, .out_features = 2};

constexpr std::string_view lenet_table =
    R"(sublayer  kind        output        parameters   flops
0         conv2d      [Nx6x28x28]          156  239904
1         relu        [Nx6x28x28]            0    4704
2         max_pool2d  [Nx6x14x14]            0    4704
3         conv2d      [Nx16x10x10]        2416  481600
4         relu        [Nx16x10x10]           0    1600
5         max_pool2d  [Nx16x5x5]             0    1600
6         flatten     [Nx400]                0       0
7         linear      [Nx120]            48120   96120
8         relu        [Nx120]                0     120
9         linear      [Nx84]             10164   20244
10        relu        [Nx84]                 0      84
11        linear      [Nx10]               850    1690
total                                    61706  852370
61706 of 61706 parameters are trained; flops for `input` [1x1x28x28]
)";
// 5 rows: linear 2*5*6*4 + 5*4; add, tanh and relu 20; linear without bias 2*5*4*4, with one 20 more.
constexpr std::string_view nested_table =
    R"(sublayer    kind              output  parameters  flops
stem        linear            [5x4]           28    260
body.right  linear            [5x4]           16    160
body.left   tanh              [5x4]            0     20
body.sum    add               [5x4]            0     20
block.a     linear            [5x4]           20    180
block.b     linear            [5x4]           20    180
block       shortcut          [5x4]            0     60
two.a       linear (2 calls)  [5x4]           20    360
total                                        104   1240
76 of 104 parameters are trained; flops for `input` [5x6]
)";
constexpr std::string_view nested_drawing =
    R"dot(digraph net {
  node [shape=box];
  "input input" [label="input\n[Nx6]", shape=ellipse];
  "stem" [label="stem\nlinear\n[Nx4]"];
  subgraph "cluster body" {
    label="body\ntopology";
    "body.right" [label="body.right\nlinear\n[Nx4]"];
    "body.left" [label="body.left\ntanh\n[Nx4]"];
    "body.sum" [label="body.sum\nadd\n[Nx4]"];
  }
  subgraph "cluster block" {
    label="block\nshortcut";
    "block.a" [label="block.a\nlinear\n[Nx4]"];
    "block.b" [label="block.b\nlinear\n[Nx4]"];
    "block" [label="block\nshortcut\n[Nx4]"];
  }
  "output output" [label="output\n[Nx4]", shape=ellipse];
  "input input" -> "stem" [label="input -> input"];
  "stem" -> "body.right" [label="output -> input"];
  "stem" -> "body.left" [label="output -> input"];
  "body.left" -> "body.sum" [label="output -> lhs"];
  "body.right" -> "body.sum" [label="output -> rhs"];
  "body.sum" -> "block.a" [label="output -> input"];
  "block.a" -> "block.b" [label="output -> input"];
  "block.b" -> "block" [label="output -> output"];
  "body.sum" -> "block" [label="output -> output"];
  "block" -> "output output" [label="output -> output"];
}
)dot";
constexpr std::string_view product_drawing =
    R"dot(digraph net {
  node [shape=box];
  "input a" [label="a", shape=ellipse];
  "input b" [label="b", shape=ellipse];
  "product" [label="product\ndot"];
  "output output" [label="output", shape=ellipse];
  "input a" -> "product" [label="a -> lhs"];
  "input b" -> "product" [label="b -> rhs"];
  "product" -> "output output" [label="output -> output"];
}
)dot";
constexpr auto without_two = sequential(sublayer<"stem">(nn::linear{.in_features = 6, .out_features = 4}),
                                        sublayer<"body">(body), sublayer<"block">(shortcut{{4, 4}, {4, 4}}));

}  // namespace

BOOST_AUTO_TEST_SUITE(show_nets)

BOOST_AUTO_TEST_CASE(a_chain_of_layers) {
  BOOST_TEST((show<lenet, input<"N", 1, 28, 28>>()) == lenet_table);
  model<lenet, input<"N", 1, 28, 28>> net;
  BOOST_TEST(show(net) == lenet_table);
  // Flops are those of the plan, which fuses the bias, too.
  const auto plan = net.core().plan_for(view<const shape>(std::array{shape{3, 1, 28, 28}}.data(), 1));
  BOOST_TEST(holds(show(net, {{3, 1, 28, 28}}), "total                                    61706  2557110\n"));
  BOOST_TEST(holds(plan->explain(), "total: 2557110 flops"));
}

BOOST_AUTO_TEST_CASE(nested_topologies_layers_by_code_and_frozen_ones) {
  model<nested, input<"N", 6>, policies<sub<"stem">(trainable(false))>> net;
  BOOST_TEST(show(net, {{5, 6}}) == nested_table);
  BOOST_TEST((show<nested, input<"N", 6>, policies<sub<"stem">(trainable(false))>>({{5, 6}})) == nested_table);
}

BOOST_AUTO_TEST_CASE(shared_parameters_are_counted_once) {
  name_map tie;
  tie.add("block.b", "block.a");
  model<nested, input<"N", 6>> net({.tie = tie});
  std::int64_t all = 0;
  for (std::size_t i = 0; i < net.parameters().size(); ++i) all += net.parameters()[i].shape().size();
  BOOST_TEST(all == 84);
  BOOST_TEST(holds(show(net), "84 of 84 parameters are trained; flops for `input` [1x6]"));
}

BOOST_AUTO_TEST_CASE(turns_of_recurrent_layers_are_counted) {
  const auto one = show<steps, input<"T", "N", 3>>({{1, 2, 3}}), seven = show<steps, input<"T", "N", 3>>({{7, 2, 3}});
  auto total = [](const std::string& s) {
    auto line = s.substr(s.find("\ntotal"));
    line = line.substr(0, line.find('\n', 1));
    return std::stoll(line.substr(line.rfind(' ')));
  };
  BOOST_TEST(total(one) > 2 * 2 * (3 * 2 + 2 * 2));      // both products, then sums and tanh
  BOOST_TEST(total(seven) - 2 == 7 * (total(one) - 2));  // the two biases are added once for all iterations
}

BOOST_AUTO_TEST_CASE(a_layer_by_itself) {
  BOOST_TEST((show<lonely, input<"N", 3>>()) ==
             "sublayer  kind    output  parameters  flops\n"
             "(whole)   linear  [Nx2]            8     14\n"
             "total                              8     14\n"
             "8 of 8 parameters are trained; flops for `input` [1x3]\n");
  BOOST_TEST(holds(to_dot<lonely>(), "\"input input\" -> \"(linear)\" [label=\"input -> input\"];\n"));
}

BOOST_AUTO_TEST_CASE(a_net_that_ends_in_a_loss) {
  const auto table = show<judged, input<"N", 4>, input<"N", 4>>();
  BOOST_TEST(holds(table, "loss      nll_loss  []"));
  BOOST_TEST(holds(to_dot<judged>(), "\"input weights\" -> \"loss\" [label=\"weights -> weights\"];\n"));
  BOOST_TEST(holds(to_dot<judged>(), "\"loss\" -> \"output value\" [label=\"output -> value\"];\n"));
}

BOOST_AUTO_TEST_CASE(extents_that_one_does_not_fit) {
  const auto s = show<lenet_of_any_size, input<"N", 1, "H", "W">>();
  BOOST_TEST(holds(s, "conv      conv2d"));
  BOOST_TEST(holds(s, "?\ntotal"));
  auto refused = [](std::initializer_list<shape> at) {
    return error_of([&] { show<product, input<"N", "K">, input<"K", 2>>(at); });
  };
  BOOST_TEST(refused({{2, 3}}) == "shape_error: show: the net has 2 inputs; got 1 shape");
  BOOST_TEST(refused({{2, 3}, {3, 4}}) == "shape_error: show: input `b` is [Kx2]; got [3x4]");
  BOOST_TEST(refused({{2, 3}, {4, 2}}) ==
             "shape_error: show: dimension `K` has two extents; input `b` is [Kx2]; got [4x2]");
}

BOOST_AUTO_TEST_CASE(drawings) {
  BOOST_TEST((to_dot<without_two, input<"N", 6>>()) == nested_drawing);
  model<without_two, input<"N", 6>> net;
  BOOST_TEST(to_dot(net) == nested_drawing);
  BOOST_TEST(to_dot<product>() == product_drawing);
  BOOST_TEST(
      holds(to_dot<nested>(), "\"block\" -> \"two\" [label=\"output -> input\"]"));  // not expanded without inputs
  BOOST_TEST(holds((to_dot<nested, input<"N", 6>>()), "\"two.a\" -> \"output output\" [label=\"output -> output\"]"));
  BOOST_TEST(holds((to_dot<steps, input<"T", "N", 3>>()), "\"input input\" -> \"rnn\" [label=\"input -> "));
}

BOOST_AUTO_TEST_SUITE_END()
