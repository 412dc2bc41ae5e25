// Parameters of layers: initial values, sharing, saving, gradients by name, statistics; complete training steps.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

constexpr nn::linear fc_rule{3, 2};
using fc_inputs = inputs<port<"input", matrix<double>>>;
using trained = policies<feedback(true), element<double>>;
using fc_layer = train_layer<constant_layer<fc_rule>, fc_inputs, trained>;

constexpr auto weight_layer =
    topology(sublayer<"param">(nn::param_source{.shape = {3, 2}}), sublayer<"dot">(nn::dot{}),
             connect<"param.output", "dot.rhs">, connect<"input", "dot.lhs">, connect<"dot.output", "output">);
constexpr auto deep = sequential(sublayer<"first">(nn::single_layer_perceptron{3, 4}),
                                 sublayer<"second">(nn::single_layer_perceptron{4, 2}));
using acting = policies<feedback(true), element<double>, activation(nn::tanh{})>;

template <class X> std::vector<double> numbers(const X& x) {
  auto t = evaluate(x);
  return {t.data().begin(), t.data().end()};
}
std::vector<double> numbers(const parameter& p) {
  auto e = p.value().elements<double>();
  return {e.begin(), e.end()};
}
void close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-9) {
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(std::abs(a[i] - b[i]) < tolerance);
}
using strings = std::vector<std::string>;
const matrix<double> x{{1, 2, 3}, {4, -5, 6}}, g{{1, -1}, {0.5, 2}};

}  // namespace

BOOST_AUTO_TEST_SUITE(weights)

BOOST_AUTO_TEST_CASE(a_layer_has_no_values_before_init) {
  fc_layer layer("fc");
  BOOST_TEST(message_of([&] { layer.forward(dict("input"_key = x)); }) ==
             "layer `fc`: parameter `weight` has no value yet; call `init` or `load_weights` first");
  BOOST_CHECK_THROW(layer.parameter("weight"), state_error);
  init(layer, initializers(7));
  BOOST_TEST(layer.parameter("weight").name() == "fc.weight");
  BOOST_TEST(message_of([&] { layer.parameter("bia"); }) ==
             "layer `fc`: no parameter `bia`; there are `weight`, `bias`");
}

BOOST_AUTO_TEST_CASE(first_values_come_from_buffer_then_data_then_policy_then_layer) {
  load_buffer buffer;
  buffer.set("a.weight", any_tensor(matrix<double>{{1, 2, 3}, {4, 5, 6}}));
  initializers how(3);
  how.set("a.bias", any_tensor(vector<double>{8, 9})).fill("b.weight", initializer::constant(0.5));
  fc_layer a("a");
  train_layer<constant_layer<fc_rule>, fc_inputs, policies<element<double>, initialize<>(initializer::constant(-1))>> b(
      "b");
  a.init(how, &buffer);
  b.init(how, &buffer);
  close(numbers(a.parameter("weight")), {1, 2, 3, 4, 5, 6});
  close(numbers(a.parameter("bias")), {8, 9});
  close(numbers(b.parameter("weight")), std::vector<double>(6, 0.5));
  close(numbers(b.parameter("bias")), {-1, -1});
  BOOST_TEST(buffer.size() == 4u);
  load_buffer wrong;
  wrong.set("c.weight", any_tensor(matrix<double>(2, 2)));
  fc_layer c("c");
  BOOST_TEST(message_of([&] { c.init(initializers(), &wrong); }) ==
             "parameter `c.weight` is float64[2x3] and the load buffer has float64[2x2]");
  BOOST_CHECK_THROW(c.parameter("weight"), state_error);
  BOOST_TEST(message_of([&] { wrong.set("c.weight", any_tensor(matrix<double>(1, 1))); }) ==
             "load buffer: parameter `c.weight` already exists");
  BOOST_TEST(message_of([&] { how.fill("a.bias", initializer::constant(1)); }) ==
             "initializers: parameter `a.bias` is given twice");
}

