// Parameters: initial values, diagnostics, copies, versions and packed forms.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

struct moments {
  double mean, variance, low, high;
};
moments moments_of(const array& a) {
  moments m{0, 0, a.values[0], a.values[0]};
  for (double v : a.values) {
    m.mean += v / static_cast<double>(a.values.size());
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  for (double v : a.values) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(a.values.size());
  return m;
}
array made(const initializer& how, std::int64_t seed = 1, dtype element = dtype::float32, const char* name = "w",
           const shape& s = {1000, 100}) {
  parameter_store store;
  return from_tensor(store.make(name, {element, s}, how, seed, state_role::parameter).value());
}
void uniform(const initializer& how, double limit) {
  for (auto element : {dtype::float32, dtype::float64}) {
    auto m = moments_of(made(how, 3, element));
    BOOST_TEST(std::abs(m.mean) < 0.01 * limit);
    BOOST_TEST(m.variance == limit * limit / 3, boost::test_tools::tolerance(0.015));
    BOOST_TEST(m.low >= -limit);
    BOOST_TEST(m.high <= limit);
    BOOST_TEST(m.high > 0.999 * limit);
  }
}
void normal(const initializer& how, double deviation) {
  for (auto element : {dtype::float32, dtype::float64}) {
    array a = made(how, 3, element);
    auto m = moments_of(a);
    BOOST_TEST(std::abs(m.mean) < 0.015 * deviation);
    BOOST_TEST(m.variance == deviation * deviation, boost::test_tools::tolerance(0.02));
    auto within = std::count_if(a.values.begin(), a.values.end(), [&](double v) { return std::abs(v) < deviation; });
    BOOST_TEST(static_cast<double>(within) / static_cast<double>(a.values.size()) == 0.6827,
               boost::test_tools::tolerance(0.01));
    BOOST_TEST(m.high > 3.5 * deviation);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parameters)

BOOST_AUTO_TEST_CASE(moments_of_initializers) {
  uniform(initializer::uniform(-0.5, 0.5), 0.5);
  uniform(initializer::kaiming_uniform(64), 1 / std::sqrt(64.0));
  uniform(initializer::kaiming_uniform(64, std::sqrt(2.0)), std::sqrt(6.0 / 64));
  uniform(initializer::xavier_uniform(30, 70), std::sqrt(6.0 / 100));
  normal(initializer::normal(0, 2), 2);
  normal(initializer::kaiming_normal(50), std::sqrt(2.0 / 50));
  normal(initializer::xavier_normal(30, 70), std::sqrt(2.0 / 100));
  auto shifted = moments_of(made(initializer::uniform(1, 3)));
  BOOST_TEST(shifted.mean == 2, boost::test_tools::tolerance(0.01));
  for (double v : made(initializer::constant(0.25)).values) BOOST_REQUIRE_EQUAL(v, 0.25);
}

BOOST_AUTO_TEST_CASE(every_shape_and_type) {
  for (const auto& s : {shape{}, shape{1}, shape{0}, shape{2, 3, 4, 5, 2}})
    for (auto element : {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16, dtype::int64}) {
      array a = made(initializer::constant(3), 1, element, "w", s);
      BOOST_TEST((a.type == tensor_type{element, s}));
      for (double v : a.values) BOOST_TEST(v == 3);
    }
}

BOOST_AUTO_TEST_CASE(bits_depend_on_seed_and_name_alone) {
  auto how = initializer::normal(0, 1);
  BOOST_TEST(same_bits(made(how, 5), made(how, 5)));
  BOOST_TEST(!same_bits(made(how, 5), made(how, 6)));
  BOOST_TEST(!same_bits(made(how, 5), made(how, 5, dtype::float32, "v")));
  parameter_store store;
  store.make("before", {dtype::float32, {77}}, how, 5, state_role::parameter);
  auto& w = store.make("w", {dtype::float32, {1000, 100}}, how, 5, state_role::parameter);
  BOOST_TEST(same_bits(from_tensor(w.value()), made(how, 5)));
  auto first = made(how, 5).values, second = made(how, 5, dtype::float32, "v").values;
  double dot = 0;
  for (std::size_t i = 0; i < first.size(); ++i) dot += first[i] * second[i];
  BOOST_TEST(std::abs(dot / static_cast<double>(first.size())) < 0.015);  // numbers of two names are uncorrelated
}

BOOST_AUTO_TEST_CASE(misuse_is_diagnosed) {
  parameter_store store;
  auto& w = store.add("w", to_tensor(random_array(dtype::float32, {2}, 1)), state_role::parameter);
  BOOST_TEST(message_of([&] { store.add("w", any_tensor(tensor_type{dtype::float32, {2}}), state_role::parameter); }) ==
             "parameter `w` exists already");
  BOOST_TEST(message_of([&] { store.make("v", {dtype::float32, {dyn, 2}}, {}, 1, state_role::parameter); }) ==
             "parameter `v` has a shape that is not known: [?x2]");
  BOOST_TEST(message_of([&] { w.assign(any_tensor(tensor_type{dtype::float32, {3}})); }) ==
             "parameter `w` is float32[2]; got float32[3]");
  BOOST_CHECK_THROW(w.assign(any_tensor(tensor_type{dtype::float64, {2}})), type_error);
  BOOST_TEST(store.size() == 1u);
  BOOST_TEST(store.find("v") == nullptr);
  BOOST_TEST(store.index("v") == parameter_store::none);
}

BOOST_AUTO_TEST_CASE(copies_are_deep) {
  parameter_store store;
  store.add("w", to_tensor(array_of(dtype::float32, {2}, {1, 2})), state_role::optimizer, false);
  parameter_store copy = store;
  copy[0].assign(to_tensor(array_of(dtype::float32, {2}, {8, 9})));
  BOOST_TEST(from_tensor(store[0].value()).values[0] == 1);
  BOOST_TEST(from_tensor(copy[0].value()).values[0] == 8);
  BOOST_TEST((copy[0].role() == state_role::optimizer));
  BOOST_TEST(!copy[0].trainable());
  BOOST_TEST(copy.bytes() == 8u);
  BOOST_TEST(copy[0].version() > store[0].version());
  copy = store;
  BOOST_TEST(from_tensor(copy[0].value()).values[0] == 1);
}

BOOST_AUTO_TEST_CASE(packed_forms_are_shared_and_follow_assignments) {
  small_graph g;
  value x = g.input(random_array(dtype::float32, {3, 20}, 1)),
        w = g.state("w", random_array(dtype::float32, {20, 40}, 2));
  g.output(matmul(x, w));
  auto want = g.run()[0];
  BOOST_REQUIRE(g.plan->packs().size() == 1u);
  auto format = g.plan->packs()[0].format;
  auto& form = g.store[0].packed(format);
  BOOST_TEST(form.version == g.store[0].version());
  const void* memory = form.memory.data();
  g.data[0] = random_array(dtype::float32, {3, 20}, 9);
  g.run();
  BOOST_TEST(g.store[0].packed(format).memory.data() == memory);  // one packed form for all executors and batch sizes
  g.data[0] = random_array(dtype::float32, {1, 20}, 9);
  small_graph h;
  value y = h.input(random_array(dtype::float32, {7, 20}, 1)), v = h.p.state("w", {dtype::float32, {20, 40}});
  h.output(matmul(y, v));
  executor other(h.make(), &g.store);
  BOOST_TEST(g.store[0].packed(format).memory.data() == memory);
  g.data[0] = random_array(dtype::float32, {3, 20}, 1);
  g.store[0].assign(to_tensor(random_array(dtype::float32, {20, 40}, 3)));
  auto changed = g.run()[0];
  BOOST_TEST(!same_bits(changed, want));
  BOOST_TEST(form.version == g.store[0].version());
  g.store[0].assign(to_tensor(random_array(dtype::float32, {20, 40}, 2)));
  BOOST_TEST(same_bits(g.run()[0], want));
}

BOOST_AUTO_TEST_CASE(training_does_not_pack) {
  small_graph g;
  value x = g.input(random_array(dtype::float32, {3, 4}, 1)), w = g.state("w", random_array(dtype::float32, {4, 4}, 2));
  g.output(matmul(x, w));
  g.p.assign(w, w * 0.5);
  BOOST_TEST(g.make()->packs().empty());
}

BOOST_AUTO_TEST_SUITE_END()
