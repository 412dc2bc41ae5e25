// Nets from other models, nets and models in files, names of summed gradients, integer fills.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using engine_test::says;

namespace {

inline constexpr auto mlp = sequential(nn::linear{.in_features = 6, .out_features = 8}, nn::relu{},
                                       nn::linear{.in_features = 8, .out_features = 3});

bool same_bits(const any_tensor& a, const any_tensor& b) {
  return a.type() == b.type() && std::equal(a.data(), a.data() + a.bytes(), b.data());
}
matrix<float> some_rows() {
  matrix<float> x(5, 6);
  for (int i = 0; i < 5; ++i)
    for (int k = 0; k < 6; ++k) x.writable(i, k) = static_cast<float>((i * 7 + k * 3) % 11) * 0.25f - 1;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nets_of_models)

BOOST_AUTO_TEST_CASE(a_model_becomes_a_net) {
  model<mlp, input<"N", 6>> m({.seed = 5});
  graph::net n = graph::net_of("mlp", m);
  BOOST_REQUIRE(n.external_outputs().size() == 1u);
  const std::string y = n.external_outputs()[0];
  BOOST_TEST(n.has("0.weight"));
  graph::workspace ws;
  graph::feed(ws, m.parameters());
  const auto x = some_rows();
  ws.feed(n.external_inputs()[0], x);
  ws.create(n);
  ws.run("mlp");
  BOOST_TEST(same_bits(ws.fetch(y), any_tensor(m(x))));

  // A net from a topology can be extended and trained: one step against the same step with the model's operations.
  const value w = n["2.weight"], loss = n.output("loss", reduce_mean(square(n[y])));
  n.assign(w, w - 0.5 * n.add_gradient_operators({loss})[w]);
  ws.create(n, {.overwrite = true});
  ws.run("mlp", 3);
  BOOST_TEST(!same_bits(ws.fetch("2.weight"), any_tensor(m.parameters().find("2.weight")->value())));
  const auto before = ws.fetch_numbers<float>("loss")[0];
  ws.run("mlp");
  BOOST_TEST(ws.fetch_numbers<float>("loss")[0] < before);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(nets_in_files)

BOOST_AUTO_TEST_CASE(a_net_is_saved_and_goes_on) {
  test_files::folder d;
  const auto made = [] {
    graph::net n("n");
    const value x = n.external("x", {dtype::float32, {"N", 2}}), w = n.external("w", {dtype::float32, {2}});
    n.output("noise", n.fill<op::gaussian>("drawn", {3}) * 2);
    n.assign(w, w * 0.5 + reduce_sum(x, {.axes = axes(0)}) / cast<float>(n.iterations()));
    n.output("run", n.iterations());
    return n;
  };
  const auto n = made();
  graph::workspace ws, other;
  ws.feed("x", matrix<float>{{1, 2}, {3, 4}});
  ws.feed("w", vector<float>{10, 20});
  ws.create(n);
  ws.run("n", 3);
  graph::save(d / "net", n, ws);
  const graph::net again = graph::load(d / "net.json", other);
  BOOST_TEST(again.name() == "n");
  other.feed("x", ws.fetch("x"));
  other.create(again);
  ws.run("n", 2);
  other.run("n", 2);
  for (const char* blob : {"w", "noise", "run", "drawn"})
    BOOST_CHECK_MESSAGE(same_bits(ws.fetch(blob), other.fetch(blob)), blob);
  BOOST_TEST(other.fetch_numbers<std::int64_t>("run")[0] == 5);
  BOOST_TEST(load_net(d / "net").states.find("w") != nullptr);  // the tool reads this file
  graph::workspace empty;
  const auto message = message_of([&] { graph::save(d / "other", n, empty); });
  BOOST_TEST(says(message, d / "other.json: "), message);
  BOOST_TEST(says(message, "saved_test.cpp:"), message);
  BOOST_TEST(says(message, "net `n`: there is no blob `w` in the workspace; there are none"), message);
}

BOOST_AUTO_TEST_CASE(files_tell_parameters_from_other_blobs) {
  test_files::folder d;
  graph::model m("m", {.seed = 1});
  const graph::model::scope here(m);
  const value x = m.input("x", {dtype::float32, {"N", 1, 6, 6}}), labels = m.input("labels", {dtype::int64, {"N"}});
  const value h = graph::dropout(graph::spatial_bn(graph::conv(x, 2)));
  const value scores = m.main().output("scores", graph::fc(flatten<1>(h), 3));
  m.add_gradient_operators({m.main().output("loss", cross_entropy(scores, labels))});
  m.add_updates(optim::adam{});
  graph::workspace ws, other;
  ws.run_once(m.init());
  ws.feed("x", tensor<float, extents<2, 1, 6, 6>>());
  ws.feed("labels", vector<std::int64_t>{0, 2});
  ws.run_once(m.main());
  const auto check = [](const parameter_store& states, std::size_t count) {
    BOOST_TEST(states.size() == count);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::string& name = states[i].name();
      const bool statistic = name == "spatial_bn_rm" || name == "spatial_bn_riv",
                 generator = name.ends_with("/generator");
      const bool learned = !statistic && (name.ends_with("_w") || name.ends_with("_b") || name.ends_with("_s"));
      const auto role = learned     ? state_role::parameter
                        : statistic ? state_role::statistic
                        : generator ? state_role::generator
                                    : state_role::optimizer;
      BOOST_CHECK_MESSAGE((states[i].role() == role && states[i].trainable() == learned), name);
    }
  };
  graph::save(d / "model", m, ws);
  check(load_net(d / "model").states, 22);
  check(graph::snapshot(m.main(), ws).states, 22);
  // Its parts and copies, also those of loaded nets.
  graph::save(d / "predictor", m.predictor("p", {"x"}, {"scores"}), ws);
  check(load_net(d / "predictor").states, 8);
  check(graph::snapshot(m.main(), ws, {"x"}, {"scores"}).states, 9);
  const auto loaded = graph::load(d / "predictor", other);
  check(graph::snapshot(loaded.clone("copy"), other).states, 8);
  graph::net both("both");
  both.append(loaded);
  check(graph::snapshot(both, other).states, 8);
  graph::workspace third;
  const auto again = graph::load_model(d / "model", third);
  check(graph::snapshot(again->predictor("p", {"x"}, {"scores"}), third).states, 8);
  // A blob of a net without a model: constant or assigned.
  graph::net n("n");
  const value w = n.external("w", {dtype::float32, {2}}), total = n.external("total", {dtype::float32, {2}});
  n.assign(total, n.output("y", n.external("v", {dtype::float32, {2}}) * w + total));
  for (auto blob : {"w", "total", "v"}) ws.feed(blob, vector<float>{1, 2});
  const auto part = graph::snapshot(n, ws, {"v"}, {"y"});
  BOOST_TEST((part.states.find("w")->role() == state_role::parameter && !part.states.find("w")->trainable()));
  BOOST_TEST((graph::snapshot(n, ws).states.find("total")->role() == state_role::optimizer));
}

BOOST_AUTO_TEST_CASE(what_is_frozen_stays_so_in_files) {
  test_files::folder d;
  graph::model m("m");
  graph::model::scope guard(m);
  const value x = m.input("x", {dtype::float32, {2, 2}});
  m.main().output(
      "loss",
      reduce_sum(square(graph::spatial_bn(reshape(graph::fc(x, 1, {.name = "f"}), shape{2, 1, 1, 1}), {.name = "n"}))));
  m.add_gradient_operators({m.main()["loss"]});
  freeze(m, "f_w");
  graph::workspace ws, other;
  ws.run_once(m.init());
  graph::save(d / "model", m, ws);
  BOOST_TEST(!load_net(d / "model").states.find("f_w")->trainable());
  for (const auto& p : graph::load_model(d / "model", other)->parameters()) BOOST_TEST(p.frozen == (p.name == "f_w"));
}

BOOST_AUTO_TEST_CASE(a_snapshot_is_a_program_with_what_blobs_hold) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {"N", 2}}), w = n.external("w", {dtype::float32, {2}}),
              b = n.external("b", {dtype::float32, {2}}), total = n.external("total", {dtype::float32, {2}});
  const value h = n.output("h", x * w), y = n.output("y", h + b);
  n.assign(total, total + reduce_sum<0>(y));
  graph::workspace ws;
  ws.feed("x", matrix<float>{{1, 2}, {3, 4}});
  ws.feed("w", vector<float>{10, 20});
  ws.feed("b", vector<float>{0.5F, 0.25F});
  ws.feed("total", vector<float>{0, 0});
  const auto whole = graph::snapshot(n, ws);
  BOOST_TEST(whole.program->inputs().size() == 3u);
  BOOST_TEST(whole.states.size() == 1u);
  // Inputs are in the order of the names; blobs of the workspace are unchanged.
  const auto part = graph::snapshot(n, ws, {"b", "h"}, {"y"}), all = graph::snapshot(n, ws, {"x"}, {"y"});
  BOOST_TEST(part.program->at(part.program->inputs()[0]).name == "b");
  BOOST_TEST(part.states.size() == 0u);
  ws.create(n);
  ws.run("n");
  const auto results = all.factory().create()(std::vector<any_tensor>{ws.fetch("x")});
  BOOST_TEST(same_bits(results.at(0), ws.fetch("y")));
  ws.feed("w", vector<double>{10, 20});
  BOOST_TEST(says(message_of([&] { graph::snapshot(n, ws, {"x"}, {"y"}); }),
                  "net `n`: blob `w` is float64[2]; expected float32[2]"));
  BOOST_TEST(says(message_of([&] { graph::snapshot(n, ws, {"z"}, {"y"}); }), "`z`"));
}

