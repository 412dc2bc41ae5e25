// Models: parameters, tags, sharing, default arguments, layer functions, updates, predictors.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using engine_test::says;

namespace {

using numbers = std::vector<float>;
using graph::parameter_tag;

struct fixture {
  graph::model m{"m"};
  graph::model::scope guard{m};
  value rows = m.input("rows", {dtype::float32, {"N", 6}}), images = m.input("images", {dtype::float32, {2, 4, 8, 8}});
  void run(graph::workspace& ws) {
    ws.feed("rows", matrix<float>(1, 6));
    ws.feed("images", tensor<float, extents<2, 4, 8, 8>>());
    ws.run_once(m.main());
  }
  // "name:shape" for each parameter.
  std::string listed() const {
    std::string all;
    for (const auto& p : m.parameters()) {
      message_text t;
      t << p.name << p.at.shape()
        << (p.tag == parameter_tag::weight ? "w "
            : p.tag == parameter_tag::bias ? "b "
                                           : "c ");
      all += t.string();
    }
    return all;
  }
};

std::string shape_of_(const value& v) {
  message_text t;
  t << v.shape();
  return t.string();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(parameters, fixture)

BOOST_AUTO_TEST_CASE(layers_name_and_fill_theirs) {
  graph::fc(graph::fc(rows, 3), 2, {.name = "out"});
  BOOST_TEST(listed() == "fc_w[3x6]w fc_b[3]b out_w[2x3]w out_b[2]b ");
  BOOST_TEST(m.parameters(parameter_tag::weight).size() == 2u);
  BOOST_TEST(m.parameters(std::nullopt, "out").size() == 2u);
  graph::workspace ws;
  ws.run_once(m.init());
  BOOST_TEST(ws.fetch_numbers<float>("fc_b") == (numbers{0, 0, 0}), boost::test_tools::per_element());
  for (float w : ws.fetch_numbers<float>("fc_w")) BOOST_TEST(std::fabs(w) <= std::sqrt(3.0 / 6));
}

BOOST_AUTO_TEST_CASE(asked_for_twice_it_is_the_same) {
  auto a = m.parameter("w", {2, 3}, op::xavier{}), b = m.parameter("w", {2, 3}, op::xavier{});
  BOOST_TEST(a.same(b));
  BOOST_TEST(says(message_of([&] { m.parameter("w", {3, 2}, op::xavier{}); }),
                  "parameter `w` is float32[2x3]; requested as float32[3x2]"));
  BOOST_CHECK_THROW(m.parameter("rows", {1}, op::xavier{}), state_error);
  graph::fc(rows, 3, {.name = "f"});
  graph::fc(rows, 3, {.name = "f"});
  BOOST_TEST(listed() == "w[2x3]w f_w[3x6]w f_b[3]b ");
  const auto message = message_of([&] { graph::fc(rows, 4, {.name = "f"}); });
  BOOST_TEST(says(message, "model_test.cpp:"));
  BOOST_TEST(says(message, "state `f_w` is float32[3x6]; requested as float32[4x6]"));
}

BOOST_AUTO_TEST_CASE(sharing) {
  {
    graph::name_scope a("a");
    graph::fc(rows, 3);
  }
  {
    graph::parameter_sharing same({{"b", "a"}});
    graph::name_scope b("b");
    graph::fc(rows, 3);
    {
      graph::name_scope root("", true);
      graph::parameter_sharing again({{"c", "b"}});  // names are resolved again: c is b is a
      graph::name_scope c("c");
      graph::fc(rows, 3, {.name = "fc"});
    }
  }
  BOOST_TEST(listed() == "a/fc_w[3x6]w a/fc_b[3]b ");
  graph::name_scope b("b");
  graph::fc(rows, 3);
  BOOST_TEST(listed() == "a/fc_w[3x6]w a/fc_b[3]b b/fc_w[3x6]w b/fc_b[3]b ");
}

// Names refer to scopes inside the current one, as in Caffe2.
BOOST_AUTO_TEST_CASE(sharing_within_a_scope) {
  const auto layer_in = [&](std::string_view scope) {
    graph::name_scope s(scope);
    graph::fc(rows, 3, {.name = "fc"});
  };
  graph::name_scope net("net");
  layer_in("a");
  const std::string both = "net/a/fc_w[3x6]w net/a/fc_b[3]b ";
  {
    graph::parameter_sharing same({{"b/", "a"}});
    layer_in("b");
    {
      graph::name_scope b("b");
      graph::parameter_sharing inside({{"shared", ""}});  // the current scope, `a`
      layer_in("shared");
      layer_in("other");
    }
    graph::name_scope root("", true);
    layer_in("b");  // another scope of that name
  }
  BOOST_TEST(listed() == both + "net/a/other/fc_w[3x6]w net/a/other/fc_b[3]b b/fc_w[3x6]w b/fc_b[3]b ");
}
BOOST_AUTO_TEST_CASE(sharing_with_the_scope_around) {
  {
    graph::parameter_sharing same({{"c", ""}});
    graph::name_scope c("c");
    graph::fc(rows, 3);
    m.parameter("w", {2}, op::constant{1});
  }
  BOOST_TEST(listed() == "fc_w[3x6]w fc_b[3]b w[2]w ");
}
// The longest matching name applies.
BOOST_AUTO_TEST_CASE(sharing_of_a_part) {
  {
    graph::parameter_sharing same({{"a", "x"}, {"a/c", "y"}});
    graph::name_scope a("a");
    graph::fc(rows, 3, {.name = "f"});
    graph::name_scope c("c");
    graph::fc(rows, 3, {.name = "f"});
  }
  BOOST_TEST(listed() == "x/f_w[3x6]w x/f_b[3]b y/f_w[3x6]w y/f_b[3]b ");
}
// The next use of the model warns, once, about a name that no layer used.
BOOST_AUTO_TEST_CASE(sharing_of_names_that_are_not_there) {
  {
    graph::parameter_sharing none({{"c", "a"}});  // no layer was created at all
  }
  BOOST_TEST(listed().empty());
  {
    graph::parameter_sharing same({{"decodr", "encoder"}});
    graph::name_scope b("decoder");
    graph::fc(rows, 3);
  }
  const auto message = message_of([&] { m.main(); });
  BOOST_TEST(says(message, "model_test.cpp:"));
  BOOST_TEST(says(message,
                  "parameter_sharing: no parameters were created in scope `decodr`, which was to share those "
                  "of `encoder`"));
  BOOST_TEST(says(message, "did you mean `decoder`?"));
  BOOST_TEST(listed() == "decoder/fc_w[3x6]w decoder/fc_b[3]b ");
  // If an exception ends the scope, only that error is reported.
  try {
    graph::parameter_sharing same({{"decodr", "encoder"}});
    graph::fc(rows, 3);
    graph::fc(rows, -1);
  } catch (const error&) {}
  BOOST_TEST(message_of([&] { m.main(); }).empty());
}
BOOST_AUTO_TEST_CASE(many_layers_without_names) {
  for (int i = 0; i < 40; ++i) graph::fc(rows, 3);
  BOOST_TEST(m.parameters(parameter_tag::weight).back().name == "fc_auto_38_w");
  m.parameter("fc_auto_39_w", {2}, op::constant{1});
  graph::fc(rows, 3);
  BOOST_TEST(m.parameters(parameter_tag::weight).back().name == "fc_auto_40_w");
}

// Layers without names are numbered within their scope, and shared one by one.
BOOST_AUTO_TEST_CASE(sharing_of_layers_without_names) {
  const auto two_layers = [&] { return graph::fc(graph::fc(rows, 8), 3); };
  value a, b;
  {
    graph::name_scope s("a");
    a = two_layers();
  }
  const auto before = listed();
  {
    graph::parameter_sharing same({{"b", "a"}, {"c", "a"}});
    {
      graph::name_scope s("b");
      b = two_layers();
    }
    graph::name_scope s("c");
    two_layers();
  }
  BOOST_TEST(listed() == before);
  m.main().output("ya", a);
  m.main().output("yb", b);
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("images", tensor<float, extents<2, 4, 8, 8>>());
  ws.feed("rows", evaluate(filled(0.5f, 2, 6)));
  ws.run_once(m.main());
  BOOST_TEST(ws.fetch_numbers<float>("ya")[0] != 0);
  BOOST_TEST(ws.fetch_numbers<float>("ya") == ws.fetch_numbers<float>("yb"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_model_is_needed) {
  std::thread([&] {
    BOOST_TEST(says(message_of([] { graph::model::current(); }), "a layer function needs a model"));
  }).join();
  graph::model other("other");
  {
    graph::model::scope inner(other);
    BOOST_TEST(&graph::model::current() == &other);
  }
  BOOST_TEST(&graph::model::current() == &m);
}

BOOST_AUTO_TEST_CASE(parameters_that_are_there_are_not_filled) {
  graph::model trained("trained", {.fill_parameters = false});
  graph::fc(trained.input("x", {dtype::float32, {1, 2}}), 1, {.name = "f", .model = &trained});
  BOOST_TEST(trained.init().external_outputs().empty());
  BOOST_TEST(trained.parameters().size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_FIXTURE_TEST_SUITE(arguments_of_layers, fixture)

// The kernel of the resulting convolution.
BOOST_AUTO_TEST_CASE(three_levels) {
  int count = 0;
  auto kernel = [&](const graph::arguments& a) {
    auto given = a;
    given.name = "k" + std::to_string(++count);
    graph::conv(images, 1, given);
    return m.parameters(parameter_tag::weight).back().at.shape().at(2);
  };
  BOOST_TEST(kernel({}) == 3);
  m.defaults("conv", {.kernel = 2});
  BOOST_TEST(kernel({}) == 2);
  {
    graph::arg_scope outer("conv", {.kernel = 5, .padding = 1});
    BOOST_TEST(kernel({}) == 5);
    {
      graph::arg_scope inner("conv", {.kernel = 4});
      BOOST_TEST(kernel({}) == 4);
      BOOST_TEST(kernel({.kernel = 1}) == 1);
      graph::arg_scope other("max_pool", {.kernel = 8});
      BOOST_TEST(kernel({}) == 4);
    }
    BOOST_TEST(kernel({}) == 5);
    try {
      graph::arg_scope thrown("conv", {.kernel = 6});
      throw 1;
    } catch (int) {}
    BOOST_TEST(kernel({}) == 5);
    std::int64_t elsewhere = 0;
    std::thread([&] {
      graph::model::scope here(m);
      elsewhere = kernel({});
    }).join();
    BOOST_TEST(elsewhere == 2);
  }
  BOOST_TEST(kernel({}) == 2);
}

BOOST_AUTO_TEST_CASE(unknown_functions_and_arguments) {
  BOOST_TEST(says(message_of([] { graph::arg_scope a("cnov", {}); }), "arg_scope: there is no layer function `cnov`"));
  BOOST_TEST(says(message_of([] { graph::arg_scope a("cnov", {}); }), "did you mean `conv`?"));
  const auto message = message_of([&] { graph::fc(rows, 3, {.kernel = 3}); });
  BOOST_TEST(says(message, "model_test.cpp:"));
  BOOST_TEST(says(message, "fc takes no `kernel`; there are `bias`, `weight_fill`, `bias_fill`, `activation`"));
  BOOST_CHECK_THROW(m.defaults("fc", {.probability = 0.5}), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_FIXTURE_TEST_SUITE(layer_functions, fixture)

BOOST_AUTO_TEST_CASE(shapes_and_parameters) {
  BOOST_TEST(shape_of_(graph::fc(rows, 3, {.name = "fc", .bias = false})) == "[Nx3]");
  BOOST_TEST(shape_of_(graph::conv(images, 5, {.name = "conv", .padding = 1})) == "[2x5x8x8]");
  BOOST_TEST(shape_of_(graph::group_conv(images, 6, {.name = "group", .groups = 2})) == "[2x6x6x6]");
  BOOST_TEST(shape_of_(graph::conv_transpose(images, 3, {.name = "up", .kernel = 2, .stride = 2})) == "[2x3x16x16]");
  BOOST_TEST(shape_of_(graph::max_pool(images)) == "[2x4x4x4]");
  BOOST_TEST(shape_of_(graph::average_pool(images, {.kernel = 4})) == "[2x4x2x2]");
  BOOST_TEST(shape_of_(graph::spatial_bn(images, {.name = "bn"})) == "[2x4x8x8]");
  BOOST_TEST(shape_of_(graph::layer_norm(rows, {.name = "ln"})) == "[Nx6]");
  BOOST_TEST(shape_of_(graph::instance_norm(images, {.name = "in"})) == "[2x4x8x8]");
  BOOST_TEST(shape_of_(graph::lrn(images)) == "[2x4x8x8]");
  BOOST_TEST(shape_of_(graph::dropout(rows)) == "[Nx6]");
  BOOST_TEST(shape_of_(graph::prelu(images, {.name = "pr"})) == "[2x4x8x8]");
  BOOST_TEST(shape_of_(graph::embedding(m.input("ids", {dtype::int64, {7}}), 10, 3, {.name = "table"})) == "[7x3]");
  const value text_ = m.input("text", {dtype::float32, {5, 2, 3}});
  for (const auto& v :
       {graph::rnn(text_, 4, {.name = "r"}), graph::gru(text_, 4, {.name = "g"}), graph::lstm(text_, 4, {.name = "l"})})
    BOOST_TEST(shape_of_(v) == "[5x2x4]");
  BOOST_TEST(shape_of_(graph::concat({images, images})) == "[2x8x8x8]");
  BOOST_TEST(shape_of_(graph::sum({rows, rows, rows})) == "[Nx6]");
  BOOST_TEST(shape_of_(graph::batch_mat_mul(images, images, false, true)) == "[2x4x8x8]");
  BOOST_TEST(listed() ==
             "fc_w[3x6]w conv_w[5x4x3x3]w conv_b[5]b group_w[6x2x3x3]w group_b[6]b up_w[4x3x2x2]w up_b[3]b bn_rm[4]c "
             "bn_riv[4]c bn_s[4]w bn_b[4]b "
             "ln_s[6]w ln_b[6]b in_s[4]w in_b[4]b pr_slope[4]w table_w[10x3]w "
             "r.weight_ih_l0[4x3]w r.bias_ih_l0[4]b r.bias_hh_l0[4]b r.weight_hh_l0[4x4]w g.weight_ih_l0[12x3]w "
             "g.bias_ih_l0[12]b g.weight_hh_l0[12x4]w "
             "g.bias_hh_l0[12]b l.weight_ih_l0[16x3]w l.bias_ih_l0[16]b l.bias_hh_l0[16]b l.weight_hh_l0[16x4]w ");
  graph::workspace ws;
  ws.run_once(m.init());
  for (const auto& p : m.parameters()) BOOST_TEST((ws.fetch(p.name).type() == p.at.type()), p.name);
  BOOST_TEST(ws.fetch_numbers<float>("bn_riv") == numbers(4, 1.f), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("pr_slope") == numbers(4, 0.25f), boost::test_tools::per_element());
}

// Layers without a function: x u^T v^T + b, a factor and a term for each feature, concatenated images.
BOOST_AUTO_TEST_CASE(layers_of_parameters_and_functions) {
  const value x = m.input("x", {dtype::float32, {1, 2}}), image = m.input("image", {dtype::float32, {1, 1, 1, 2}});
  const value low = graph::fc(x, 1, {.name = "u", .bias = false, .weight_fill = op::constant{2}});
  m.main().output("decomposed",
                  graph::fc(low, 2, {.name = "v", .weight_fill = op::constant{3}, .bias_fill = op::constant{0.5}}));
  const value w = m.parameter("w", {2}, op::constant{4}),
              b = m.parameter("b", {2}, op::constant{0.25}, parameter_tag::bias);
  m.main().output("elementwise", x * w + b);
  m.main().output("depth", graph::concat({image, image * 2}));
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", matrix<float>{{1, 10}});
  ws.feed("image", tensor<float, extents<1, 1, 1, 2>>{{{{1, 2}}}});
  run(ws);
  BOOST_TEST(ws.fetch_numbers<float>("decomposed") == (numbers{66.5f, 66.5f}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("elementwise") == (numbers{4.25f, 40.25f}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("depth") == (numbers{1, 2, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST((ws.fetch("depth").shape() == shape{1, 2, 1, 2}));
}

// `model::layer` takes any layer; its parameters are named like those of the layer functions.
BOOST_AUTO_TEST_CASE(any_layer_may_be_one) {
  const value sequence = m.input("sequence", {dtype::float32, {1, 1, 4}});
  m.main().output("y", m.layer("conv1d", {.name = "c", .weight_fill = op::constant{1}, .bias_fill = op::constant{0.5}},
                               nn::conv1d{.in_channels = 1, .out_channels = 1, .kernel_size = 3}, sequence));
  BOOST_TEST(listed() == "c_w[1x1x3]w c_b[1]b ");
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("sequence", tensor<float, extents<1, 1, 4>>{{{1, 2, 3, 4}}});
  run(ws);
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{6.5f, 9.5f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(accuracy_is_a_part_of_the_labels) {
  m.main().output("right",
                  graph::accuracy(m.input("scores", {dtype::float32, {4, 3}}), m.input("labels", {dtype::int64, {4}})));
  graph::workspace ws;
  ws.feed("scores", matrix<float>{{1, 0, 2}, {5, 4, 4}, {0, 1, 0}, {-3, -1, -2}});
  ws.feed("labels", vector<std::int64_t>{2, 0, 0, 1});
  run(ws);
  BOOST_TEST(ws.fetch_numbers<float>("right") == (numbers{0.75f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(mismatches_name_layer_and_place) {
  const auto message = message_of([&] { graph::conv(images, 5, {.name = "big", .kernel = 11}); });
  BOOST_TEST(says(message, "model_test.cpp:"));
  BOOST_TEST(says(message, "sublayer `big` (conv2d): conv2d: the kernel 11x11 is larger than the padded map"));
  BOOST_TEST(says(message_of([&] { graph::conv(rows, 5); }),
                  "conv: expected at least 4 axes and a known extent of axis 1, not [Nx6]"));
  BOOST_TEST(says(message_of([&] { graph::group_conv(images, 4); }), "group_conv: `groups` is required"));
}

BOOST_AUTO_TEST_CASE(lrn_by_hand) {
  graph::model one("one");
  auto x = one.input("x", {dtype::float32, {1, 3, 1, 1}});
  one.main().output("y", graph::lrn(x, {.model = &one, .size = 3, .alpha = 3, .beta = 0.5}));
  graph::workspace ws;
  ws.feed("x", tensor_of_rank<float, 4>({{{{1}}, {{2}}, {{3}}}}));
  ws.run_once(one.main());
  const double squares[] = {1 + 4, 1 + 4 + 9, 4 + 9};
  for (std::size_t i = 0; i < 3; ++i)
    BOOST_TEST(std::fabs(ws.fetch_numbers<float>("y")[i] - static_cast<double>(i + 1) / std::sqrt(1 + squares[i])) <
               1e-6);
}

BOOST_AUTO_TEST_CASE(statistics_are_kept_while_training) {
  graph::model t("t");
  auto x = t.input("x", {dtype::float32, {2, 1, 1, 2}});
  t.main().output("y", graph::spatial_bn(x, {.name = "bn", .model = &t, .momentum = 0.75}));
  graph::workspace ws;
  ws.run_once(t.init());
  ws.feed("x", tensor_of_rank<float, 4>({{{{1, 2}}}, {{{3, 6}}}}));
  ws.run_once(t.main());
  BOOST_TEST(std::fabs(ws.fetch_numbers<float>("bn_rm")[0] - 0.25 * 3) < 1e-6);
  BOOST_TEST(std::fabs(ws.fetch_numbers<float>("bn_riv")[0] - (0.75 + 0.25 * 14.0 / 3)) <
             1e-6);  // the unbiased variance
  graph::model s("s", {.training = false, .fill_parameters = false});
  auto served = s.input("x", {dtype::float32, {2, 1, 1, 2}});
  s.main().output("z", graph::spatial_bn(served, {.name = "bn", .model = &s, .epsilon = 0}));
  ws.run_once(s.main());
  BOOST_TEST(std::fabs(ws.fetch_numbers<float>("z")[3] - (6 - 0.75) / std::sqrt(0.75 + 3.5 / 3)) < 1e-5);
}

BOOST_AUTO_TEST_CASE(dropout_draws_anew_in_each_run) {
  auto x = m.input("x", {dtype::float32, {1000}});
  m.main().output("y", graph::dropout(x, {.probability = 0.25}));
  graph::workspace ws;
  ws.feed("rows", matrix<float>(1, 6));
  ws.feed("images", tensor_of_rank<float, 4>(2, 4, 8, 8));
  ws.feed("x", vector<float>(1000));
  auto ones = vector<float>(1000);
  for (int i = 0; i < 1000; ++i) ones.writable(i) = 1;
  ws.feed("x", ones);
  ws.create(m.main());
  ws.run("m");
  const auto first = ws.fetch_numbers<float>("y");
  ws.run("m");
  BOOST_TEST(first != ws.fetch_numbers<float>("y"));
  const auto zeros = std::count(first.begin(), first.end(), 0.f);
  BOOST_TEST(std::abs(static_cast<double>(zeros) - 250) < 5 * std::sqrt(1000 * 0.25 * 0.75));
  for (float v : first) BOOST_TEST((v == 0 || std::fabs(v - 4.0 / 3) < 1e-6));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(updates)

namespace {
struct trained {
  graph::model m{"m"};
  value x = m.input("x", {dtype::float32, {2, 2}});
  trained() {
    graph::model::scope guard(m);
    auto y = graph::fc(x, 1, {.name = "f", .weight_fill = op::constant{0.5}});
    m.main().output("loss", reduce_sum(square(y)));
    m.add_gradient_operators({m.main()["loss"]});
  }
  graph::workspace ws;
  void run(int times) {
    ws.run_once(m.init());
    ws.feed("x", matrix<float>{{1, 2}, {3, 4}});
    ws.create(m.main());
    ws.run("m", times);
  }
};
}  // namespace

// y = x w + b; loss = sum y^2; by hand in double.
BOOST_AUTO_TEST_CASE(by_tag) {
  trained t;
  t.m.add_updates(optim::adagrad{.lr = 0.1}, {.tag = parameter_tag::weight, .regularizer = {.l2 = 0.2}});
  t.m.add_updates(optim::sgd{.lr = 0.01, .momentum = 0.5});
  t.run(3);
  double w[2] = {0.5, 0.5}, h[2] = {0, 0}, b = 0, mb = 0;
  const double x[2][2] = {{1, 2}, {3, 4}};
  for (int step = 0; step < 3; ++step) {
    double g[2] = {0, 0}, gb = 0;
    for (auto& row : x) {
      const double y = row[0] * w[0] + row[1] * w[1] + b;
      for (int i = 0; i < 2; ++i) g[i] += 2 * y * row[i];
      gb += 2 * y;
    }
    for (int i = 0; i < 2; ++i) {
      g[i] += 0.2 * w[i];
      h[i] += g[i] * g[i];
      w[i] -= 0.1 * g[i] / (std::sqrt(h[i]) + 1e-4);
    }
    mb = 0.5 * mb + gb;
    b -= 0.01 * mb;
  }
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_w")[i] - w[i]) < 1e-5);
  BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_b")[0] - b) < 1e-5);
  BOOST_TEST(t.ws.has("f_w_sum"));
  BOOST_TEST(t.ws.has("f_b_momentum"));
}

// The rate of run n is base * 0.5^n, times a factor in the workspace, with momentum; expected values by hand in double.
BOOST_AUTO_TEST_CASE(rates_are_multiplied_by_what_is_injected) {
  trained t;
  const value falling =
      learning_rate(t.m.main().iterations(), {.base = 0.01, .policy = optim::exponential{.gamma = 0.5}});
  t.m.add_updates(optim::momentum_sgd{.momentum = 0.5},
                  {.tag = parameter_tag::weight, .rate = falling, .allow_lr_injection = true});
  t.m.add_updates(optim::sgd{.lr = 0.02}, {.allow_lr_injection = true});  // the same blob as above
  t.run(2);
  t.ws.feed("lr_injection", scalar<float>(0.25f));
  t.ws.run("m", 2);
  t.ws.feed("lr_injection", scalar<float>(0.f));
  t.ws.run("m", 1);
  double w[2] = {0.5, 0.5}, m[2] = {0, 0}, b = 0;
  const double x[2][2] = {{1, 2}, {3, 4}}, injected[] = {1, 1, 0.25, 0.25, 0};
  for (int step = 0; step < 5; ++step) {
    double g[2] = {0, 0}, gb = 0;
    for (auto& row : x) {
      const double y = row[0] * w[0] + row[1] * w[1] + b;
      for (int i = 0; i < 2; ++i) g[i] += 2 * y * row[i];
      gb += 2 * y;
    }
    for (int i = 0; i < 2; ++i) {
      m[i] = 0.5 * m[i] + 0.01 * std::pow(0.5, step + 1) * injected[step] * g[i];
      w[i] -= m[i];
    }
    b -= 0.02 * injected[step] * gb;
  }
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_w")[i] - w[i]) < 1e-5);
  BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_b")[0] - b) < 1e-5);
  BOOST_TEST(t.m.parameters(parameter_tag::computed).size() == 1u);
  BOOST_TEST(t.m.init().has("lr_injection"));
}

BOOST_AUTO_TEST_CASE(gradients_are_clipped_together) {
  trained t;
  t.m.add_updates(optim::sgd{.lr = 1}, {.max_gradient_norm = 0.25});
  t.run(1);
  // y = 1.5, 3.5: gradients 2 (1.5 + 3 * 3.5) = 24, 2 (3 + 14) = 34, 10
  const double norm = std::sqrt(24.0 * 24 + 34 * 34 + 100);
  BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_w")[0] - (0.5 - 0.25 * 24 / norm)) < 1e-6);
  BOOST_TEST(std::fabs(t.ws.fetch_numbers<float>("f_b")[0] + 0.25 * 10 / norm) < 1e-6);
}

// A table whose rows are looked up in two places, some twice; the loss is the sum of squares of the looked-up rows,
// times constants. The gradient by row, with duplicates summed, is computed here in double.
namespace {

struct row_updates {
  static constexpr int rows = 7, width = 3;
  std::vector<std::vector<std::int64_t>> first{{1, 5, 1}, {0, 5, 5}, {-1, 2, 1}, {1, 1, 1}},
      second{{5, 3}, {2, 2}, {6, 0}, {4, 4}};
  double scale[3] = {0.5, -1.25, 2};
  std::vector<std::vector<double>> table = std::vector<std::vector<double>>(rows, std::vector<double>(width));
  // Updates one element of a looked-up row; a and b are its slots, r is its row's slot.
  using step_type = std::function<void(double& w, double g, double& a, double& b, int t)>;
  row_updates() {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < width; ++c)
        table[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] = 0.25 * ((r * width + c) % 5) - 0.4 + 0.01 * r;
  }
  // Gradients of the looked-up rows in step t.
  std::map<std::int64_t, std::vector<double>> gradients(std::size_t t) const {
    std::map<std::int64_t, std::vector<double>> g;
    const auto add = [&](std::int64_t id, double factor) {
      const auto r = id < 0 ? id + rows : id;
      auto& of = g.try_emplace(r, std::vector<double>(width)).first->second;
      for (std::size_t c = 0; c < width; ++c) of[c] += 2 * factor * table[static_cast<std::size_t>(r)][c];
    };
    for (std::size_t i = 0; i < first[t].size(); ++i) add(first[t][i], scale[i]);
    for (auto id : second[t]) add(id, 3);
    return g;
  }
  template <class O>
  void follows(const O& o,
               const std::function<void(std::vector<double>& w, const std::vector<double>& g, std::vector<double>& a,
                                        std::vector<double>& b, int t)>& row_step,
               const optim::regularizer& regularizer = {}) {
    graph::model m("m", {.element = dtype::float64});
    graph::model::scope here(m);
    const value w = m.parameter("table", {rows, width}, op::constant{0});
    const value ids = m.input("ids", {dtype::int64, {3}}), more = m.input("more", {dtype::int64, {2}});
    matrix<double> factor{{scale[0]}, {scale[1]}, {scale[2]}};
    const value loss =
        reduce_sum(square(embedding(w, ids)) * m.main().constant(factor)) + reduce_sum(square(embedding(w, more))) * 3;
    m.add_gradient_operators({loss});
    m.add_updates(o, {.regularizer = regularizer, .by_rows = true});
    for (auto how : {graph::execution::simple, graph::execution::dag}) {
      row_updates now;
      std::vector<std::vector<double>> a(rows, std::vector<double>(width)), b = a;
      graph::workspace ws(std::make_shared<context>(how == graph::execution::dag ? 2 : 1, target_isa()));
      ws.run_once(m.init());
      matrix<double> start(rows, width);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < width; ++c)
          start.writable(r, c) = now.table[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
      ws.feed("table", start);
      ws.create(m.main(), {.execution = how});
      for (int t = 1; t <= 8; ++t) {
        const auto k = static_cast<std::size_t>(t - 1) % first.size();
        ws.feed("ids", vector<std::int64_t>{first[k][0], first[k][1], first[k][2]});
        ws.feed("more", vector<std::int64_t>{second[k][0], second[k][1]});
        ws.run("m");
        for (auto& [r, g] : now.gradients(k))
          row_step(now.table[static_cast<std::size_t>(r)], g, a[static_cast<std::size_t>(r)],
                   b[static_cast<std::size_t>(r)], t);
        const auto is = ws.fetch_numbers<double>("table");
        for (std::size_t i = 0; i < is.size(); ++i) {
          const double wanted = now.table[i / width][i % width];
          BOOST_REQUIRE_MESSAGE(
              std::abs(is[i] - wanted) <= 1e-12 * (1 + std::abs(wanted)),
              "step " << t << ", element " << i << ": " << is[i] << ", and the formula gives " << wanted);
        }
      }
      // The table is updated in place, by writing single rows.
      BOOST_TEST(says(ws.explain("m"), "put_rows"));
    }
  }
  // The same for elementwise optimizers.
  static auto each(const step_type& f) {
    return [f](std::vector<double>& w, const std::vector<double>& g, std::vector<double>& a, std::vector<double>& b,
               int t) {
      for (std::size_t c = 0; c < w.size(); ++c) f(w[c], g[c], a[c], b[c], t);
    };
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_by_sgd) {
  row_updates().follows(optim::sgd{.lr = 0.1},
                        row_updates::each([](double& w, double g, double&, double&, int) { w -= 0.1 * g; }));
  row_updates().follows(
      optim::sgd{.lr = 0.1, .momentum = 0.9},
      row_updates::each([](double& w, double g, double& m, double&, int) { m = 0.9 * m + g, w -= 0.1 * m; }));
}
BOOST_AUTO_TEST_CASE(rows_by_adagrad) {
  row_updates().follows(optim::adagrad{.lr = 0.2, .decay = 0.9},
                        row_updates::each([](double& w, double g, double& h, double&, int) {
                          h = 0.9 * h + g * g, w -= 0.2 * g / (std::sqrt(h) + 1e-4);
                        }));
}
BOOST_AUTO_TEST_CASE(rows_by_adagrad_with_one_number_a_row) {
  row_updates().follows(optim::adagrad{.lr = 0.2, .row_wise = true}, [](auto& w, const auto& g, auto& h, auto&, int) {
    double squares = 0;
    for (double x : g) squares += x * x;
    h[0] += squares / static_cast<double>(g.size());
    for (std::size_t c = 0; c < w.size(); ++c) w[c] -= 0.2 * g[c] / (std::sqrt(h[0]) + 1e-4);
  });
}
BOOST_AUTO_TEST_CASE(rows_by_ftrl) {
  row_updates().follows(optim::ftrl{.lr = 0.1, .beta = 0.5, .l1 = 0.02, .l2 = 0.1},
                        row_updates::each([](double& w, double g, double& n, double& z, int) {
                          const double next = n + g * g;
                          z += g - (std::sqrt(next) - std::sqrt(n)) / 0.1 * w;
                          n = next;
                          w = std::abs(z) <= 0.02 ? 0
                                                  : ((z > 0 ? 0.02 : -0.02) - z) / ((0.5 + std::sqrt(n)) / 0.1 + 0.1);
                        }));
}
BOOST_AUTO_TEST_CASE(rows_by_adam) {
  row_updates().follows(optim::adam{.lr = 0.05},
                        row_updates::each([](double& w, double g, double& m, double& v, int t) {
                          m = 0.9 * m + 0.1 * g, v = 0.999 * v + 0.001 * g * g;
                          w -= 0.05 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
                        }));
}
BOOST_AUTO_TEST_CASE(rows_by_other_optimizers) {
  row_updates().follows(optim::lion{.lr = 0.05}, row_updates::each([](double& w, double g, double& m, double&, int) {
                          const double c = 0.9 * m + 0.1 * g;
                          w -= 0.05 * (c > 0 ? 1 : c < 0 ? -1 : 0);
                          m = 0.99 * m + 0.01 * g;
                        }));
  row_updates().follows(optim::adamax{.lr = 0.05},
                        row_updates::each([](double& w, double g, double& m, double& u, int t) {
                          m = 0.9 * m + 0.1 * g, u = std::max(0.999 * u, std::abs(g) + 1e-8);
                          w -= 0.05 / (1 - std::pow(0.9, t)) * m / u;
                        }));
  row_updates().follows(optim::adadelta{}, row_updates::each([](double& w, double g, double& v, double& u, int) {
                          v = 0.9 * v + 0.1 * g * g;
                          const double d = std::sqrt(u + 1e-6) / std::sqrt(v + 1e-6) * g;
                          u = 0.9 * u + 0.1 * d * d;
                          w -= d;
                        }));
  // a row starts with the rate, whenever it is first looked up
  row_updates().follows(optim::rprop{.lr = 0.02},
                        row_updates::each([](double& w, double g, double& before, double& size, int) {
                          const double agree = g * before;
                          size = (size > 0 ? size : 0.02) * (agree > 0 ? 1.2 : agree < 0 ? 0.5 : 1);
                          before = agree < 0 ? 0 : g;
                          w -= size * (before > 0 ? 1 : before < 0 ? -1 : 0);
                        }));
  row_updates().follows(optim::groups{optim::maximize{optim::sgd{.lr = 0.1}}, {{"t*e", {.rate_scale = 0.5}}}},
                        row_updates::each([](double& w, double g, double&, double&, int) { w += 0.05 * g; }));
}
BOOST_AUTO_TEST_CASE(rows_of_constant_norm) {
  const auto step = [](double lower) {
    return
        [lower](std::vector<double>& w, const std::vector<double>& g, std::vector<double>&, std::vector<double>&, int) {
          double length = 0;
          for (std::size_t c = 0; c < w.size(); ++c) w[c] -= 0.1 * (g[c] + 0.02 * w[c]), length += w[c] * w[c];
          length = std::sqrt(length);
          for (double& x : w) x *= 0.75 / std::max(length, lower);
        };
  };
  row_updates().follows(optim::sgd{.lr = 0.1}, step(0), {.l2 = 0.02, .constant_norm = 0.75});
  row_updates().follows(optim::sgd{.lr = 0.1}, step(0.75), {.l2 = 0.02, .max_norm = 0.75});
}
BOOST_AUTO_TEST_CASE(updates_by_rows_are_refused_where_they_would_be_wrong) {
  graph::model m("m");
  graph::model::scope here(m);
  const value e = graph::embedding(m.input("ids", {dtype::int64, {3}}), 5, 2, {.name = "t"});
  m.add_gradient_operators({reduce_sum(e)});
  BOOST_TEST(says(message_of([&] { m.add_updates(optim::lars{}, {.by_rows = true}); }),
                  "add_updates: `by_rows` takes an optimizer whose rows do not depend on each other"));
  BOOST_TEST(says(message_of([&] { m.add_updates(optim::sgd{}, {.max_gradient_norm = 1, .by_rows = true}); }),
                  "do not go together"));
  BOOST_TEST(says(message_of([&] {
                    m.add_updates(optim::sgd{}, {.regularizer = {.max_norm = 1, .constant_norm = 1}, .by_rows = true});
                  }),
                  "are both given"));
}

BOOST_AUTO_TEST_CASE(order_and_twice) {
  trained t;
  BOOST_TEST(says(message_of([&] { t.m.add_gradient_operators({t.m.main()["loss"]}); }),
                  "the model has its gradients already"));
  for (const auto& p : t.m.parameters()) {
    BOOST_TEST(p.gradient.same(t.m.main()[p.name + "_grad"]));
    BOOST_TEST(!p.updated);
  }
  t.m.add_updates(optim::sgd{});
  for (const auto& p : t.m.parameters()) BOOST_TEST(p.updated);
  BOOST_TEST(
      says(message_of([&] { t.m.add_updates(optim::sgd{}); }), "no parameter with a gradient is left to update"));
  graph::model m("n");
  BOOST_TEST(says(message_of([&] { m.add_updates(optim::sgd{}); }),
                  "there are no gradients; call add_gradient_operators first"));
}

BOOST_AUTO_TEST_CASE(frozen_parameters_get_no_update) {
  trained t;
  BOOST_TEST(
      says(message_of([&] { freeze(t.m, "f_b", "g_w"); }), "freeze: pattern `g_w` matches no parameter; there are"));
  BOOST_TEST(!t.m.parameters()[1].frozen);
  BOOST_TEST(freeze(t.m, "*_w") == std::vector<std::string>{"f_w"}, boost::test_tools::per_element());
  freeze(t.m, "*");
  BOOST_TEST(
      says(message_of([&] { t.m.add_updates(optim::sgd{}); }), "no parameter with a gradient is left to update"));
  unfreeze(t.m, "f_b");
  t.m.add_updates(optim::sgd{.lr = 0.5});
  BOOST_TEST(says(message_of([&] { freeze(t.m, "f_*"); }), "parameter `f_b` has its update already"));
  t.run(0);
  const auto w = t.ws.fetch_numbers<float>("f_w"), b = t.ws.fetch_numbers<float>("f_b");
  t.ws.run("m", 3);
  BOOST_TEST(t.ws.fetch_numbers<float>("f_w") == w, boost::test_tools::per_element());
  BOOST_TEST(t.ws.fetch_numbers<float>("f_b") != b);
}

BOOST_AUTO_TEST_CASE(the_predictor_is_what_scores_need) {
  trained t;
  t.m.main().output("score", t.m.main()["loss"] * 2);
  t.m.add_updates(optim::adam{});
  const auto p = t.m.predictor("p", {"x"}, {"score"});
  BOOST_TEST(p.external_inputs() == (std::vector<std::string>{"x", "f_w", "f_b"}), boost::test_tools::per_element());
  BOOST_TEST(p.external_outputs() == std::vector<std::string>{"score"}, boost::test_tools::per_element());
  t.run(1);
  const auto trained_once = t.ws.fetch_numbers<float>("f_w");
  t.ws.run_once(p);
  BOOST_TEST(t.ws.fetch_numbers<float>("f_w") == trained_once, boost::test_tools::per_element());
  BOOST_TEST(t.ws.has("score"));
}

BOOST_AUTO_TEST_SUITE_END()
