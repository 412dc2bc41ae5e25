// Names, scopes, sources and effects of nets.
#include <boost/test/unit_test.hpp>

#include <cmath>
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

constexpr tensor_type row{dtype::float32, {3}};

}  // namespace

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(results_are_named_by_net_and_operation) {
  graph::net n("net");
  auto x = n.external("x", row);
  auto a = relu(x), b = relu(a), c = tanh(b);
  BOOST_TEST(n.name_of(x) == "x");
  BOOST_TEST(n.name_of(a) == "net/relu");
  BOOST_TEST(n.name_of(b) == "net/relu_2");
  BOOST_TEST(n.name_of(c) == "net/tanh");
  auto [largest, index] = apply<op::max_pool2d>({}, n.external("image", {dtype::float32, {1, 1, 2, 2}}));
  BOOST_TEST(n.name_of(largest) == "net/max_pool2d:0");
  BOOST_TEST(n.name_of(index) == "net/max_pool2d:1");
  n.output("y", c);
  BOOST_TEST(n.name_of(c) == "y");
  BOOST_TEST(n["net/relu_2"].same(b));
  BOOST_TEST(n["y"].same(c));
}

// If a blob already has a result's automatic name, the result gets another one.
BOOST_AUTO_TEST_CASE(automatic_names_are_no_blobs) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {2}}), r = relu(x);
  auto y = n.output("n/relu", r + x);
  BOOST_TEST(n.name_of(y) == "n/relu");
  BOOST_TEST(n.name_of(r) == "n/relu_auto_0");
  BOOST_TEST(n["n/relu"].same(y));
  BOOST_TEST(n["n/relu_auto_0"].same(r));
  BOOST_TEST(n.operations()[0].outputs[0] == "n/relu_auto_0");
}

