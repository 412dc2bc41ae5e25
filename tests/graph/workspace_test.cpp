// Workspaces: blobs, spaces, and runs of nets.
#include <boost/test/unit_test.hpp>

#include <string>
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

}  // namespace

BOOST_AUTO_TEST_SUITE(workspaces)

BOOST_AUTO_TEST_CASE(blobs_are_fed_and_fetched_as_copies) {
  graph::workspace ws;
  vector<float> v(2);
  v.writable(0) = 1;
  ws.feed("v", v);
  v.writable(0) = 5;
  const auto first = ws.fetch("v");
  BOOST_TEST(ws.fetch_numbers<float>("v") == (numbers{1, 0}), boost::test_tools::per_element());
  ws.feed("v", v);
  BOOST_TEST(first.elements<float>()[0] == 1);
  BOOST_TEST(ws.fetch_numbers<float>("v") == (numbers{5, 0}), boost::test_tools::per_element());
  ws.feed("v", matrix<double>(2, 2));  // replaced by another type
  BOOST_TEST((ws.fetch("v").type() == tensor_type{dtype::float64, {2, 2}}));
  BOOST_TEST(ws.has("v"));
  BOOST_TEST(!ws.has("w"));
  BOOST_TEST(ws.blobs() == std::vector<std::string>{"v"}, boost::test_tools::per_element());
  const matrix<double> typed = ws.fetch("v");
  BOOST_TEST((typed.shape() == shape{2, 2}));
  BOOST_CHECK_THROW((void)static_cast<matrix<float>>(ws.fetch("v")), type_error);
  BOOST_CHECK_THROW((void)static_cast<vector<double>>(ws.fetch("v")), shape_error);
  BOOST_TEST(
      says(message_of([&] { ws.fetch("vv"); }), "workspace: there is no blob `vv`; there are `v`; did you mean `v`?"));
  BOOST_CHECK_THROW(ws.fetch("vv"), value_error);
}

BOOST_AUTO_TEST_CASE(spaces_have_blobs_of_their_own) {
  graph::workspace ws;
  ws.feed("v", vector<float>(1));
  BOOST_CHECK_THROW(ws.switch_to("other"), value_error);
  BOOST_TEST(ws.current() == "default");
  ws.switch_to("other", true);
  BOOST_TEST(!ws.has("v"));
  ws.feed("w", vector<float>(1));
  ws.switch_to("default");
  BOOST_TEST(ws.has("v"));
  BOOST_TEST(!ws.has("w"));
  BOOST_TEST(ws.spaces() == (std::vector<std::string>{"default", "other"}), boost::test_tools::per_element());
  ws.reset();
  BOOST_TEST(ws.blobs().empty());
  ws.switch_to("other");
  BOOST_TEST(ws.has("w"));
}

BOOST_AUTO_TEST_CASE(a_net_runs_on_blobs) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {"N"}});
  n.output("y", x * 2 + 1);
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.create(n);
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{3, 5}), boost::test_tools::per_element());
  const auto before = ws.fetch("y");
  ws.feed("x", vector<float>{4, 5, 6});  // another shape needs another plan
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{9, 11, 13}), boost::test_tools::per_element());
  BOOST_TEST(before.elements<float>()[0] == 3);
  ws.feed("x", matrix<float>(1, 1));
  BOOST_TEST(
      says(message_of([&] { ws.run("n"); }), "net `n`: blob `x` must be float32[N]; the workspace has float32[1x1]"));
  BOOST_CHECK_THROW(ws.run("n"), shape_error);
  ws.feed("x", vector<double>(2));
  BOOST_CHECK_THROW(ws.run("n"), type_error);
  ws.reset();
  ws.create(n);
  BOOST_TEST(says(message_of([&] { ws.run("n"); }),
                  "net `n`: blob `x` is not in the workspace; feed it, or run the net that makes it"));
}

BOOST_AUTO_TEST_CASE(assigned_blobs_are_states) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {2}}), w = n.external("w", {dtype::float32, {2}});
  n.assign(w, w + x);
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.feed("w", vector<float>{10, 20});
  ws.create(n);
  ws.run("n", 3);
  BOOST_TEST(ws.fetch_numbers<float>("w") == (numbers{13, 26}), boost::test_tools::per_element());
  ws.feed("w", vector<float>{0, 0});  // fed between runs
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("w") == (numbers{1, 2}), boost::test_tools::per_element());
  ws.feed("w", vector<float>(3));
  BOOST_CHECK_THROW(ws.run("n"), shape_error);
  ws.feed("w", vector<float>{5, 5});  // other memory
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("w") == (numbers{6, 7}), boost::test_tools::per_element());
}