BOOST_AUTO_TEST_CASE(gradients_are_collected_by_name_and_summed_over_passes) {
  fc_layer layer("fc");
  init(layer);
  auto out = layer.forward(dict("input"_key = x));
  layer.forward(dict("input"_key = x));
  layer.backward(dict("output"_key = g));
  auto grad = layer.backward(dict("output"_key = g));
  gradient_collector collector;
  BOOST_TEST(message_of([&] { (void)collector.gradient<matrix<double>>("fc.weight"); }) ==
             "gradient collector: nothing was collected; run a backward pass and collect first");
  collect_gradients(layer, collector);
  BOOST_TEST(collector.names() == (strings{"fc.weight", "fc.bias"}), boost::test_tools::per_element());
  // g^T x, twice
  close(numbers(collector.gradient<matrix<double>>("fc.weight")), {6, -1, 12, 14, -24, 18});
  close(numbers(collector.gradient<vector<double>>("fc.bias")), {3, 2});
  close(numbers(grad["input"_key]),
        numbers(matmul(g, layer.parameter("weight").value().as<double, extents<dyn, dyn>>())));
  BOOST_TEST(message_of([&] { (void)collector.gradient<matrix<double>>("w"); }) ==
             "gradient collector: no gradient of `w`; available: `fc.weight`, `fc.bias`");
  BOOST_CHECK_THROW((void)collector.gradient<vector<double>>("fc.weight"), shape_error);
  BOOST_CHECK_THROW((void)collector.gradient<matrix<float>>("fc.weight"), type_error);
  gradient_collector later;
  collect_gradients(layer, later);
  BOOST_TEST(later.empty());  // collected only once
  collector.clear();
  BOOST_TEST(collector.empty());
  BOOST_CHECK_THROW(collector.each([](parameter&, const any_tensor&) {}), state_error);
}

BOOST_AUTO_TEST_CASE(gradients_of_a_topology_equal_finite_differences) {
  train_layer<constant_layer<deep>, fc_inputs, acting> layer("deep");
  init(layer, initializers(5));
  auto loss = [&] {
    auto y = numbers(layer.forward(dict("input"_key = x))["output"_key]);
    layer.backward(dict("output"_key = no_gradient));
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * g.data()[i];
    return sum;
  };
  layer.forward(dict("input"_key = x));
  layer.backward(dict("output"_key = g));
  gradient_collector collector;
  layer.collect_gradients(collector);
  BOOST_TEST(
      collector.names() == (strings{"deep.first.weight", "deep.first.bias", "deep.second.weight", "deep.second.bias"}),
      boost::test_tools::per_element());
  collector.each([&](parameter& p, const any_tensor& analytic) {
    auto* w = reinterpret_cast<double*>(p.mutable_data());
    for (std::size_t i = 0; i < analytic.elements<double>().size(); ++i) {
      const double keep = w[i], step = 1e-5;
      w[i] = keep + step;
      const double up = loss();
      w[i] = keep - step;
      const double down = loss();
      w[i] = keep;
      BOOST_TEST(std::abs(analytic.elements<double>()[i] - (up - down) / (2 * step)) < 1e-8);
    }
  });
  layer.assert_neutral();
}

BOOST_AUTO_TEST_CASE(frozen_sublayers_have_no_gradients) {
  train_layer<constant_layer<deep>, fc_inputs,
              policies<element<double>, activation(nn::tanh{}), sub<"first">(trainable(false))>>
      layer("deep");
  init(layer);
  layer.forward(dict("input"_key = x));
  layer.backward(dict("output"_key = g));
  gradient_collector collector;
  layer.collect_gradients(collector);
  BOOST_TEST(collector.names() == (strings{"deep.second.weight", "deep.second.bias"}),
             boost::test_tools::per_element());
  // No gradient for the first layer is built: only one transposed product, for the second weight.
  program p;
  lowering l(p);
  p.output("g", lower(collector.gradient<matrix<double>>("deep.second.weight"), l));
  BOOST_TEST(std::count_if(p.nodes().begin(), p.nodes().end(), [](const node& n) {
               return n.kind == node_kind::operation && n.op->name == "matmul";
             }) <= 3);  // at most two forward, one backward
}