BOOST_AUTO_TEST_CASE(a_model_is_saved_and_goes_on_training) {
  test_files::folder d;
  graph::model m("m", {.seed = 4});
  {
    graph::model::scope here(m);
    const value x = m.input("x", {dtype::float32, {5, 6}}), labels = m.input("labels", {dtype::int64, {5}});
    const value h = graph::dropout(relu(graph::fc(x, 7, {.name = "a"})), {.probability = 0.25});
    const value scores = m.main().output("scores", graph::fc(h, 3, {.name = "b"})),
                loss = m.main().output("loss", cross_entropy(scores, labels));
    m.add_gradient_operators({loss});
    m.add_updates(optim::adam{.lr = 0.02});
  }
  const auto feed = [](graph::workspace& ws) {
    ws.feed("x", some_rows());
    ws.feed("labels", vector<std::int64_t>{0, 1, 2, 1, 0});
  };
  graph::workspace ws, other;
  ws.run_once(m.init());
  feed(ws);
  ws.create(m.main());
  ws.run("m", 4);
  graph::save(d / "model", m, ws);
  const auto again = graph::load_model(d / "model", other);
  feed(other);
  other.create(again->main());
  ws.run("m", 3);
  other.run("m", 3);
  BOOST_TEST(same_bits(ws.fetch("loss"), other.fetch("loss")));
  const auto was = m.parameters(), is = again->parameters();
  BOOST_REQUIRE(was.size() == is.size());
  for (std::size_t i = 0; i < was.size(); ++i) {
    BOOST_TEST(was[i].name == is[i].name);
    BOOST_TEST((was[i].tag == is[i].tag && is[i].updated));
    BOOST_CHECK_MESSAGE(same_bits(ws.fetch(was[i].name), other.fetch(was[i].name)), was[i].name);
    BOOST_CHECK_MESSAGE(same_bits(ws.fetch(was[i].name + "_first"), other.fetch(was[i].name + "_first")), was[i].name);
  }
  // Running `init` again restores the initial weights; the predictor is the same.
  graph::workspace fresh, first;
  fresh.run_once(again->init());
  first.run_once(m.init());
  BOOST_TEST(same_bits(fresh.fetch("a_w"), first.fetch("a_w")));
  const auto predictor = again->predictor("p", {"x"}, {"scores"});
  BOOST_TEST(predictor.operations().size() == m.predictor("p", {"x"}, {"scores"}).operations().size());

  graph::save(d / "net", m.main(), ws);
  std::filesystem::copy_file(d / "net.json", d / "net_init.json");
  std::filesystem::copy_file(d / "net.safetensors", d / "net_init.safetensors");
  BOOST_TEST(says(message_of([&] { graph::load_model(d / "net", other); }),
                  "these are not the weights of a saved graph::model"));
  BOOST_CHECK_THROW(graph::load_model(d / "net", other), file_error);
}

