// Sessions: inputs in order and by name, new or given results, their own states, and rejected uses.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// difference = left - right; positive = the elements of left above 0, if `counts`.
std::shared_ptr<program> difference(bool counts = false) {
  auto p = std::make_shared<program>();
  const value left = p->input("left", {dtype::float32, {"N"}}), right = p->input("right", {dtype::float32, {"N"}});
  p->output("difference", left - right);
  if (counts) p->output("positive", masked_select(left, left > 0));
  return p;
}
any_tensor numbers(std::vector<float> v) {
  any_tensor t({dtype::float32, {static_cast<std::int64_t>(v.size())}});
  std::copy(v.begin(), v.end(), reinterpret_cast<float*>(t.mutable_data()));
  return t;
}
std::vector<float> of(const any_tensor& t) {
  const auto all = t.elements<float>();
  return {all.begin(), all.end()};
}
using floats = std::vector<float>;

}  // namespace

BOOST_AUTO_TEST_SUITE(sessions)

BOOST_AUTO_TEST_CASE(inputs_are_given_in_order_or_by_name) {
  for (const bool counts : {false, true}) {
    session s(difference(counts));
    BOOST_TEST(s.in_segments() == counts);
    const any_tensor left = numbers({1, -2, 3}), right = numbers({1, 1, 1});
    const auto made = s.run(std::vector{left, right});
    BOOST_TEST((of(made[0]) == floats{0, -3, 2}));
    const std::vector<named_tensor> named{{"right", left}, {"left", right}};
    const auto turned = s.run(named);
    BOOST_REQUIRE(turned.size() == made.size());
    BOOST_TEST(turned[0].name == "difference");
    BOOST_TEST((of(turned[0].value) == floats{0, 3, -2}));
    if (!counts) continue;
    BOOST_TEST((of(made[1]) == floats{1, 3}));
    BOOST_TEST(turned[1].name == "positive");
    BOOST_TEST((of(turned[1].value) == floats{1, 1, 1}));
  }
}

BOOST_AUTO_TEST_CASE(results_keep_memory_that_fits_and_is_theirs_alone) {
  session s(difference());
  std::vector<any_tensor> results;
  const std::vector long_ones{numbers({1, 2, 3}), numbers({3, 2, 1})}, short_ones{numbers({5}), numbers({2})};
  s.run(long_ones, results);
  const auto* first = results[0].data();
  s.run(long_ones, results);
  BOOST_TEST(results[0].data() == first);
  const any_tensor held = results[0];  // a result with another holder stays unchanged
  const std::vector others{numbers({0, 0, 0}), numbers({1, 1, 1})};
  s.run(others, results);
  BOOST_TEST(results[0].data() != first);
  BOOST_TEST((of(held) == floats{-2, 0, 2}));
  BOOST_TEST((of(results[0]) == floats{-1, -1, -1}));
  s.run(short_ones, results);
  BOOST_TEST((of(results[0]) == floats{3}));
}

BOOST_AUTO_TEST_CASE(wrong_inputs_are_named) {
  for (const bool counts : {false, true}) {
    session s(difference(counts));
    const any_tensor x = numbers({1, 2}), whole({dtype::int64, {2}});
    const auto by_order = [&](std::vector<any_tensor> in) { return message_of([&] { (void)s.run(in); }); };
    const auto by_name = [&](std::vector<named_tensor> in) { return message_of([&] { (void)s.run(in); }); };
    BOOST_TEST(by_order({x}) == "the program has 2 inputs; got 1");
    BOOST_TEST(by_order({x, whole}) == "input `right` is float32[N]; got int64[2]");
    BOOST_TEST(by_order({x, numbers({1})}) == "input `right`: dimension `N` is 1 here and 2 in another input");
    BOOST_TEST(by_name({{"left", x}}) == "input `right` (float32[N]) is not given");
    BOOST_TEST(by_name({{"left", x}, {"left", x}}) == "input `left` is given twice");
    BOOST_TEST(by_name({{"left", x}, {"rihgt", x}}).starts_with("the program has no input `rihgt`; there are `left`"));
    BOOST_CHECK_THROW(s.run(std::vector{x, whole}), type_error);
    BOOST_CHECK_THROW(s.run(std::vector{x, numbers({1})}), shape_error);
    BOOST_CHECK_THROW(s.run(std::vector{x}), value_error);
  }
}