// Caffe2's WeightedSum([w, one, g, rate], w).
BOOST_AUTO_TEST_CASE(a_weighted_sum_is_written_out) {
  graph::net n("n");
  const value w = n.external("w", {dtype::float32, {2}}), g = n.given("g", {2}, {4, -8}),
              rate = n.given("rate", {}, {-0.25});
  n.assign(w, w + rate * g);
  graph::workspace ws;
  ws.feed("w", vector<float>{1, 2});
  ws.create(n);
  ws.run("n", 2);
  BOOST_TEST(ws.fetch_numbers<float>("w") == (std::vector<float>{-1, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(versions_follow_each_other_within_a_run) {
  graph::net n("n");
  auto w = n.external("w", {dtype::float32, {1}});
  auto second = n.assign(w, w * 2);
  n.output("between", n["w"] + 0);
  n.assign(second, second + 1);
  n.assign("w", n["w"] * 10);
  n.output("old", w + 0);  // a handle means its own version, not the newest one
  graph::workspace ws;
  ws.feed("w", vector<float>{3});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] == 70);
  BOOST_TEST(ws.fetch_numbers<float>("between")[0] == 6);
  BOOST_TEST(ws.fetch_numbers<float>("old")[0] == 3);
}

BOOST_AUTO_TEST_CASE(nets_share_blobs) {
  graph::net a("a"), b("b");
  auto w = a.external("w", {dtype::float32, {1}});
  a.assign(w, w + 1);
  auto in_b = b.external(w);
  b.assign(in_b, in_b * 10);
  graph::workspace ws;
  ws.feed("w", vector<float>{1});
  ws.create(a);
  ws.create(b);
  for (int i = 0; i < 2; ++i) ws.run("a"), ws.run("b");
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] == 210);
}

