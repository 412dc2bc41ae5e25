// Nets with data-dependent shapes: blobs of changing shape, side effects, gradients, failing runs.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <string_view>
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
}

BOOST_AUTO_TEST_SUITE(counted)

BOOST_AUTO_TEST_CASE(blobs_have_the_extents_that_a_run_found) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {"N"}}), k = n.external("k", {dtype::int64, {}});
  const value kept = masked_select(x, x > 0);
  n.output("kept", kept);
  n.output("best", top_k(kept, k).values);
  n.output("sum", reduce_sum(kept));
  graph::workspace ws;
  ws.feed("k", scalar<std::int64_t>(2));
  ws.create(n);
  ws.feed("x", vector<float>{1, -2, 3, -4, 5});
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("kept") == (numbers{1, 3, 5}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("best") == (numbers{5, 3}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("sum") == (numbers{9}), boost::test_tools::per_element());
  ws.feed("x", vector<float>{7, 6, -1});
  ws.run("n", 3);
  BOOST_TEST(ws.fetch_numbers<float>("kept") == (numbers{7, 6}), boost::test_tools::per_element());
  BOOST_TEST((ws.fetch("best").shape() == shape{2}));
  // Two rows requested, one left: blobs keep the values of the last run, the error names the source line, the net runs
  // on.
  ws.feed("x", vector<float>{-7, 6, -1});
  const std::string why = message_of([&] { ws.run("n"); });
  BOOST_TEST(says(why, "net `n`: "));
  BOOST_TEST(says(why, "counted_test.cpp:30: top_k: truncate: 2 rows requested; there are 1"));
  BOOST_CHECK_THROW(ws.run("n"), value_error);
  BOOST_TEST(ws.fetch_numbers<float>("kept") == (numbers{7, 6}), boost::test_tools::per_element());
  ws.feed("k", scalar<std::int64_t>(0));
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("kept") == (numbers{6}), boost::test_tools::per_element());
  BOOST_TEST((ws.fetch("best").shape() == shape{0}));
  BOOST_TEST(says(ws.explain("n"), "segment 3 of 3"));
}

BOOST_AUTO_TEST_CASE(blobs_are_assigned_and_trained) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {dyn, 2}}), w = n.external("w", {dtype::float32, {2}});
  const value hard = compress(x, reduce_sum<1>(x * w) < 1);  // rows classified wrongly so far
  const value loss = reduce_sum(square(1 - reduce_sum<1>(hard * w)));
  const auto grads = n.add_gradient_operators({loss});
  n.assign(w, w - 0.05f * grads[w]);
  n.output("left", shape_of(hard));
  n.output("loss", loss);
  graph::workspace ws;
  ws.feed("x", matrix<float>{{1, 0}, {0, 1}, {1, 1}});
  ws.feed("w", vector<float>{0, 2});
  ws.create(n);
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("loss") == (numbers{1}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch("left").elements<std::int64_t>()[0] == 1);
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] == 0.1f, boost::test_tools::tolerance(1e-6f));
  BOOST_TEST(ws.fetch_numbers<float>("w")[1] == 2);
  ws.run("n", 200);
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] > 0.99f);
  BOOST_TEST(ws.fetch_numbers<float>("loss")[0] < 1e-4f);
}

BOOST_AUTO_TEST_CASE(segments_are_timed_and_counted_one_after_the_other) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {"N"}});
  n.output("sum", reduce_sum(square(masked_select(x, x > 0))));
  n.output("run", n.iterations());
  graph::workspace ws;
  ws.feed("x", vector<float>{1, -2, 3, -4, 5});
  ws.create(n);
  const auto costs = ws.costs("n");
  const auto at = [](const auto& all, std::string_view operation) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& c) { return c.operation.find(operation) != std::string::npos; });
    BOOST_REQUIRE(found != all.end());
    return found;
  };
  BOOST_TEST((at(costs, "non_zero") < at(costs, "reduce_sum")));
  BOOST_TEST(says(at(costs, "reduce_sum")->where, "counted_test.cpp:"));
  const auto times = ws.benchmark("n", 4, 1);
  BOOST_TEST(times.least_ns > 0);
  BOOST_TEST(at(times.operations, "non_zero")->nanoseconds > 0);
  BOOST_TEST(at(times.operations, "reduce_sum")->nanoseconds > 0);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("run")[0] == 10);  // benchmark runs count as runs
  BOOST_TEST(ws.fetch_numbers<float>("sum")[0] == 35);
  BOOST_TEST(ws.estimate_memory("n").unshared > 0);
  BOOST_TEST(ws.estimate_memory("n").arena <= ws.estimate_memory("n", memory_sharing::none).arena);
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("run")[0] == 11);
}

BOOST_AUTO_TEST_SUITE_END()