BOOST_AUTO_TEST_CASE(an_error_of_extents_is_explained_where_somebody_can) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N", "M"}});
  p->output("y", matmul(x, p->constant(any_tensor({dtype::float32, {3, 2}}))));
  session s(p);
  std::vector<shape> asked;
  s.on_mismatch([&](view<const shape> inputs) { asked.assign(inputs.begin(), inputs.end()); });
  BOOST_CHECK_THROW(s.run(std::vector{any_tensor({dtype::float32, {4, 5}})}), shape_error);
  BOOST_REQUIRE(asked.size() == 1u);
  BOOST_TEST((asked[0] == shape{4, 5}));
  s.on_mismatch([](view<const shape>) { throw state_error("the layer says so"); });
  BOOST_TEST(message_of([&] { (void)s.run(std::vector{any_tensor({dtype::float32, {4, 5}})}); }) ==
             "the layer says so");
  (void)s.run(std::vector{any_tensor({dtype::float32, {4, 3}})});
}

BOOST_AUTO_TEST_CASE(states_that_are_given_away_are_freed_where_they_are_packed) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N", 512}});
  p->output("y", matmul(x, p->state("w", {dtype::float32, {512, 512}})));
  const auto states = [] {
    parameter_store all;
    all.make("w", {dtype::float32, {512, 512}}, initializer::normal(0, 1), 3, state_role::parameter);
    return all;
  };
  any_tensor in({dtype::float32, {4, 512}});
  fill(in, initializer::normal(0, 1), 5, "x");
  parameter_store kept = states();
  const auto expected = session(p, {&kept, nullptr}).run(std::vector{in});
  const auto before = memory::counters().current;
  auto s = session::owning(p, states());
  const auto y = s.run(std::vector{in});
  constexpr std::int64_t weights = 512 * 512 * 4;
  BOOST_TEST(memory::counters().current - before < weights * 3 / 2);
  BOOST_TEST((of(y[0]) == of(expected[0])));
  auto moved = std::move(s);
  BOOST_TEST((of(moved.run(std::vector{in})[0]) == of(expected[0])));
  // Other extents, whose plan packs differently or reads the elements.
  any_tensor row({dtype::float32, {1, 512}});
  std::copy_n(in.data(), row.bytes(), row.mutable_data());
  BOOST_TEST((of(moved.run(std::vector{row})[0]) == of(session(p, {&kept, nullptr}).run(std::vector{row})[0])));
}

BOOST_AUTO_TEST_CASE(a_run_tells_of_outputs_as_they_are_finished) {
  const tensor_type square{dtype::float32, {8, 8}};
  program p;
  const value w = p.input("w", square);
  value power = w;
  for (int i = 0; i < 4; ++i) p.output("power", power = matmul(power, w));
  const shape extents[] = {square.dims};
  std::vector<float> of_w(64);
  for (std::size_t i = 0; i < of_w.size(); ++i) of_w[i] = static_cast<float>(i % 5) / 4 - 0.5F;
  for (const int threads : {1, 2}) {
    context where(threads, target_isa());
    executor e(make_plan(p, extents, target_isa()), nullptr, threads > 1 ? &where.pool() : nullptr);
    e.bind_input(0, of_w.data());
    for (int round = 0; round < 2; ++round) {
      std::vector<floats> out(4, floats(64, -1)), then(4);
      std::vector<std::size_t> told;
      for (std::size_t i = 0; i < 4; ++i) e.bind_output(i, out[i].data());
      e.run_reporting([&](std::size_t i) {
        told.push_back(i);
        then[i] = out[i];
        // The product after it has already read it.
        for (std::size_t later = i + 2; later < 4; ++later) BOOST_TEST((out[later] == floats(64, -1)));
      });
      BOOST_TEST((told == std::vector<std::size_t>{0, 1, 2, 3}));
      BOOST_TEST((then == out));
      BOOST_CHECK_THROW(e.run_reporting([](std::size_t) { throw std::runtime_error("refused"); }), std::runtime_error);
    }
  }
  executor unbound(make_plan(p, extents, target_isa()), nullptr);
  BOOST_CHECK_THROW(unbound.run_reporting([](std::size_t) {}), state_error);
}

BOOST_AUTO_TEST_SUITE_END()
