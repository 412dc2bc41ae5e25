// Nets made from nets: copies, parts, chained nets, and shapes before a run.
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
using names = std::vector<std::string>;

// y = relu(x w) and loss = sum y; w is updated by its gradient; the number of the run is recorded.
graph::net small_net() {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {"N"}}), w = n.external("w", {dtype::float32, {1}});
  auto y = n.output("y", relu(x * w));
  auto g = n.add_gradient_operators({n.output("loss", reduce_sum(y))});
  n.assign(w, w - 0.5 * g[w]);
  n.output("run", n.iterations());
  return n;
}
void feed(graph::workspace& ws, const std::string& suffix = "") {
  ws.feed("x" + suffix, vector<float>{1, 2, -3});
  ws.feed("w" + suffix, vector<float>{2});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(copies)

BOOST_AUTO_TEST_CASE(a_clone_does_the_same_under_other_names) {
  const auto n = small_net();
  const auto c = n.clone("c", {{"x", "x2"}, {"w", "w2"}, {"y", "y2"}});
  BOOST_TEST(c.name() == "c");
  BOOST_TEST(c.external_inputs() == (names{"x2", "w2"}), boost::test_tools::per_element());
  BOOST_TEST(c.operations().size() == n.operations().size());
  BOOST_TEST(c.has("w_grad"));
  graph::workspace ws;
  feed(ws);
  feed(ws, "2");
  ws.create(n);
  ws.create(c);
  ws.run("n", 2);
  ws.run("c", 2);
  BOOST_TEST(ws.fetch_numbers<float>("w2") == ws.fetch_numbers<float>("w"), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] == -1);  // 2, 0.5, -1
  BOOST_TEST(ws.fetch_numbers<float>("y2") == (numbers{0.5f, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("c/iterations")[0] == 2);
  BOOST_TEST(says(message_of([&] { n.clone("d", {{"z", "zz"}}); }), "there is no blob `z`"));
}

BOOST_AUTO_TEST_CASE(a_clone_is_on_its_own) {
  auto n = small_net();
  auto c = n.clone("c");
  c.output("more", c["y"] + 1);
  BOOST_TEST(!n.has("more"));
  BOOST_CHECK_THROW(c.output("wrong", n["y"]), state_error);
}

BOOST_AUTO_TEST_CASE(a_part_is_what_its_outputs_need) {
  const auto n = small_net();
  const auto p = n.clone_partial("p", {"x"}, {"y"}, {{"x", "data"}});
  names operations;
  for (const auto& o : p.operations()) operations.emplace_back(o.name);
  BOOST_TEST(operations == (names{"multiply", "relu"}), boost::test_tools::per_element());
  BOOST_TEST(p.external_inputs() == (names{"data", "w"}), boost::test_tools::per_element());
  BOOST_TEST(p.external_outputs() == names{"y"}, boost::test_tools::per_element());
  graph::workspace ws;
  feed(ws);
  ws.feed("data", vector<float>{3});
  ws.run_once(p);
  BOOST_TEST(ws.fetch_numbers<float>("y")[0] == 6);
  BOOST_TEST(ws.fetch_numbers<float>("w")[0] == 2);  // nothing is assigned
}

BOOST_AUTO_TEST_CASE(a_part_begins_in_the_middle) {
  const auto n = small_net();
  const auto p = n.clone_partial("p", {"y"}, {"loss"});
  BOOST_TEST(p.external_inputs() == names{"y"}, boost::test_tools::per_element());
  BOOST_TEST(p.operations().size() == 1u);
  BOOST_CHECK_THROW(n.clone_partial("p", {"nothing"}, {"loss"}), value_error);
  BOOST_CHECK_THROW(n.clone_partial("p", {"x"}, {"nothing"}), value_error);
}

BOOST_AUTO_TEST_CASE(an_input_is_not_two_versions_of_a_blob) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {2}}), b = n.external("b", {dtype::float32, {2}});
  n.output("before", x * b);
  n.assign(b, b + x);
  n.output("after", n["b"] * x);
  BOOST_TEST(says(message_of([&] { n.clone_partial("p", {"x", "b"}, {"before"}); }),
                  "clone_partial: blob `b` is an input in its newest version, but the outputs need an earlier one"));
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.feed("b", vector<float>{3, 4});
  ws.run_once(n.clone_partial("p", {"x", "b"}, {"after"}));
  BOOST_TEST(ws.fetch_numbers<float>("after")[1] == 8);
}