BOOST_AUTO_TEST_CASE(two_layers_share_a_parameter_by_a_map_of_names) {
  load_buffer buffer;
  initializers how(2);
  how.tie("decoder", "encoder");
  fc_layer encoder("encoder"), decoder("decoder"), other("decoder2");
  init(encoder, how, &buffer);
  init(decoder, how, &buffer);
  init(other, how, &buffer);
  BOOST_TEST(&encoder.parameter("weight") == &decoder.parameter("weight"));
  BOOST_TEST(&encoder.parameter("weight") != &other.parameter("weight"));  // `decoder` matches up to a dot
  BOOST_TEST(buffer.size() == 4u);
  encoder.forward(dict("input"_key = x));
  decoder.forward(dict("input"_key = x * 10.0));
  encoder.backward(dict("output"_key = g));
  decoder.backward(dict("output"_key = g));
  gradient_collector collector;
  collect_gradients(encoder, collector);
  collect_gradients(decoder, collector);
  BOOST_TEST(collector.size() == 2u);
  close(numbers(collector.gradient<matrix<double>>("encoder.weight")), {33, -5.5, 66, 77, -132, 99});
  // A training step with the collector changes both.
  collector.each([](parameter& p, const any_tensor& gradient) {
    if (p.shape().rank == 2)
      p.assign(any_tensor(
          evaluate(p.value().as<double, extents<dyn, dyn>>() - gradient.as<double, extents<dyn, dyn>>() * 0.1)));
  });
  close(numbers(encoder.parameter("weight")), numbers(decoder.parameter("weight")));
}

BOOST_AUTO_TEST_CASE(two_sublayers_share_a_parameter_too) {
  static constexpr auto twice = sequential(sublayer<"a">(nn::weight{3, 3}), sublayer<"b">(nn::weight{3, 3}));
  train_layer<constant_layer<twice>, fc_inputs, policies<element<double>>> layer("net");
  init(layer, initializers(4).tie("net.b", "net.a"));
  BOOST_TEST(&layer.parameter("a.weight") == &layer.parameter("b.weight"));
  auto w = layer.parameter("a.weight").value().as<double, extents<dyn, dyn>>();
  matrix<double> up{{1, -1, 2}, {0.5, 2, 1}};
  layer.forward(dict("input"_key = x));
  layer.backward(dict("output"_key = up));
  gradient_collector collector;
  layer.collect_gradients(collector);
  BOOST_TEST(collector.names() == strings{"net.a.weight"}, boost::test_tools::per_element());
  // d/dW of x W W: x^T (g W^T) + (x W)^T g
  auto xt = transpose(x), wt = transpose(w);
  close(numbers(collector.gradient<matrix<double>>("net.a.weight")),
        numbers(matmul(xt, matmul(up, wt)) + matmul(transpose(matmul(x, w)), up)));
}

BOOST_AUTO_TEST_CASE(a_failed_init_changes_nothing) {
  fc_layer layer("fc");
  load_buffer buffer;
  buffer.set("fc.bias", any_tensor(vector<double>(3)));
  BOOST_CHECK_THROW(init(layer, initializers(1), &buffer), shape_error);
  BOOST_TEST(buffer.size() == 1u);
  BOOST_CHECK_THROW(layer.parameter("weight"), state_error);
}

BOOST_AUTO_TEST_CASE(maps_of_names_know_boundaries) {
  name_map m;
  m.add("a", "x").add("a.b", "y").add("c/", "z/");
  BOOST_TEST(m("a") == "x");
  BOOST_TEST(m("a.c") == "x.c");
  BOOST_TEST(m("a/c") == "x/c");
  BOOST_TEST(m("a.b.w") == "y.w");
  BOOST_TEST(m("a.bc") == "x.bc");
  BOOST_TEST(m("ab") == "ab");
  BOOST_TEST(m("c/w") == "z/w");
  BOOST_TEST(message_of([&] { m.add("a", "q"); }) == "name map: `a` is already mapped to `x`");
  BOOST_CHECK_THROW(m.add("", "q"), value_error);
}