// A blob with an automatic name can be found by it everywhere; the name is taken.
BOOST_AUTO_TEST_CASE(automatic_names_are_there) {
  graph::net n("n");
  const value x = n.external("x", row), r = relu(x);
  apply<op::max_pool2d>({}, n.external("image", {dtype::float32, {1, 1, 2, 2}}));
  const value loss = n.output("loss", reduce_sum(square(r)));
  for (const std::string name : {"x", "n/relu", "n/max_pool2d:0", "n/max_pool2d:1", "n/square", "loss"}) {
    BOOST_TEST(n.has(name), name);
    BOOST_TEST(n.name_of(n[name]) == name);
    BOOST_TEST(n.free_name(name) == name + "_auto_0");
  }
  for (const std::string name :
       {"relu", "n/relu_2", "n/relu:0", "n/max_pool2d", "n/max_pool2d:2", "n/relu_auto_0", "n/reduce_sum"}) {
    BOOST_TEST(!n.has(name), name);
    BOOST_TEST(n.free_name(name) == name);
    BOOST_CHECK_THROW(n[name], value_error);
  }
  n.output("y", r);  // now it has an explicit name
  BOOST_TEST(!n.has("n/relu"));
  const auto message = message_of([&] { n["n/sqare"]; });
  BOOST_TEST(says(message, "net `n`: there is no blob `n/sqare`"));
  BOOST_TEST(says(message, "did you mean `n/square`?"));
  BOOST_TEST(says(message_of([&] { n.assign("n/square", x); }),
                  "assign: `n/square` is not a blob; name the value with `output`"));
  const auto gradients = n.add_gradient_operators({loss}, {.with_respect_to = {n["n/square"], x}});
  BOOST_TEST(gradients["n/square"].same(gradients[n["n/square"]]));
  const graph::net part = n.clone_partial("part", {"n/square"}, {"loss"}, {{"n/square", "s"}});
  BOOST_TEST(part.external_inputs() == (std::vector<std::string>{"s"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(free_names_count_on) {
  graph::net n("net");
  BOOST_TEST(n.free_name("x") == "x");
  n.external("x", row);
  BOOST_TEST(n.free_name("x") == "x_auto_0");
  n.external("x_auto_0", row);
  BOOST_TEST(n.free_name("x") == "x_auto_1");
}

BOOST_AUTO_TEST_CASE(a_name_is_given_once) {
  graph::net n("net");
  n.external("x", row);
  const auto message = message_of([&] { n.fill<op::constant>("x", {3}); });
  BOOST_TEST(says(message, "net `net`: blob `x` already exists, from "));
  BOOST_TEST(says(message, "`assign` gives it another version"));
  BOOST_CHECK_THROW(n.external("x", row), state_error);
  BOOST_CHECK_THROW(n.output("x", n["x"]), state_error);
  BOOST_CHECK_THROW(n.external("", row), value_error);
}

BOOST_AUTO_TEST_CASE(unknown_blobs_are_answered_with_the_nearest) {
  graph::net n("net");
  n.external("weight", row);
  n.external("bias", row);
  BOOST_TEST(says(message_of([&] { n["weigth"]; }),
                  "net `net`: there is no blob `weigth`; there are `bias`, `weight`; did you mean `weight`?"));
  BOOST_CHECK_THROW(n["weigth"], value_error);
  BOOST_TEST(!n.has("weigth"));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(scopes)

BOOST_AUTO_TEST_CASE(names_nest_and_reset) {
  graph::net n("net");
  auto outside = n.external("x", row);
  {
    graph::name_scope a("encoder");
    BOOST_TEST(n.name_of(n.external("x", row)) == "encoder/x");
    {
      graph::name_scope b("first");
      BOOST_TEST(graph::name_scope::current() == "encoder/first/");
      BOOST_TEST(n.name_of(relu(outside)) == "net/encoder/first/relu");
      graph::name_scope c("other", true);
      BOOST_TEST(n.name_of(n.external("x", row)) == "other/x");
    }
    BOOST_TEST(n["x"].id().node == n["encoder/x"].id().node);  // the name within this scope
    BOOST_TEST(n.name_of(outside) == "x");                     // a value keeps its name
  }
  BOOST_TEST(graph::name_scope::current().empty());
  BOOST_TEST(n["x"].same(outside));
}

BOOST_AUTO_TEST_CASE(scopes_end_where_an_error_ends_them) {
  try {
    graph::name_scope a("a");
    graph::device_scope d("cpu");
    throw 1;
  } catch (int) {}
  BOOST_TEST(graph::name_scope::current().empty());
  BOOST_TEST(graph::device_scope::current().empty());
}

BOOST_AUTO_TEST_CASE(scopes_belong_to_their_thread) {
  graph::name_scope a("here");
  graph::device_scope d("cpu");
  std::string there = "unset", device = "unset";
  std::thread([&] {
    there = graph::name_scope::current();
    device = graph::device_scope::current();
    graph::name_scope b("there");
  }).join();
  BOOST_TEST(there.empty());
  BOOST_TEST(device.empty());
  BOOST_TEST(graph::name_scope::current() == "here/");
}

BOOST_AUTO_TEST_CASE(devices_are_kept_with_operations) {
  graph::net n("net");
  auto x = n.external("x", row);
  {
    graph::device_scope d("cpu");
    relu(x);
    graph::device_scope none("");
    tanh(x);
  }
  const auto all = n.operations();
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST(all[0].device == "cpu");
  BOOST_TEST(all[1].device.empty());
  BOOST_TEST(all[0].inputs == std::vector<std::string>{"x"}, boost::test_tools::per_element());
  BOOST_TEST(says(message_of([] { graph::device_scope d("cuda"); }), "there is no device `cuda`; there is `cpu`"));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(sources_and_effects)

BOOST_AUTO_TEST_CASE(fills) {
  graph::net n("net", {.seed = 3});
  n.fill<op::constant>("c", {2, 2}, {.value = 2.5});
  n.fill<op::uniform>("u", {200, 500}, {.low = -1, .high = 3});
  n.fill<op::gaussian>("g", {200, 500}, {.mean = 1, .std = 2});
  n.fill<op::xavier>("x", {200, 500});
  n.fill<op::msra>("m", {200, 500});
  n.given("given", {3}, {1, 2, 3});
  n.fill<op::uniform>("wide", {1000}, {}, dtype::float64);
  graph::workspace ws;
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("c") == (std::vector<float>{2.5f, 2.5f, 2.5f, 2.5f}),
             boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("given") == (std::vector<float>{1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<double>("wide").size() == 1000u);

  // mean, variance, smallest, largest of 100,000 numbers
  auto check = [&](const char* name, double mean, double variance, double limit) {
    const auto all = ws.fetch_numbers<float>(name);
    double sum = 0, squares = 0, largest = 0;
    for (float v : all) sum += v;
    const double m = sum / static_cast<double>(all.size());
    for (float v : all) squares += (v - m) * (v - m), largest = std::fmax(largest, std::fabs(v - mean));
    const double var = squares / static_cast<double>(all.size());
    BOOST_TEST(std::fabs(m - mean) < 5 * std::sqrt(variance / 1e5));
    BOOST_TEST(std::fabs(var / variance - 1) < 0.02);
    BOOST_TEST(largest <= limit);
    BOOST_TEST(largest > 0.9 * std::fmin(limit, 3 * std::sqrt(variance)));
  };
  check("u", 1, 16.0 / 12, 2);
  check("g", 1, 4, 1e9);
  check("x", 0, 1.0 / 500, std::sqrt(3.0 / 500));  // fan_in = size / first extent
  check("m", 0, 2.0 / 200, 1e9);                   // fan_out = size / second extent
}

BOOST_AUTO_TEST_CASE(fills_differ_by_run_by_blob_and_by_seed) {
  auto drawn = [](std::int64_t seed, int runs) {
    graph::net n("net", {.seed = seed});
    n.fill<op::uniform>("a", {4});
    n.fill<op::uniform>("b", {4});
    graph::workspace ws;
    ws.create(n);
    ws.run("net", runs);
    auto all = ws.fetch_numbers<float>("a"), b = ws.fetch_numbers<float>("b");
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  const auto first = drawn(1, 1);
  BOOST_TEST(first == drawn(1, 1), boost::test_tools::per_element());
  BOOST_TEST(first != drawn(1, 2));
  BOOST_TEST(first != drawn(2, 1));
  BOOST_TEST(first[0] != first[4]);
}

BOOST_AUTO_TEST_CASE(given_numbers_are_as_many_as_the_shape_has) {
  graph::net n("net");
  BOOST_TEST(says(message_of([&] { n.given("g", {2, 2}, {1, 2, 3}); }), "blob `g` has shape [2x2]; got 3 numbers"));
  BOOST_CHECK_THROW(n.given("i", {1}, {1.5}, dtype::int32), value_error);
  BOOST_CHECK_THROW(n.fill<op::constant>("f", {dyn, 2}), shape_error);
  BOOST_CHECK_THROW(n.fill<op::msra>("m", {3}), shape_error);
}

BOOST_AUTO_TEST_CASE(a_blob_keeps_its_type) {
  graph::net n("net");
  auto x = n.external("x", row), y = n.external("y", {dtype::float32, {4}}), z = n.external("z", {dtype::float64, {3}});
  BOOST_TEST(says(message_of([&] { n.assign(x, y); }), "blob `x` is float32[3] and is assigned float32[4]"));
  BOOST_CHECK_THROW(n.assign(x, y), shape_error);
  BOOST_CHECK_THROW(n.assign(x, z), type_error);
  BOOST_CHECK_THROW(n.assign(relu(x), x), value_error);
  auto free = n.external("free", {dtype::float32, {dyn}});
  BOOST_CHECK_THROW(n.assign(free, free), shape_error);
}

BOOST_AUTO_TEST_CASE(nets_are_mixed_by_external_alone) {
  graph::net a("a"), b("b");
  auto x = a.external("x", row), y = b.external("y", row);
  const auto message = message_of([&] { x + y; });
  BOOST_TEST(says(
      message, "an operand belongs to net `b` and not to net `a`; `external(v)` makes it an input there, by its name"));
  BOOST_CHECK_THROW(x + y, state_error);
  auto mine = a.external(y);
  BOOST_TEST(a.name_of(mine) == "y");
  BOOST_TEST(a.external(y).same(mine));
  BOOST_TEST(((x + mine).shape() == shape{3}));
  BOOST_CHECK_THROW(a.external(x), state_error);
  BOOST_TEST(
      says(message_of([&] { a.external(relu(y)); }), "the value has no name; net `b` gives it one with `output`"));
}

BOOST_AUTO_TEST_CASE(inputs_and_outputs_are_listed) {
  graph::net n("net");
  auto x = n.external("x", row), w = n.external("w", row);
  n.output("y", x * w);
  n.assign(w, w + x);
  BOOST_TEST(n.external_inputs() == (std::vector<std::string>{"x", "w"}), boost::test_tools::per_element());
  BOOST_TEST(n.external_outputs() == (std::vector<std::string>{"y", "w"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