// Random operations added to a loaded net or model draw numbers different from the existing ones.
BOOST_AUTO_TEST_CASE(what_is_added_after_loading_draws_its_own_numbers) {
  const test_files::folder at;
  {
    graph::model m("m", {.seed = 1});
    graph::model::scope g(m);
    m.main().output("h", graph::fc(graph::dropout(m.input("x", {dtype::float32, {64, 3}}), {.name = "drop"}), 3));
    m.main().output("d", graph::dropout(m.main()["x"]));
    graph::workspace ws;
    ws.run_once(m.init());
    graph::save(at / "m", m, ws);
    graph::net n("n");
    n.fill<op::gaussian>("a", {3});
    graph::save(at / "n", n, ws);
  }
  graph::workspace ws;
  const auto m = graph::load_model(at / "m", ws);
  graph::model::scope g(*m);
  m->main().output("y", graph::fc(m->main()["h"], 3, {.name = "second"}));
  m->main().output("d2", graph::dropout(m->main()["x"]));
  ws.run_once(m->init());
  BOOST_TEST(ws.fetch_numbers<float>("second_w")[0] != ws.fetch_numbers<float>("fc_w")[0]);
  ws.feed("x", evaluate(filled(1.f, 64, 3)));
  ws.run_once(m->main());
  BOOST_TEST(!same_bits(ws.fetch("d"), ws.fetch("d2")));

  graph::net n = graph::load(at / "n", ws);
  n.fill<op::gaussian>("b", {3});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("a")[0] != ws.fetch_numbers<float>("b")[0]);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(names_of_sums)