// Nets that differ only in names share a plan, but not blobs.
BOOST_AUTO_TEST_CASE(equal_nets_have_blobs_of_their_own) {
  graph::workspace ws;
  for (const std::string& number : {"1", "2"}) {
    graph::net n("n" + number);
    n.output("y" + number, relu(n.external("x" + number, {dtype::float32, {2}})));
    ws.feed("x" + number, number == "1" ? vector<float>{1, -1} : vector<float>{-2, 2});
    ws.run_once(n);
  }
  BOOST_TEST(ws.fetch_numbers<float>("y1") == (std::vector<float>{1, 0}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("y2") == (std::vector<float>{0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_output_of_one_net_is_the_input_of_another) {
  graph::net a("a"), b("b");
  auto made = a.given("x", {2}, {1, 2});
  b.output("y", b.external(made) * 3);
  b.output("same", b["x"]);
  graph::workspace ws;
  ws.run_once(a);
  ws.run_once(b);
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{3, 6}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("same") == (numbers{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(iterations_count_runs) {
  graph::net n("n");
  n.output("i", n.iterations());
  BOOST_TEST(n.iterations().same(n.iterations()));
  graph::workspace ws;
  ws.create(n);
  ws.run("n", 7);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("i")[0] == 7);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("n/iterations")[0] == 7);
}

BOOST_AUTO_TEST_CASE(a_net_of_a_name_is_replaced_on_request) {
  graph::net n("n");
  n.given("x", {1}, {1});
  graph::workspace ws;
  ws.create(n);
  BOOST_TEST(says(message_of([&] { ws.create(n); }),
                  "workspace: net `n` already exists; create(net, {.overwrite = true}) replaces it"));
  BOOST_CHECK_THROW(ws.create(n), state_error);
  n.given("y", {1}, {2});  // the created net is unaffected
  ws.run("n");
  BOOST_TEST(!ws.has("y"));
  ws.create(n, {.overwrite = true});
  ws.run("n");
  BOOST_TEST(ws.has("y"));
  BOOST_TEST(says(message_of([&] { ws.run("m"); }), "workspace: there is no net `m`; there are `n`"));
}

BOOST_AUTO_TEST_CASE(plans_of_steps) {
  graph::net up("up"), twice("twice");
  auto x = up.external("x", {dtype::float32, {}});
  auto next = up.assign(x, x + 1);
  up.output("enough", next >= 20);
  auto y = twice.external("x", {dtype::float32, {}});
  twice.assign(y, y * 2);
  graph::workspace ws;
  ws.feed("x", scalar<float>(0));
  ws.create(up);
  ws.create(twice);
  ws.run(graph::execution_step{.steps = {{.net = "up", .times = 2}, {.net = "twice"}}, .times = 2});  // 0 2 4, 6 12
  BOOST_TEST(ws.fetch_numbers<float>("x")[0] == 12);
  ws.run(graph::execution_step{.net = "up", .times = 1000, .stop_when = "enough"});
  BOOST_TEST(ws.fetch_numbers<float>("x")[0] == 20);
  BOOST_CHECK_THROW(ws.run(graph::execution_step{}), value_error);
  BOOST_CHECK_THROW(ws.run(graph::execution_step{.net = "down"}), value_error);
  ws.feed("enough", vector<float>(2));
  BOOST_CHECK_THROW(ws.run(graph::execution_step{.net = "twice", .stop_when = "enough"}), value_error);
}

BOOST_AUTO_TEST_CASE(what_a_net_does_is_explained_and_drawn) {
  graph::net n("n");
  n.output("y", matmul(n.external("a", {dtype::float32, {"N", 8}}), n.external("b", {dtype::float32, {8, 8}})));
  graph::workspace ws;
  ws.feed("a", matrix<float>(4, 8));
  ws.feed("b", matrix<float>(8, 8));
  ws.create(n);
  BOOST_TEST(says(ws.explain("n"), "matmul"));
  BOOST_TEST(says(ws.explain("n"), "4x8"));
  BOOST_TEST(says(n.to_dot(), "digraph"));
  BOOST_TEST(says(n.to_json(), "\"matmul\""));
}

BOOST_AUTO_TEST_CASE(a_failed_run_changes_nothing) {
  graph::net n("n");
  auto table = n.external("table", {dtype::float32, {3, 2}});
  auto ids = n.external("ids", {dtype::int64, {1}});
  n.assign(table, table + embedding(table, ids));
  graph::workspace ws;
  ws.feed("table", matrix<float>{{1, 2}, {3, 4}, {5, 6}});
  ws.feed("ids", vector<std::int64_t>{7});
  ws.create(n);
  const auto before = ws.fetch_numbers<float>("table");
  BOOST_CHECK_THROW(ws.run("n"), value_error);
  BOOST_TEST(ws.fetch_numbers<float>("table") == before, boost::test_tools::per_element());
  ws.feed("ids", vector<std::int64_t>{0});
  ws.run("n");
  BOOST_TEST(ws.fetch_numbers<float>("table") == (numbers{2, 4, 4, 6, 6, 8}), boost::test_tools::per_element());
}

// The third of five runs fails: outputs are as after separate runs.
BOOST_AUTO_TEST_CASE(runs_before_a_failing_one_count) {
  graph::net n("n");
  n.output("y", gather(n.external("t", {dtype::float32, {2, 1}}), reshape(n.iterations(), shape{1}) - 1));
  graph::net reader("reader");
  reader.assign(reader.external("seen", {dtype::float32, {1, 1}}), reader.external("y", {dtype::float32, {1, 1}}) + 0);
  graph::workspace ws;
  ws.feed("t", matrix<float>{{10}, {20}});
  ws.create(n);
  BOOST_CHECK_THROW(ws.run("n", 5), value_error);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("n/iterations")[0] == 2);
  BOOST_TEST(ws.has("y"));
  BOOST_CHECK_THROW(ws.benchmark("n", 1, 0), value_error);
}

BOOST_AUTO_TEST_CASE(a_number_that_is_zero_does_not_stop_a_step) {
  const auto runs = [](double factor) {
    graph::net n("n");
    n.output("stop", cast<float>(n.iterations()) * factor);
    graph::workspace ws;
    ws.create(n);
    ws.run(graph::execution_step{.net = "n", .times = 10, .stop_when = "stop"});
    return ws.fetch_numbers<std::int64_t>("n/iterations")[0];
  };
  BOOST_TEST(runs(-0.0) == 10);
  BOOST_TEST(runs(1e-30) == 1);
  BOOST_TEST(runs(-2) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
