// Checks that this program tests the gradient of every operation in the sources; it runs after all other tests.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "graph.h"

#include "gradient_check.h"

#include "sources.h"

using namespace engine_test;

namespace {

using names = std::set<std::string, std::less<>>;

// Operations that give positions, conditions, shapes or random numbers pass no gradient.
const names without_gradient{"argmax",           "argmin",        "argsort",    "positions",      "reduce_all",
                             "arange",           "reduce_any",    "to_one_hot", "random_uniform", "random_normal",
                             "shape_of",         "stop_gradient", "argwhere",   "non_zero",       "non_max_suppression",
                             "cached_attention",  // inference only
                             "bit_cast",         "is_nan",        "is_inf",     "bit_and",        "bit_or",
                             "bit_xor",          "bit_not",       "shift_left", "shift_right"};
// Functions that apply an operation; not operations.
const names ways_to_apply{"apply", "apply_all", "apply_fixed"};
// The differentiable operand is a scalar.
const names of_one_number{"full"};
// The second derivative is 0, or undefined at jumps.
const names not_smooth = [] {
  names all{"l1_loss",     "prelu", "minimum",          "maximum",    "min",
            "max",         "clamp", "reduce_max",       "reduce_min", "max_pool2d",
            "max_windows", "celu",  "thresholded_relu", "shrink"};
  for (const auto& f : elementwise_functions::all)
    if (f.has_kinks()) all.insert(f.name);
  return all;
}();
// The derivative of a product by its elements is differentiated once: products are tested up to second order.
const names differentiated_once{"product_of_others"};

constexpr std::string_view unchecked = "any check of its gradient";

}  // namespace

BOOST_AUTO_TEST_SUITE(completeness)

BOOST_AUTO_TEST_CASE(every_operation_with_a_gradient) {
  const auto all = operations_with_gradient();
  BOOST_TEST(all.size() > 90u);
  for (const auto& name : all) {
    if (without_gradient.contains(name)) continue;
    const auto lacks = lacking(noted::operation, name,
                               {.second_order = !not_smooth.contains(name) && !differentiated_once.contains(name)});
    const bool enough = of_one_number.contains(name) ? lacks != unchecked : lacks.empty();
    BOOST_CHECK_MESSAGE(enough, "operation " << name << ": lacks " << lacks);
  }
}

BOOST_AUTO_TEST_CASE(every_spelling) {
  const auto operations = operations_with_gradient();
  const auto all = spellings();
  BOOST_TEST(all.size() > 90u);
  for (const auto& name : all) {
    if (without_gradient.contains(name) || ways_to_apply.contains(name)) continue;
    const auto lacks = lacking(noted::spelling, name, {.second_order = !not_smooth.contains(name)});
    const bool enough = of_one_number.contains(name) ? lacks != unchecked : lacks.empty();
    BOOST_CHECK_MESSAGE(enough, "function " << name << ": lacks " << lacks);
  }
}

BOOST_AUTO_TEST_CASE(what_is_left_out_exists) {
  names known = spellings();
  known.merge(operations_with_gradient());
  for (const auto* list : {&without_gradient, &ways_to_apply, &not_smooth, &differentiated_once, &of_one_number})
    for (const auto& name : *list) BOOST_CHECK_MESSAGE(known.contains(name), name);
}

BOOST_AUTO_TEST_CASE(what_was_not_checked_is_found) {
  BOOST_TEST(lacking(noted::operation, "no such operation", {}) == unchecked);
  for (int n : {1, 2, 3, 4})
    note(noted::spelling, "example",
         {array_of(lamina::dtype::float64, {n, 2}, std::vector<double>(static_cast<std::size_t>(2 * n)))}, 1);
  BOOST_TEST(lacking(noted::spelling, "example", {.second_order = false, .broadcast = true}) ==
             "1 shapes more, a shape of size 0, operands that broadcast");
  BOOST_TEST(lacking(noted::spelling, "example", {}).find("in second order 5 shapes more") != std::string::npos);
  note(noted::spelling, "example",
       {array_of(lamina::dtype::float64, {0}, {}), array_of(lamina::dtype::float64, {1}, {1})}, 1);
  BOOST_TEST(lacking(noted::spelling, "example", {.second_order = false, .broadcast = true}) == "");
}

BOOST_AUTO_TEST_SUITE_END()