BOOST_AUTO_TEST_CASE(a_model_ties_parameters_too) {
  static constexpr auto net = sequential(sublayer<"a">(nn::linear{3, 3}), nn::tanh{}, sublayer<"b">(nn::linear{3, 3}));
  name_map tie;
  tie.add("b", "a");
  model<net, input<"N", 3>, policies<element<double>>> m({.seed = 1, .tie = tie});
  BOOST_TEST(m.parameters().size() == 2u);
  auto w = m.parameters()[0].value().as<double, extents<dyn, dyn>>();
  auto b = m.parameters()[1].value().as<double, extents<dyn>>();
  auto once = evaluate(tanh(matmul<false, true>(x, w) + b));
  auto wanted = evaluate(matmul<false, true>(once, w) + b);
  close(numbers(m(x)), numbers(wanted), 1e-12);
}

BOOST_AUTO_TEST_CASE(what_is_said_of_no_parameter_is_an_error) {
  fc_layer layer("fc");
  load_buffer buffer;
  initializers how(1);
  how.fill("fc.wieght", initializer::constant(1)).fill("other.weight", initializer::constant(1));
  BOOST_TEST(message_of([&] { init(layer, how, &buffer); }) ==
             "initializers: layer `fc` has no parameter `fc.wieght`; there are `fc.weight`, `fc.bias`; did you mean "
             "`fc.weight`?");
  BOOST_TEST(buffer.size() == 0u);
  BOOST_CHECK_THROW(layer.parameter("weight"), state_error);
  BOOST_TEST(message_of([&] { init(layer, initializers(1).set("fc.x", any_tensor(vector<double>(2)))); }) ==
             "initializers: layer `fc` has no parameter `fc.x`; there are `fc.weight`, `fc.bias`");
  BOOST_TEST(message_of([&] { init(layer, initializers(1).tie("fc.bais", "fc.bias")); }) ==
             "name map: `fc.bais` is not a prefix of any parameter name; there are `fc.weight`, `fc.bias`; did you "
             "mean `fc.bias`?");
  // A tied parameter is reported under the shared name.
  initializers tied(1);
  tied.tie("fc", "shared").fill("fc.bias", initializer::constant(1));
  BOOST_TEST(message_of([&] { init(layer, tied); }) ==
             "initializers: layer `fc` has no parameter `fc.bias`; there are `shared.weight`, `shared.bias`");
  init(layer, initializers(1)
                  .fill("fc.bias", initializer::constant(1))
                  .fill("fc2.bias", initializer::constant(1))
                  .tie("gc", "fc"));
  close(numbers(layer.parameter("bias")), {1, 1});
}

BOOST_AUTO_TEST_CASE(a_model_ties_no_names_that_are_not_there) {
  static constexpr auto net = sequential(sublayer<"first">(nn::linear{3, 3}), sublayer<"second">(nn::linear{3, 3}));
  name_map tie;
  tie.add("secnd", "first");
  using tied = model<net, input<"N", 3>, policies<element<double>>>;
  BOOST_TEST(message_of([&] { tied m({.seed = 1, .tie = tie}); }) ==
             "name map: `secnd` is not a prefix of any parameter name; there are `first.weight`, `first.bias`, "
             "`second.weight`, `second.bias`");
}

BOOST_AUTO_TEST_CASE(saved_weights_load_equal) {
  train_layer<constant_layer<deep>, fc_inputs, acting> layer("deep"), again("deep");
  init(layer, initializers(5));
  load_buffer saved;
  save_weights(layer, saved);
  BOOST_TEST(saved.size() == 4u);
  const test_files::folder dir;
  saved.write(dir / "weights.safetensors");
  load_weights(again, load_buffer::read(dir / "weights.safetensors"));
  for (const char* name : {"first.weight", "first.bias", "second.weight", "second.bias"})
    close(numbers(layer.parameter(name)), numbers(again.parameter(name)), 1e-300);
  close(numbers(layer.forward(dict("input"_key = x))["output"_key]),
        numbers(again.forward(dict("input"_key = x))["output"_key]), 1e-300);
  infer_layer<constant_layer<deep>, policies<element<double>, activation(nn::tanh{})>> served("deep");
  load_weights(served, saved);
  close(numbers(layer.forward(dict("input"_key = x))["output"_key]),
        numbers(served.forward(dict("input"_key = x))["output"_key]), 1e-300);
  load_buffer half;
  half.set("deep.first.weight", any_tensor(matrix<double>(3, 4)));
  const auto before = numbers(again.parameter("first.weight"));
  BOOST_TEST(message_of([&] { again.load_weights(half); }) ==
             "layer `deep`: parameter `deep.first.bias` is not among the weights to load");
  close(numbers(again.parameter("first.weight")), before, 1e-300);  // all or nothing
  // Later changes of the layer do not affect the saved weights.
  layer.parameter("first.bias").assign(any_tensor(vector<double>{1, 1, 1, 1}));
  close(numbers(*saved.find("deep.first.bias")), {0, 0, 0, 0});
}