BOOST_AUTO_TEST_CASE(a_part_takes_the_states_that_it_reads) {
  const auto n = small_net();
  const auto p = n.clone_partial("p", {}, {"run"});
  graph::workspace ws;
  ws.create(p);
  ws.run("p", 3);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("run")[0] == 3);
  BOOST_TEST(ws.fetch_numbers<std::int64_t>("p/iterations")[0] == 3);
}

BOOST_AUTO_TEST_CASE(a_net_is_added_behind_another) {
  graph::net head("head"), tail("tail");
  head.output("h", head.external("x", {dtype::float32, {2}}) * 2);
  auto h = tail.external("h", {dtype::float32, {2}});
  tail.output("y", h + tail.external("b", {dtype::float32, {2}}));
  head.append(tail, {{"b", "bias"}});
  BOOST_TEST(head.external_inputs() == (names{"x", "bias"}), boost::test_tools::per_element());
  graph::workspace ws;
  ws.feed("x", vector<float>{1, 2});
  ws.feed("bias", vector<float>{10, 20});
  ws.run_once(head);
  BOOST_TEST(ws.fetch_numbers<float>("y") == (numbers{12, 24}), boost::test_tools::per_element());
  graph::net other("other");
  other.external("h", {dtype::float32, {3}});
  BOOST_TEST(says(message_of([&] { head.append(other); }), "blob `h` is float32[2] and net `other` takes float32[3]"));
  BOOST_CHECK_THROW(head.append(head), state_error);
}

BOOST_AUTO_TEST_CASE(a_blob_of_both_gets_another_version) {
  graph::net a("a"), b("b");
  a.output("y", a.external("x", {dtype::float32, {1}}) + 1);
  b.output("y", b.external("x", {dtype::float32, {1}}) * 10);
  a.append(b);
  graph::workspace ws;
  ws.feed("x", vector<float>{3});
  ws.run_once(a);
  BOOST_TEST(ws.fetch_numbers<float>("y")[0] == 30);
}

BOOST_AUTO_TEST_CASE(draws_go_on_in_copies) {
  graph::net a("a", {.seed = 5});
  a.fill<op::uniform>("u", {3});
  const auto c = a.clone("c");
  graph::workspace one, two;
  one.run_once(a);
  two.run_once(c);
  BOOST_TEST(one.fetch_numbers<float>("u") == two.fetch_numbers<float>("u"), boost::test_tools::per_element());
}

