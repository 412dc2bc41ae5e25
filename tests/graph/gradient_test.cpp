// Gradients added to nets: names, sums, given starts, where they stop, rows of tables, versions. Expected numbers by
// hand.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>
#include <vector>

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using engine_test::message_of;
using engine_test::says;

namespace {

using numbers = std::vector<float>;
constexpr tensor_type pair_of{dtype::float32, {2}};

// Runs a net once on blobs x = [1, 2] and w = [3, 4]; returns its output `y`.
numbers result(const graph::net& n) {
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.feed("w", vector<float>{3, 4});
  ws.run_once(n);
  return ws.fetch_numbers<float>("y");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradients_of_nets)

BOOST_AUTO_TEST_CASE(names) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto h = n.output("h", x * w);
  auto loss = n.output("loss", reduce_sum(square(h)));
  auto g = n.add_gradient_operators({loss});
  BOOST_TEST(n["w_grad"].same(g[w]));
  BOOST_TEST(n["h_grad"].same(g[h]));
  BOOST_TEST(g["w"].same(g[w]));
  graph::net other("other");  // one target needs no braces
  auto v = other.external("w", pair_of);
  BOOST_TEST(!other.add_gradient_operators(reduce_sum(square(v)))[v].empty());
  BOOST_TEST(n.has("loss_autogen_grad"));
  BOOST_TEST(n.name_of(g[w]) == "w_grad");
  BOOST_TEST(g.size() == 4u);  // x, w, h, loss
  n.output("y", g[w]);         // 2 x^2 w
  BOOST_TEST(result(n) == (numbers{6, 32}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(uses_of_one_blob_are_summed) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto loss = reduce_sum(w * x) + reduce_sum(square(w)) + reduce_sum(w);
  n.output("y", n.add_gradient_operators({loss})[w]);  // x + 2 w + 1
  BOOST_TEST(result(n) == (numbers{8, 11}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(several_targets_are_summed) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  n.output("y", n.add_gradient_operators({reduce_sum(w * x), reduce_sum(w * 10)})[w]);
  BOOST_TEST(result(n) == (numbers{11, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_starts_with_what_is_given) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto h = n.output("h", w * x);
  auto g = n.add_gradient_operators({{h, n.given("start", {2}, {10, 100})}});
  BOOST_TEST(!n.has("h_autogen_grad"));
  n.output("y", g[w]);
  BOOST_TEST(result(n) == (numbers{10, 200}), boost::test_tools::per_element());
  BOOST_TEST(says(message_of([&] { n.add_gradient_operators({{h, n.given("wrong", {1}, {1})}}); }),
                  "the target `h` is float32[2]; its initial gradient is float32[1]"));
}

BOOST_AUTO_TEST_CASE(a_target_that_is_no_number_starts_with_ones) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  n.output("y", n.add_gradient_operators({w * x})[w]);
  BOOST_TEST(result(n) == (numbers{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gradients_stop) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto held = stop_gradient(w * x);
  auto g = n.add_gradient_operators({reduce_sum(held * w)});
  n.output("y", g[w]);  // w x, not 2 w x
  BOOST_TEST(result(n) == (numbers{3, 8}), boost::test_tools::per_element());
  BOOST_TEST(!g.contains(x));
  BOOST_TEST(says(message_of([&] { g[x]; }), "there is no gradient of `x`: the targets do not depend on it"));
  BOOST_TEST(says(message_of([&] { n.add_gradient_operators({held}); }),
                  "the target `n/stop_gradient` comes from stop_gradient, through which no gradient flows"));
}

// y = z w with z = zero_gradient(w x v): zeros flow back through z, so the gradient is that of the other factor alone.
BOOST_AUTO_TEST_CASE(gradients_become_zeros) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of), v = n.external("v", pair_of);
  auto held = n.output("held", graph::zero_gradient(w * x * v));
  auto g = n.add_gradient_operators({reduce_sum(held * w)});
  n.output("y", g[w]);     // w x v alone, not 2 w x v
  n.output("of_v", g[v]);  // present, unlike behind stop_gradient
  n.output("of_x", g[x]);
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.feed("w", vector<float>{3, 4});
  ws.feed("v", vector<float>{5, 6});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("held") == (numbers{15, 48}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{15, 48}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("of_v") == (numbers{0, 0}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("of_x") == (numbers{0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_infinite_becomes_zero) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto g = n.add_gradient_operators({reduce_sum(graph::zero_gradient(x) / (w - w)), graph::zero_gradient(w)});
  n.output("y", g[x]);  // no NaN from 1 / 0
  BOOST_TEST(result(n) == (numbers{0, 0}), boost::test_tools::per_element());
  auto ids = n.external("ids", {dtype::int64, {2}});
  const auto message = message_of([&] { graph::zero_gradient(ids); });
  BOOST_TEST(says(message, "gradient_test.cpp:"));
  BOOST_TEST(says(message, "zero_gradient: int64[2] has no gradient"));
  BOOST_CHECK_THROW(graph::zero_gradient(ids), type_error);
}

// An unused result needs no gradient; that of the other result needs no extra operations.
BOOST_AUTO_TEST_CASE(a_result_that_nothing_reads_needs_no_gradient) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {1, 4}}), w = n.external("w", {dtype::float32, {1, 1}});
  auto [h, c] = lstm_gates(x, w);
  (void)c;
  n.output("y", n.add_gradient_operators({h})[x]);
  graph::workspace ws;
  ws.feed("x", matrix<float>{{0, 0, 0, 0}});
  ws.feed("w", matrix<float>{{2}});
  ws.run_once(n);
  const double i = 0.5, f = 0.5, o = 0.5, cell = f * 2 + i * 0, t = std::tanh(cell);
  const double wanted[4] = {0, (1 - t * t) * o * 2 * f * (1 - f), (1 - t * t) * o * i, t * o * (1 - o)};
  for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(std::fabs(ws.fetch_numbers<float>("y")[k] - wanted[k]) < 1e-6);
}

BOOST_AUTO_TEST_CASE(only_what_is_asked_for_is_added) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto loss = reduce_sum(exp(x) * w);
  const auto before = n.operations().size();
  auto g = n.add_gradient_operators({loss}, {.with_respect_to = {w}});
  const auto all = n.operations();
  for (std::size_t i = before; i < all.size(); ++i)
    for (const auto& in : all[i].inputs) BOOST_TEST(in != "w");  // the gradient by x would multiply by w
  BOOST_TEST(g.contains(w));
  BOOST_TEST(!g.contains(x));
  auto other = n.external("other", pair_of);
  BOOST_TEST(says(message_of([&] { n.add_gradient_operators({loss}, {.with_respect_to = {other}}); }),
                  "the targets do not depend on `other`"));
}

BOOST_AUTO_TEST_CASE(sources_that_are_drawn_have_gradients_and_pass_none_on) {
  graph::net n("n");
  auto w = n.external("w", pair_of), drawn = n.fill<op::uniform>("drawn", {2});
  auto g = n.add_gradient_operators({reduce_sum(drawn * w * w)});
  n.output("y", g[drawn]);
  graph::workspace ws;
  ws.feed("w", vector<float>{3, 4});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{9, 16}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_differentiated) {
  graph::net n("n");
  auto ids = n.external("ids", {dtype::int64, {2}}), x = n.external("x", pair_of);
  BOOST_TEST(
      says(message_of([&] { n.add_gradient_operators({ids + 1}); }), "is int64[2]; gradients need float elements"));
  BOOST_CHECK_THROW(n.add_gradient_operators({ids + 1}), type_error);
  BOOST_CHECK_THROW(n.add_gradient_operators({}), value_error);
  auto cached =
      cached_attention(n.external("q", {dtype::float32, {1, 2, 1, 4}}), n.external("k", {dtype::float32, {1, 2, 1, 4}}),
                       n.external("v", {dtype::float32, {1, 2, 1, 4}}), n.external("K", {dtype::float32, {1, 2, 8, 4}}),
                       n.external("V", {dtype::float32, {1, 2, 8, 4}}), n.external("count", {dtype::int64, {1}}));
  const auto message = message_of([&] { n.add_gradient_operators({reduce_sum(cached)}); });
  BOOST_TEST(says(message, "gradient_test.cpp:"));
  BOOST_TEST(says(message, "cached_attention: this operation has no gradient"));
  (void)x;
}

BOOST_AUTO_TEST_CASE(rows_of_a_table) {
  graph::net n("n");
  auto table = n.external("table", {dtype::float32, {4, 2}}), a = n.external("a", {dtype::int64, {2}}),
       b = n.external("b", {dtype::int64, {1, 2}});
  auto loss = reduce_sum(embedding(table, a) * 2) + reduce_sum(embedding(table, b) * 3);
  auto g = n.add_gradient_operators({loss});
  BOOST_TEST(g.is_sparse(table));
  auto [indices, rows] = g.slices(table);
  n.output("indices", indices);
  n.output("rows", rows);
  n.output("dense", g[table]);
  graph::workspace ws;
  ws.feed("table", matrix<float>(4, 2));
  ws.feed("a", vector<std::int64_t>{3, 0});
  ws.feed("b", matrix<std::int64_t>{{3, 1}});
  ws.run_once(n);
  const auto at = ws.fetch_numbers<std::int64_t>("indices");
  const auto values = ws.fetch_numbers<float>("rows");
  BOOST_REQUIRE(at.size() == 4u);
  BOOST_REQUIRE(values.size() == 8u);
  numbers dense(8);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t c = 0; c < 2; ++c) dense[static_cast<std::size_t>(at[i]) * 2 + c] += values[2 * i + c];
  BOOST_TEST(dense == (numbers{2, 2, 3, 3, 0, 0, 5, 5}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("dense") == dense, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_and_dense_gradients_do_not_mix) {
  graph::net n("n");
  auto table = n.external("table", {dtype::float32, {4, 2}}), ids = n.external("ids", {dtype::int64, {2}});
  auto g = n.add_gradient_operators({reduce_sum(embedding(table, ids)) + reduce_sum(table)});
  BOOST_TEST(!g.is_sparse(table));
  BOOST_TEST(says(message_of([&] { g.slices(table); }),
                  "the gradient of `table` is dense, or a sum of dense and sparse ones"));
}

BOOST_AUTO_TEST_CASE(overwritten_blobs) {
  graph::net n("n");
  auto x = n.external("x", pair_of), w = n.external("w", pair_of);
  auto loss = reduce_sum(square(w) * x);
  auto next = n.assign(w, w * 0);
  auto g = n.add_gradient_operators({loss});  // its values of the old version are available
  n.output("y", g[w]);
  BOOST_TEST(result(n) == (numbers{6, 16}), boost::test_tools::per_element());
  const auto message = message_of([&] { g["w"]; });
  BOOST_TEST(says(message, "`w` has 2 versions: 0 external at "));
  BOOST_TEST(says(message, ", 1 assigned at "));
  BOOST_TEST(says(message, "the gradient belongs to version 0, not to the newest"));
  BOOST_CHECK_THROW(g[next], value_error);
}

BOOST_AUTO_TEST_SUITE_END()
