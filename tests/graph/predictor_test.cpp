// Predictors of models in training: inference behavior of layers, whatever they do in training.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using namespace lamina::ir;

namespace {

using numbers = std::vector<float>;
const tensor_type rows{dtype::float32, {"N", 4}}, images{dtype::float32, {"N", 2, 2, 2}};

any_tensor counted(std::int64_t n, std::int64_t c) {
  matrix<float> x(n, c);
  for (std::int64_t i = 0; i < n * c; ++i) x.writable().data()[i] = static_cast<float>(i % 7) - 2;
  return x;
}
bool has_operation(const graph::net& n, std::string_view name) {
  for (const auto& o : n.operations())
    if (o.name == name) return true;
  return false;
}
// Maps a row of x to two scores, with dropout twice on the way.
void dropping(graph::model& m) {
  graph::model::scope here(m);
  const value x = m.input("x", rows);
  const value hidden =
      graph::dropout(graph::fc(graph::dropout(x), 8, {.activation = nn::relu{}}), {.probability = 0.75});
  m.main().output("hidden", hidden);
  m.main().output("scores", graph::fc(hidden, 2));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(predictors)

BOOST_AUTO_TEST_CASE(batch_norm_takes_running_statistics) {
  graph::model m("m");
  graph::model::scope here(m);
  m.main().output("y", graph::spatial_bn(m.input("x", images), {.epsilon = 0, .momentum = 0.5}));
  const auto p = m.predictor("p", {"x"}, {"y"});
  auto taken = p.external_inputs();
  std::sort(taken.begin(), taken.end());
  BOOST_TEST(
      taken == (std::vector<std::string>{"spatial_bn_b", "spatial_bn_riv", "spatial_bn_rm", "spatial_bn_s", "x"}),
      boost::test_tools::per_element());

  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", evaluate(filled(3.0f, 1, 2, 2, 2)));
  ws.run_once(p);  // running mean 0, variance 1
  for (float y : ws.fetch_numbers<float>("y")) BOOST_TEST(y == 3.0f);
  BOOST_TEST(ws.fetch_numbers<float>("spatial_bn_rm") == (numbers{0, 0}), boost::test_tools::per_element());

  // The first channel is 0, 2, 4, 6, the second its double: means 3 and 6, of which running means keep half.
  any_tensor batch(tensor_type{dtype::float32, {1, 2, 2, 2}});
  auto* all = reinterpret_cast<float*>(batch.mutable_data());
  for (int i = 0; i < 4; ++i) all[i] = static_cast<float>(2 * i), all[4 + i] = static_cast<float>(4 * i);
  ws.feed("x", batch);
  ws.create(m.main());
  ws.run("m");
  const numbers trained = ws.fetch_numbers<float>("y");
  BOOST_TEST(std::abs(trained[0] + 3 / std::sqrt(5.0f)) < 1e-5f);  // batch mean and variance
  BOOST_TEST(ws.fetch_numbers<float>("spatial_bn_rm") == (numbers{1.5f, 3}), boost::test_tools::per_element());
  const numbers variance = ws.fetch_numbers<float>("spatial_bn_riv");
  ws.run_once(p);
  const numbers y = ws.fetch_numbers<float>("y");
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t c = i / 4;
    const float x = static_cast<float>((c + 1) * 2 * (i % 4));
    BOOST_TEST(std::abs(y[i] - (x - (c ? 3.0f : 1.5f)) / std::sqrt(variance[c])) < 1e-5f, i);
  }
}

BOOST_AUTO_TEST_CASE(dropout_passes_its_input_on) {
  graph::model m("m"), inference("i", {.training = false});
  dropping(m);
  dropping(inference);
  const auto p = m.predictor("p", {"x"}, {"scores"});
  BOOST_TEST(has_operation(m.main(), "random_uniform"));
  BOOST_TEST(!has_operation(p, "random_uniform"));
  BOOST_TEST(!has_operation(p, "in_training"));
  BOOST_TEST(p.operations().size() == inference.main().operations().size());

  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", counted(3, 4));
  ws.run_once(p);
  const numbers scores = ws.fetch_numbers<float>("scores");
  ws.run_once(p);
  BOOST_TEST(ws.fetch_numbers<float>("scores") == scores, boost::test_tools::per_element());
  ws.run_once(inference.main());  // it has the same parameters by name
  BOOST_TEST(ws.fetch_numbers<float>("scores") == scores, boost::test_tools::per_element());
  ws.run_once(m.main());  // dropout in training as before
  BOOST_TEST(ws.fetch_numbers<float>("scores") != scores, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(training_is_what_it_was) {
  // The predictor leaves operations, names and gradients of the net unchanged.
  graph::model m("m");
  dropping(m);
  const auto types = m.main().infer({{"x", {5, 4}}});
  for (const auto& t : types) BOOST_TEST(t.first.find("inference") == std::string::npos, t.first);
  const auto& g = m.add_gradient_operators({m.main()["scores"]});
  BOOST_TEST(g.contains(m.parameters()[0].at));
  m.main().output("slope", g["fc_w"]);
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", counted(3, 4));
  ws.run_once(m.main());
  // If the hidden feature was dropped in all rows, its weights get no gradient.
  const numbers hidden = ws.fetch_numbers<float>("hidden"), slope = ws.fetch_numbers<float>("slope");
  int dropped = 0;
  for (std::size_t f = 0; f < 8; ++f) {
    if (hidden[f] != 0 || hidden[8 + f] != 0 || hidden[16 + f] != 0) continue;
    ++dropped;
    for (std::size_t c = 0; c < 4; ++c) BOOST_TEST(slope[4 * f + c] == 0.0f);
  }
  BOOST_TEST(dropped > 0);
  BOOST_TEST(dropped < 8);
}

BOOST_AUTO_TEST_CASE(layers_made_of_layers_and_those_of_users) {
  graph::model m("m");
  graph::model::scope here(m);
  const value x = m.input("x", {dtype::float32, {3, 2, 4}});
  const value y = m.layer("lstm", {.name = "deep"},
                          nn::lstm{.input_size = 4, .hidden_size = 5, .num_layers = 2, .dropout = 0.5}, x);
  m.main().output("y", y);
  const auto p = m.predictor("p", {"x"}, {"y"});
  BOOST_TEST(!has_operation(p, "random_uniform"));
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", evaluate(filled(0.5f, 3, 2, 4)));
  ws.run_once(p);
  const numbers first = ws.fetch_numbers<float>("y");
  ws.run_once(p);
  BOOST_TEST(ws.fetch_numbers<float>("y") == first, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(copies_keep_both) {
  // A clone and a part of a net keep training; a model that is saved and loaded has the same predictor.
  graph::model m("m");
  dropping(m);
  BOOST_TEST(has_operation(m.main().clone("c"), "random_uniform"));
  BOOST_TEST(has_operation(m.main().clone_partial("c", {"x"}, {"scores"}), "random_uniform"));
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", counted(3, 4));
  ws.run_once(m.predictor("p", {"x"}, {"scores"}));
  const numbers scores = ws.fetch_numbers<float>("scores");
  const test_files::folder d;
  graph::save(d / "predictor", m, ws);
  graph::workspace other;
  const auto again = graph::load_model(d / "predictor", other);
  const auto p = again->predictor("p", {"x"}, {"scores"});
  BOOST_TEST(!has_operation(p, "random_uniform"));
  BOOST_TEST(again->main().operations().size() == m.main().operations().size());
  other.feed("x", counted(3, 4));
  other.run_once(p);
  BOOST_TEST(other.fetch_numbers<float>("scores") == scores, boost::test_tools::per_element());
  other.run_once(again->main());
  BOOST_TEST(other.fetch_numbers<float>("scores") != scores, boost::test_tools::per_element());
}

// In a name scope, names refer to the blobs in it.
BOOST_AUTO_TEST_CASE(a_predictor_is_made_inside_of_a_name_scope) {
  graph::model m("m");
  graph::model::scope g(m);
  graph::name_scope s("enc");
  m.main().output("y", graph::fc(m.input("x", rows), 2));
  const auto p = m.predictor("p", {"x"}, {"y"});
  BOOST_TEST(p.external_inputs()[0] == "enc/x");
  BOOST_TEST(p.external_outputs()[0] == "enc/y");
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("enc/x", counted(3, 4));
  ws.run_once(p);
  BOOST_TEST((ws.fetch("enc/y").shape() == shape{3, 2}));
  const auto part = graph::snapshot(m.main(), ws, {"x"}, {"y"});  // one input and the parameters
  BOOST_TEST(part.program->inputs().size() == 1u);
  BOOST_TEST(part.states.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_predictor_is_saved_without_what_trains) {
  graph::model m("m");
  dropping(m);
  graph::workspace ws;
  ws.run_once(m.init());
  const test_files::folder d;
  graph::save(d / "predictor", m.predictor("p", {"x"}, {"scores"}), ws);
  graph::workspace other;
  const auto p = graph::load(d / "predictor", other);
  BOOST_TEST(!has_operation(p, "random_uniform"));
  BOOST_TEST(p.external_inputs().size() == 5u);  // x and the parameters, no generator
}

BOOST_AUTO_TEST_SUITE_END()
