// An operation that is defined here: from both worlds, with its gradient, with cases of its own and cases added to it.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"
#include "numbers.h"

namespace user {

std::atomic<int> ran_small{0}, ran_even{0}, ran_general{0}, ran_typed{0}, tried{0};
void forget() { ran_small = ran_even = ran_general = ran_typed = tried = 0; }

struct cube_arguments { const double* in; double* out; std::int64_t count; std::atomic<int>* ran; };
void run_cube(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const cube_arguments*>(arguments);
  ++*a.ran;
  for (std::int64_t i = 0; i < a.count; ++i) a.out[i] = a.in[i] * a.in[i] * a.in[i];
}
void emit_cube(lamina::emission& e, std::atomic<int>& ran) {
  cube_arguments a{nullptr, nullptr, e.in_type(0).dims.size(), &ran};
  e.step(&run_cube, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
}

struct small {
  static constexpr std::string_view name = "small";
  static bool applies(const lamina::emission& e) { return ++tried, e.in_type(0).dims.size() <= 4; }
  static void emit(lamina::emission& e) { emit_cube(e, ran_small); }
};
struct even {
  static constexpr std::string_view name = "even";
  static bool applies(const lamina::emission& e) { return ++tried, e.in_type(0).dims.size() % 2 == 0; }
  static void emit(lamina::emission& e) { emit_cube(e, ran_even); }
};

struct cube_op {
  static constexpr std::string_view name = "cube";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  using cases = lamina::special_cases<small, even>;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    if (in[0].element != lamina::dtype::float64) out.refuse(in[0].element, "float64", "double");
    else out.result(in[0].element, in[0].dims);
  }
  static void gradient(lamina::gradient_call& c) { c(0, [&] { return c.gradient() * square(c(0)) * 3; }); }
  static void emit(lamina::emission& e) { emit_cube(e, ran_general); }
};
template <lamina::Symbolic X>
  requires lamina::Applicable<cube_op, X>
constexpr auto cube(const X& x) { return lamina::apply<cube_op>({}, x); }

// A family of operations under one name.
struct times_arguments { const double* in; double* out; std::int64_t count; };
template <int K>
struct times_op {
  static constexpr std::string_view name = "times";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  static void run(const void* arguments, void*) noexcept {
    const auto& a = *static_cast<const times_arguments*>(arguments);
    for (std::int64_t i = 0; i < a.count; ++i) a.out[i] = a.in[i] * K;
  }
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(lamina::emission& e) {
    times_arguments a{nullptr, nullptr, e.in_type(0).dims.size()};
    e.step(&run, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};
// And one under a name that an operation of the library has: of each column the first number.
struct reduce_sum_op : times_op<1> {
  static constexpr std::string_view name = "reduce_sum";
  static void run_first(const void* arguments, void*) noexcept {
    const auto& a = *static_cast<const times_arguments*>(arguments);
    for (std::int64_t i = 0; i < a.count; ++i) a.out[i] = a.in[i];
  }
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, lamina::shape{in[0].dims[1]});
  }
  static void emit(lamina::emission& e) {
    times_arguments a{nullptr, nullptr, e.in_type(0).dims.at(1)};
    e.step(&run_first, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};

// Nobody has said how it runs.
struct silent_op {
  static constexpr std::string_view name = "silent";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) { out.result(in[0].element, in[0].dims); }
};

// cube(-x) is -cube(x); cube(cube root) and the like would follow the same way.
lamina::value cube_of_negative(const lamina::special_call& c) {
  lamina::value x = c.through(0, "negate");
  return x.empty() ? lamina::value() : lamina::value(-cube(x));
}
lamina::value wrong_shape(const lamina::special_call& c) { return reduce_sum(c(0)); }

}  // namespace user

// Decided by types: the cube of a square is the square of a cube.
namespace lamina {
template <class A, class X>
struct typed_case<expression<user::cube_op, fixed_attributes<no_attributes{}>, expression<op::square, A, X>>> {
  template <class E>
  static auto rewrite(const E& e) {
    ++user::ran_typed;
    return square(user::cube(e.operands.template get<0>().operands.template get<0>()));
  }
};
}  // namespace lamina

using namespace lamina;
using namespace engine_test;

namespace {


bool has_line(const plan& p, std::string_view words) {
  for (const auto& l : p.lines())
    if (l.what == words) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(operations_of_the_user)

BOOST_AUTO_TEST_CASE(from_both_worlds) {
  vector<double> x{1, 2, 3};
  static_assert(std::same_as<decltype(evaluate(user::cube(x))), vector<double>>);
  BOOST_TEST(numbers(evaluate(user::cube(x) + 1)) == (list{2, 9, 28}), boost::test_tools::per_element());
  auto y = result_of({array_of(dtype::float64, {3}, {1, 2, 3})}, [](const auto& v) -> value { return user::cube(v[0]) + 1; });
  BOOST_TEST(y.values == (list{2, 9, 28}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(user::cube(make_dynamic(x)))) == (list{1, 8, 27}), boost::test_tools::per_element());
  BOOST_TEST((evaluate(user::cube(matrix<double>(0, 3))).shape() == shape{0, 3}));
  program p;
  BOOST_TEST(message_of([&] { user::cube(p.input("x", {dtype::float32, {2}})); }) ==
             "cube: takes float64, not float32; cast first, as in cast<double>(x): float32[2]");
}

BOOST_AUTO_TEST_CASE(its_gradient) {
  vector<double> x{1, 2, 3};
  auto loss = reduce_sum(user::cube(var<"x">(x)));
  BOOST_TEST(numbers(evaluate(gradient<"x">(loss))) == (list{3, 12, 27}), boost::test_tools::per_element());
  small_graph g;
  value v = g.input(array_of(dtype::float64, {2}, {1, 2}));
  value first = gradients(user::cube(v), {&v, 1})[0], second = gradients(first, {&v, 1})[0];
  g.output(second);
  BOOST_TEST(g.run()[0].values == (list{6, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(its_own_cases_in_their_order) {
  auto counts = [](std::int64_t n) {
    user::forget();
    small_graph g;
    g.output(user::cube(g.input(random_array(dtype::float64, {dim(n)}, 1))));
    g.run();
    return std::pair(list{double(user::ran_small), double(user::ran_even), double(user::ran_general), double(user::tried)}, g.plan);
  };
  auto [four, by_small] = counts(4);                 // both apply: the first is taken and the second not asked
  BOOST_TEST(four == (list{1, 0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(has_line(*by_small, "cube (small)"));
  auto [six, by_even] = counts(6);
  BOOST_TEST(six == (list{0, 1, 0, 2}), boost::test_tools::per_element());
  BOOST_TEST(has_line(*by_even, "cube (even)"));
  auto [seven, by_none] = counts(7);
  BOOST_TEST(seven == (list{0, 0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(has_line(*by_none, "cube"));
}

BOOST_AUTO_TEST_CASE(a_case_added_in_the_options_of_a_plan) {
  auto build = [](small_graph& g) {
    value x = g.input(array_of(dtype::float64, {3}, {1, 2, 3}));
    g.output(user::cube(-x));
    g.output(user::cube(x));
  };
  small_graph with, without;
  build(with), build(without);
  auto r = with.run({.cases = {{"cube", &user::cube_of_negative}}}), s = without.run();
  BOOST_TEST(with.plan->counters().cases == 1);
  BOOST_TEST(without.plan->counters().cases == 0);
  BOOST_TEST(with.plan->counters().common == 1);     // the cube of x then stands once
  BOOST_TEST(same_bits(r[0], s[0]));
  BOOST_TEST(same_bits(r[1], s[1]));
  small_graph wrong;
  build(wrong);
  BOOST_TEST(message_of([&] { wrong.run({.cases = {{"cube", &user::wrong_shape}}}); }) ==
             "cube: a special case gives float64[] for a call that is float64[3]");
}

BOOST_AUTO_TEST_CASE(a_case_added_to_a_context) {
  context where(1, target_isa()), other(1, target_isa());
  vector<double> x{1, 2, 3, 4, 5};
  auto f = [&](context& c) { return numbers(evaluate(user::cube(-x), c)); };
  const list wanted{-1, -8, -27, -64, -125};
  BOOST_TEST(f(where) == wanted, boost::test_tools::per_element());
  static int asked;
  asked = 0;
  add_case(where, {"cube", [](const special_call& c) { return ++asked, user::cube_of_negative(c); }});
  BOOST_TEST(f(where) == wanted, boost::test_tools::per_element());        // planned anew
  BOOST_TEST(asked == 1);
  BOOST_TEST(f(where) == wanted, boost::test_tools::per_element());        // and kept
  BOOST_TEST(asked == 1);
  BOOST_TEST(f(other) == wanted, boost::test_tools::per_element());
  BOOST_TEST(asked == 1);
  eval_plan p(where);
  p.add(user::cube(-x));
  p.run();
  BOOST_TEST(p.counters().cases == 1);
}

BOOST_AUTO_TEST_CASE(a_case_that_types_decide) {
  vector<double> x{1, 2, 3};
  user::forget();
  auto y = user::cube(square(x));
  BOOST_TEST(user::ran_typed == 1);
  static_assert(std::same_as<decltype(y)::operation, op::square>);
  BOOST_TEST(numbers(evaluate(y)) == (list{1, 64, 729}), boost::test_tools::per_element());
  auto z = user::cube(tanh(x));
  static_assert(std::same_as<decltype(z)::operation, user::cube_op>);
  BOOST_TEST(user::ran_typed == 1);
}

BOOST_AUTO_TEST_CASE(parts_of_an_expression) {
  vector<double> x{1, 2, 3};
  auto y = tanh(x) * 2.0;
  using parts = decltype(y.operands);
  static_assert(parts::size == 2 && std::same_as<decltype(y)::operation, op::multiply>);
  static_assert(std::same_as<std::remove_cvref_t<decltype(y.operands.get<0>())>, decltype(tanh(x))>);
  BOOST_TEST(numbers(evaluate(y.operands.get<0>() * 2.0)) == numbers(evaluate(y)), boost::test_tools::per_element());
  BOOST_TEST((y.shape() == shape{3}));
  auto z = softmax(matrix<double>(2, 3), {.axis = 0});
  BOOST_TEST(z.attributes.value.axis == 0);
}

BOOST_AUTO_TEST_CASE(operations_of_one_name_are_told_apart) {
  const vector<double> x{1, 2};
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST(numbers(evaluate(apply<user::times_op<2>>({}, x))) == (list{2, 4}), boost::test_tools::per_element());
    BOOST_TEST(numbers(evaluate(apply<user::times_op<3>>({}, x))) == (list{3, 6}), boost::test_tools::per_element());
    BOOST_TEST(numbers(evaluate(apply<user::times_op<2>>({}, x) * apply<user::times_op<3>>({}, x))) == (list{6, 24}), boost::test_tools::per_element());
  }
  program p, q;
  p.output("y", value(apply<user::times_op<2>>({}, p.input("x", {dtype::float64, {2}}))));
  q.output("y", value(apply<user::times_op<3>>({}, q.input("x", {dtype::float64, {2}}))));
  BOOST_TEST(!(p.id() == q.id()));
}

BOOST_AUTO_TEST_CASE(an_operation_under_a_name_of_the_library) {
  matrix<double> w{{1, 0}, {0, 1}};
  eval_plan plan;
  std::vector<matrix<double>> x;
  std::vector<handle<vector<double>>> first, sum;
  for (int i = 0; i < 3; ++i) x.push_back(matrix<double>{{i + 1.0, 2}, {3, 4}});
  for (const auto& one : x) {
    first.push_back(plan.add(apply<user::reduce_sum_op>({}, matmul(one, w))));
    sum.push_back(plan.add(reduce_sum<axes(0)>(matmul(one, w))));
  }
  plan.run();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto n = static_cast<double>(i) + 1;
    BOOST_TEST(numbers(first[i].value()) == (list{n, 2}), boost::test_tools::per_element());
    BOOST_TEST(numbers(sum[i].value()) == (list{n + 3, 6}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_operation_that_cannot_be_run) {
  vector<double> x{1, 2, 3};
  auto y = apply<user::silent_op>({}, x);
  BOOST_TEST((y.shape() == shape{3}));
  BOOST_TEST(message_of([&] { evaluate(y); }) == "silent: this operation cannot be run");
  BOOST_CHECK_THROW(evaluate(gradient<"x">(reduce_sum(apply<user::silent_op>({}, var<"x">(x))))), error);
}

BOOST_AUTO_TEST_SUITE_END()