BOOST_AUTO_TEST_CASE(gradients_that_are_summed_have_names) {
  graph::net n("n");
  const value w = n.external("w", {dtype::float32, {2}});
  const value loss = reduce_sum(square(w)) + reduce_sum(exp(w)) + reduce_sum(w * 3);
  auto g = n.add_gradient_operators({loss});
  // The last use has the first gradient, as in Caffe2.
  n.output("a", n["_w_grad_autosplit_0"]);
  n.output("b", n["_w_grad_autosplit_1"]);
  n.output("c", n["_w_grad_autosplit_2"]);
  BOOST_TEST(!n.has("_w_grad_autosplit_3"));
  n.output("sum", g[w]);
  graph::workspace ws;
  ws.feed("w", vector<float>{0, 2});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("a")[1] == 3);
  BOOST_TEST(ws.fetch_numbers<float>("b")[0] == 1);
  BOOST_TEST(ws.fetch_numbers<float>("c")[1] == 4);
  BOOST_TEST(ws.fetch_numbers<float>("sum")[0] == 4);
  graph::net one("one");
  const value x = one.external("x", {dtype::float32, {2}});
  one.add_gradient_operators({reduce_sum(exp(x))});
  BOOST_TEST(!one.has("_x_grad_autosplit_0"));  // a single gradient is not summed
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(fills_of_whole_numbers)

BOOST_AUTO_TEST_CASE(they_cover_their_range) {
  graph::net n("n", {.seed = 2});
  n.fill<op::uniform_integers>("i", {60'000}, {.low = -2, .high = 3}, dtype::int64);
  n.fill<op::uniform_integers>("f", {1000}, {.low = 5, .high = 5});
  n.fill<op::uniform_integers>("far", {100}, {.low = 9'007'199'254'740'993, .high = 9'007'199'254'740'994},
                               dtype::int64);
  n.fill<op::constant>("c", {3}, {.value = 7}, dtype::int32);
  graph::workspace ws;
  ws.run_once(n);
  std::vector<int> counts(6);
  for (auto v : ws.fetch_numbers<std::int64_t>("i")) {
    BOOST_REQUIRE((v >= -2 && v <= 3));
    ++counts[static_cast<std::size_t>(v + 2)];
  }
  for (int c : counts) BOOST_TEST((c > 9500 && c < 10'500));  // 10000 each, with a standard deviation of 91
  for (float v : ws.fetch_numbers<float>("f")) BOOST_TEST(v == 5);
  bool low = false, high = false;
  for (auto v : ws.fetch_numbers<std::int64_t>("far"))
    low = low || v == 9'007'199'254'740'993, high = high || v == 9'007'199'254'740'994;
  BOOST_TEST((low && high));
  BOOST_TEST(ws.fetch_numbers<std::int32_t>("c") == (std::vector<std::int32_t>{7, 7, 7}),
             boost::test_tools::per_element());
  BOOST_CHECK_THROW(n.fill<op::uniform_integers>("none", {1}, {.low = 1, .high = 0}), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