BOOST_AUTO_TEST_CASE(constants_are_never_initialized_saved_or_trained) {
  static constexpr auto shift =
      topology(sublayer<"by">(nn::constant{{2}, 3}), sublayer<"sum">(nn::add{}), connect<"input", "sum.lhs">,
               connect<"by.output", "sum.rhs">, connect<"sum.output", "output">);
  train_layer<constant_layer<shift>, fc_inputs, trained> layer("shift");
  static_assert(!layer.is_update && !layer.has_states);
  load_buffer saved;
  init(layer);
  save_weights(layer, saved);
  BOOST_TEST(saved.size() == 0u);
  auto out = layer.forward(dict("input"_key = g));
  auto grad = layer.backward(dict("output"_key = g));
  close(numbers(out["output"_key]), {4, 2, 3.5, 5});
  close(numbers(grad["input"_key]), {1, -1, 0.5, 2});
}

BOOST_AUTO_TEST_CASE(recurrent_layers_follow_the_protocol_and_their_policies) {
  static constexpr nn::recurrent<nn::gru_step> walk{.step = {2, 3}};
  using walk_inputs =
      inputs<port<"input", tensor<double, extents<dyn, dyn, 2>>>, port<"previous_output", matrix<double>>>;
  using message = policies<element<double>, feedback(true), sequence<"input", 1>>;
  train_layer<constant_layer<walk>, walk_inputs, message> layer("gru");
  train_layer<constant_layer<walk>, walk_inputs, message::change<bptt(false)>> apart("gru");
  infer_layer<constant_layer<walk>, message> served("gru");
  static_assert(served.has_states);
  load_buffer saved;
  init(layer, initializers(8));
  save_weights(layer, saved);
  BOOST_TEST(saved.size() == 6u);
  load_weights(apart, saved);
  load_weights(served, saved);
  tensor<double, extents<dyn, dyn, 2>> in(2, 4, 2);  // [N, T, features], walked along axis 1
  auto to = in.writable();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::sin(static_cast<double>(i * i));
  matrix<double> first(2, 3);
  auto given = dict("input"_key = in, "previous_output"_key = first);
  auto y = layer.forward(given)["output"_key];
  BOOST_TEST((y.shape() == shape{4, 2, 3}));
  close(numbers(y), numbers(served.forward(given)["output"_key]));
  close(numbers(y), numbers(apart.forward(given)["output"_key]));
  auto up = filled(1.0, 4, 2, 3);
  auto through = layer.backward(dict("output"_key = up)), cut = apart.backward(dict("output"_key = up));
  gradient_collector full, part;
  collect_gradients(layer, full);
  collect_gradients(apart, part);
  auto analytic = numbers(full.gradient<matrix<double>>("gru.U"));
  BOOST_TEST((analytic != numbers(part.gradient<matrix<double>>("gru.U"))));
  auto* w = reinterpret_cast<double*>(layer.parameter("U").mutable_data());
  auto total = [&] {
    auto v = numbers(layer.forward(given)["output"_key]);
    layer.backward(dict("output"_key = no_gradient));
    double sum = 0;
    for (double e : v) sum += e;
    return sum;
  };
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    const double keep = w[i], step = 1e-5;
    w[i] = keep + step;
    const double high = total();
    w[i] = keep - step;
    const double low = total();
    w[i] = keep;
    BOOST_TEST(std::abs(analytic[i] - (high - low) / (2 * step)) < 1e-8);
  }
  // Without backpropagation through time, the initial state affects only the first iteration.
  BOOST_TEST((numbers(through["previous_output"_key]) != numbers(cut["previous_output"_key])));
  tensor<double, extents<dyn, dyn, dyn>> first_turn(4, 2, 3);
  auto ones = first_turn.writable();
  for (std::size_t i = 0; i < ones.size(); ++i) ones[i] = i < 6 ? 1 : 0;
  layer.forward(given);
  close(numbers(cut["previous_output"_key]),
        numbers(layer.backward(dict("output"_key = first_turn))["previous_output"_key]));
}