// A copy with the net's own name has its fills, too; random operations added to it draw other numbers.
BOOST_AUTO_TEST_CASE(fills_of_a_copy_are_no_others) {
  graph::net n("n");
  n.fill<op::gaussian>("a", {3});
  graph::net copies[] = {n.clone("n"), n.clone_partial("n", {}, {"a"}), n.clone("c")};
  n.fill<op::gaussian>("b", {3});
  graph::workspace ws;
  ws.run_once(n);
  const auto a = ws.fetch_numbers<float>("a"), b = ws.fetch_numbers<float>("b");
  for (auto& c : copies) {
    c.fill<op::gaussian>("b", {3});
    graph::workspace other;
    other.run_once(c);
    BOOST_TEST(other.fetch_numbers<float>("a") == a, boost::test_tools::per_element());
    BOOST_TEST(other.fetch_numbers<float>("b")[0] != a[0]);
    if (c.name() == "n") BOOST_TEST(other.fetch_numbers<float>("b") == b, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(two_blobs_do_not_get_one_name) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {2}}), y = n.external("y", {dtype::float32, {2}});
  n.output("d", x - y);
  n.output("e", x + y);
  const auto refused = [](auto call, const std::string& expected) {
    BOOST_CHECK_THROW(call(), state_error);
    const auto message = message_of(call);
    BOOST_TEST(says(message, "copy_test.cpp:"));
    BOOST_TEST(says(message, expected));
  };
  refused([&] { n.clone("c", {{"x", "y"}}); }, "net `n`: clone: `x` and `y` would both be `y`");
  refused([&] { n.clone("c", {{"d", "e"}}); }, "clone: `d` and `e` would both be `e`");
  refused([&] { n.clone("c", {{"d", "x"}}); }, "clone: `d` and `x` would both be `x`");
  refused([&] { n.clone_partial("c", {"x", "y"}, {"d"}, {{"x", "y"}}); },
          "clone_partial: `x` and `y` would both be `y`");
  graph::net other("other");
  refused([&] { other.append(n, {{"x", "z"}, {"y", "z"}}); }, "append: `x` and `y` would both be `z`");
  BOOST_TEST(!other.has("z"));

  graph::workspace ws;  // two swapped names, and the name of a blob outside the part
  ws.feed("x", vector<float>{10, 20});
  ws.feed("y", vector<float>{1, 2});
  ws.run_once(n.clone("c", {{"x", "y"}, {"y", "x"}}));
  BOOST_TEST(ws.fetch_numbers<float>("d") == (numbers{-9, -18}), boost::test_tools::per_element());
  ws.run_once(n.clone_partial("c", {"x", "y"}, {"d"}, {{"d", "e"}}));
  BOOST_TEST(ws.fetch_numbers<float>("e") == (numbers{9, 18}), boost::test_tools::per_element());
  BOOST_TEST(n.clone_partial("c", {"x", "x", "y"}, {"d", "d"}).external_inputs() == (names{"x", "y"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_is_a_blob_of_a_part) {
  graph::net n("n");
  auto w = n.external("w", {dtype::float32, {2}});
  auto s = n.output("s", square(w));
  n.add_gradient_operators({reduce_sum(s)});
  n.output("step", 0.5 * n["w_grad"]);
  graph::workspace ws;
  ws.feed("w", vector<float>{3, -4});
  const auto part = n.clone_partial("c", {"w"}, {"w_grad"});
  BOOST_TEST(part.external_outputs() == names{"w_grad"}, boost::test_tools::per_element());
  ws.run_once(part);
  BOOST_TEST(ws.fetch_numbers<float>("w_grad") == (numbers{6, -8}), boost::test_tools::per_element());
  ws.run_once(n.clone_partial("c", {"w"}, {"w_grad"}, {{"w_grad", "slope"}}));
  BOOST_TEST(ws.fetch_numbers<float>("slope") == (numbers{6, -8}), boost::test_tools::per_element());
  ws.feed("w_grad", vector<float>{1, 2});
  ws.run_once(n.clone_partial("c", {"w_grad"}, {"step"}));
  BOOST_TEST(ws.fetch_numbers<float>("step") == (numbers{0.5f, 1}), boost::test_tools::per_element());

  const auto whole = n.clone("c", {{"w", "w2"}, {"w_grad", "w2_grad"}});
  BOOST_TEST(whole.has("w2_grad"));
  BOOST_TEST(!whole.has("w_grad"));
  BOOST_TEST(n.clone("c", {{"w", "w2"}}).has("w_grad"));
  BOOST_TEST(says(message_of([&] { n.clone("c", {{"w", "w_grad"}}); }), "`w` and `w_grad` would both be `w_grad`"));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(inference_before_a_run)

BOOST_AUTO_TEST_CASE(types_of_all_values) {
  graph::net n("n");
  auto x = n.external("x", {dtype::float32, {"N", 784}}), w = n.external("w", {dtype::float32, {10, 784}}),
       b = n.external("b", {dtype::float32, {10}});
  n.output("class", argmax(linear(x, w, b)));
  auto free = n.infer({});
  BOOST_TEST((free.at("n/matmul") == tensor_type{dtype::float32, {"N", 10}}));
  auto known = n.infer({{"x", {64, 784}}});
  BOOST_TEST((known.at("n/matmul") == tensor_type{dtype::float32, {64, 10}}));
  BOOST_TEST((known.at("class") == tensor_type{dtype::int64, {64}}));
  BOOST_TEST(says(message_of([&] { n.infer({{"x", {64, 783}}}); }), "infer: blob `x` is [Nx784]; got [64x783]"));
  BOOST_TEST(says(message_of([&] { n.infer({{"y", {1}}}); }), "there is no blob `y`"));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_name_operation_and_place) {
  graph::net n("n");
  n.output("sum", n.external("x", {dtype::float32, {dyn, 3}}) + n.external("y", {dtype::float32, {dyn, 3}}));
  const auto message = message_of([&] { n.infer({{"x", {2, 3}}, {"y", {5, 3}}}); });
  BOOST_TEST(says(message, "copy_test.cpp:"));
  BOOST_TEST(says(message, "add: the shapes do not broadcast: [2x3] [5x3]"));
  graph::net named("named");
  named.output("sum", named.external("x", {dtype::float32, {"N"}}) + named.external("y", {dtype::float32, {"N"}}));
  BOOST_TEST(says(message_of([&] { named.infer({{"x", {2}}, {"y", {5}}}); }),
                  "dimension `N` is not the same in all blobs; `y` gets [5]"));
}

BOOST_AUTO_TEST_SUITE_END()