// The number of parameters of a layer under given policies.
template <const auto& L, class Inputs, class Policies> std::size_t parameters_of() {
  train_layer<constant_layer<L>, Inputs, Policies> layer("one");
  init(layer, initializers(1));
  load_buffer saved;
  save_weights(layer, saved);
  return saved.size();
}

BOOST_AUTO_TEST_CASE(a_policy_says_how_many_axes_a_dot_layer_contracts) {
  static constexpr nn::dot product{};
  tensor<double, extents<2, 3, 4>> a;
  tensor<double, extents<3, 4, 5>> b;
  for (std::size_t k = 0; k < 24; ++k) a.writable()[k] = static_cast<double>(k);
  for (auto& v : b.writable()) v = 0.5;
  infer_layer<constant_layer<product>, policies<element<double>, axis_count(2)>> both;
  auto y = both.forward(dict("lhs"_key = a, "rhs"_key = b))["output"_key];
  BOOST_TEST((y.shape() == shape{2, 5}));
  close(numbers(y), {33, 33, 33, 33, 33, 105, 105, 105, 105, 105});
  infer_layer<constant_layer<product>, policies<element<double>>> one;
  tensor<double, extents<2, 4, 5>> c;
  for (auto& v : c.writable()) v = 0.5;
  BOOST_TEST((one.forward(dict("lhs"_key = a, "rhs"_key = c))["output"_key].shape() == shape{2, 3, 5}));
}

BOOST_AUTO_TEST_CASE(bias_and_bptt_steer_every_layer_that_has_them) {
  using rows = inputs<port<"input", tensor<double, extents<dyn, dyn, 4>>>>;
  using with = policies<element<double>>;
  using without = policies<element<double>, use_bias(false)>;
  static constexpr nn::rnn r{4, 3};
  static constexpr nn::gru g{4, 3};
  static constexpr nn::lstm l{4, 3};
  static constexpr nn::conv1d c{4, 4, 1};
  static constexpr nn::self_attention a{4, 2};
  static constexpr nn::layer_norm n{{4}};
  BOOST_TEST((parameters_of<r, rows, with>()) == 4u);
  BOOST_TEST((parameters_of<r, rows, without>()) == 2u);
  BOOST_TEST((parameters_of<g, rows, with>()) == 4u);
  BOOST_TEST((parameters_of<g, rows, without>()) == 2u);
  BOOST_TEST((parameters_of<l, rows, without>()) == 2u);
  BOOST_TEST((parameters_of<c, inputs<port<"input", tensor<double, extents<dyn, 4, 5>>>>, without>()) == 1u);
  using few_rows = inputs<port<"input", tensor<double, extents<dyn, 5, 4>>>>;
  BOOST_TEST((parameters_of<a, few_rows, with>()) == 4u);
  BOOST_TEST((parameters_of<a, few_rows, without>()) == 2u);
  BOOST_TEST((parameters_of<n, rows, without>()) == 1u);

  train_layer<constant_layer<g>, rows, policies<element<double>, feedback(true)>> through("gru");
  train_layer<constant_layer<g>, rows, policies<element<double>, feedback(true), bptt(false)>> cut("gru");
  init(through, initializers(8));
  load_buffer saved;
  save_weights(through, saved);
  load_weights(cut, saved);
  tensor<double, extents<dyn, dyn, 4>> x(5, 2, 4);
  for (auto& v : x.writable()) v = 0.1;
  auto y = through.forward(dict("input"_key = x))["output"_key];
  close(numbers(y), numbers(cut.forward(dict("input"_key = x))["output"_key]));
  auto up = filled(1.0, 5, 2, 3);
  auto all = numbers(through.backward(dict("output"_key = up))["input"_key]),
       apart = numbers(cut.backward(dict("output"_key = up))["input"_key]);
  BOOST_TEST((all != apart));
  for (std::size_t i = 32; i < 40; ++i) BOOST_TEST(all[i] == apart[i]);  // the last iteration has no successor
}

BOOST_AUTO_TEST_CASE(policies_of_a_recurrent_layer_hold_in_its_step) {
  static constexpr nn::recurrent<nn::gru_step> walk{.step = {2, 3}};
  using walk_inputs =
      inputs<port<"input", tensor<double, extents<dyn, dyn, 2>>>, port<"previous_output", matrix<double>>>;
  using message =
      policies<element<double>, initialize<"Uz">(initializer::constant(0.25)), initialize<>(initializer::constant(-1))>;
  train_layer<constant_layer<walk>, walk_inputs, message> layer("gru");
  init(layer);
  close(numbers(layer.parameter("Uz")), std::vector<double>(9, 0.25));
  close(numbers(layer.parameter("Wr")), std::vector<double>(6, -1));
  static_assert(layer.is_update &&
                !train_layer<constant_layer<walk>, walk_inputs, message::change<trainable(false)>>::is_update);
}

BOOST_AUTO_TEST_CASE(free_functions_do_nothing_for_a_layer_without_weights) {
  train_layer<nn::tanh, inputs<port<"input", matrix<double>>>, trained> layer("tanh");
  infer_layer<nn::tanh> served("tanh");
  load_buffer buffer;
  gradient_collector collector;
  auto all = [&](auto& l) {
    init(l, initializers(1), &buffer);
    save_weights(l, buffer);
    load_weights(l, buffer);
    collect_gradients(l, collector);
    assert_neutral(l);
  };
  all(layer);
  all(served);
  BOOST_TEST((buffer.size() == 0u && collector.empty()));
  layer.forward(dict("input"_key = x));
  BOOST_CHECK_THROW(assert_neutral(layer), state_error);
}

BOOST_AUTO_TEST_CASE(running_statistics_follow_on_demand) {
  static constexpr nn::batch_norm2d norm{2};
  train_layer<constant_layer<norm>, inputs<port<"input", tensor<double, extents<dyn, 2, dyn, dyn>>>>, trained> layer(
      "norm");
  init(layer);
  tensor<double, extents<dyn, 2, dyn, dyn>> maps(2, 2, 1, 2);
  auto w = maps.writable();
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i * i);
  auto out = layer.forward(dict("input"_key = maps));
  close(numbers(layer.parameter("running_mean")), {0, 0});
  layer.update_statistics();
  // channel 0: 0 1 16 25 -> 10.5; channel 1: 4 9 36 49 -> 24.5
  close(numbers(layer.parameter("running_mean")), {1.05, 2.45});
  layer.update_statistics();
  close(numbers(layer.parameter("running_mean")), {1.05, 2.45});
  layer.backward(dict("output"_key = maps));
  layer.assert_neutral();
}

BOOST_AUTO_TEST_CASE(steps_through_the_collector_train) {
  train_layer<constant_layer<weight_layer>, fc_inputs, policies<element<double>>> layer("fit");
  init(layer, initializers(1));
  matrix<double> w{{1, -2}, {0.5, 0}, {-1, 3}}, in(16, 3);
  philox stream(9);
  auto to = in.writable();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = 2 * stream.uniform<double>(i) - 1;
  auto target = evaluate(matmul(in, w));
  for (int step = 0; step < 200; ++step) {
    auto y = layer.forward(dict("input"_key = in))["output"_key];
    layer.backward(dict("output"_key = (y - target) * 0.125));
    gradient_collector collector;
    layer.collect_gradients(collector);
    collector.each([](parameter& p, const any_tensor& gradient) {
      p.assign(any_tensor(
          evaluate(p.value().as<double, extents<dyn, dyn>>() - gradient.as<double, extents<dyn, dyn>>() * 0.8)));
    });
  }
  close(numbers(layer.parameter("param.weight")), numbers(w), 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
