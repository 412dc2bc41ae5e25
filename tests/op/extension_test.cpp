// A user-defined operation: in both evaluation modes, with its gradient, with its own cases and cases added to it.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"
#include "numbers.h"

namespace user {

std::atomic<int> ran_small{0}, ran_even{0}, ran_general{0}, ran_typed{0}, tried{0};
void forget() { ran_small = ran_even = ran_general = ran_typed = tried = 0; }

struct cube_arguments {
  const double* in;
  double* out;
  std::int64_t count;
  std::atomic<int>* ran;
};
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
  static void gradient(lamina::gradient_call& c) {
    c(0, [&] { return c.gradient() * square(c(0)) * 3; });
  }
  static void emit(lamina::emission& e) { emit_cube(e, ran_general); }
};
template <lamina::Symbolic X> requires lamina::Applicable<cube_op, X> constexpr auto cube(const X& x) {
  return lamina::apply<cube_op>({}, x);
}

// A family of operations under one name.
struct times_arguments {
  const double* in;
  double* out;
  std::int64_t count;
};
template <int K> struct times_op {
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
// An operation with the name of a library operation: the first number of each column.
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

// Row sums without and, below, with a declaration that rows are independent.
struct row_sums_op {
  static constexpr std::string_view name = "row_sums";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  static void run(const void* arguments, void*) noexcept {
    const auto& a = *static_cast<const times_arguments*>(arguments);
    a.out[0] = a.in[0];
    for (std::int64_t i = 1; i < a.count; ++i) a.out[i] = a.in[i] + (i % 3 ? a.out[i - 1] : 0);
  }
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(lamina::emission& e) {
    times_arguments a{nullptr, nullptr, e.in_type(0).dims.size()};
    e.step(&run, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};
struct independent_row_sums_op : row_sums_op {
  static void map_axis(const attributes&, lamina::axis_map& m) { m.independent = m.before(-1); }
};
// A product by a weight with its own kernel, for which merging is worth copies, and an elementwise sum.
struct scaled_op {
  static constexpr std::string_view name = "scaled";
  static constexpr int operands = 2;
  using attributes = lamina::no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void map_axis(const attributes&, lamina::axis_map& m) {
    m.share(1);
    m.independent = m.worth_copies = true;
  }
  static void emit(lamina::emission& e) {
    struct arguments {
      const double *in, *by;
      double* out;
      std::int64_t count;
    } a{nullptr, nullptr, nullptr, e.in_type(0).dims.size()};
    e.step(
        [](const void* p, void*) noexcept {
          const auto& c = *static_cast<const arguments*>(p);
          for (std::int64_t i = 0; i < c.count; ++i) c.out[i] = c.in[i] * *c.by;
        },
        a, {{&a.in, e.in(0)}, {&a.by, e.in(1)}, {&a.out, e.out(0)}});
  }
};

// An operation without a kernel.
struct silent_op {
  static constexpr std::string_view name = "silent";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};

// Definitions with one mistake each.
struct definition {
  static constexpr std::string_view name = "wrong";
  static constexpr int operands = 1;
  using attributes = lamina::no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(lamina::emission& e) { emit_cube(e, ran_general); }
};
struct no_result_op : definition {
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type>, lamina::inference&) {}
};
template <int Count> struct many_results_op : definition {
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    for (int i = 0; i < Count; ++i) out.result(in[0].element, in[0].dims);
  }
};
struct fewer_results_op : definition {
  static constexpr int results = 2;
};
template <int Rank, int Element> struct no_type_op : definition {
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type>, lamina::inference& out) {
    lamina::shape s;
    s.rank = Rank;
    out.result(static_cast<lamina::dtype>(Element), s);
  }
};
struct larger_view_op : definition {
  static constexpr int alias = 0;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, {1000});
  }
};
struct view_of_nothing_op : definition {
  static constexpr int alias = 3;
};
struct foreign_field_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general}, other = a;
    e.step(&run_cube, a, {{&a.in, e.in(0)}, {&other.out, e.out(0)}});
  }
};
struct no_buffer_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general};
    e.step(&run_cube, a, {{&a.in, e.in(0)}, {&a.out, {}}});
  }
};
struct no_step_op : definition {
  static void emit(lamina::emission&) {}
};
struct no_result_step_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general};
    e.step(&run_cube, a, {{&a.in, e.in(0)}});
  }
};
struct no_function_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general};
    e.step(nullptr, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};
template <bool Result> struct too_far_op : definition {
  static void emit(lamina::emission& e) {
    if (Result) e.out(1);
    else e.in(4);
  }
};
// Gradients of the identity with an axis more, fewer, of another length, of another type, or of another program.
enum class gives { scalar, transposed, tiled, element, elsewhere };
template <gives What> struct bad_gradient_op : definition {
  static void gradient(lamina::gradient_call& c) {
    c(0, [&]() -> lamina::ir::value {
      if constexpr (What == gives::scalar) return reduce_sum(c.gradient());
      else if constexpr (What == gives::transposed) return lamina::permute(c.gradient(), {1, 0});
      else if constexpr (What == gives::tiled) return lamina::tile(c.gradient(), {64, 1});
      else if constexpr (What == gives::element) return lamina::cast<float>(c.gradient());
      else {
        static lamina::ir::program other;
        return other.number(1.0, lamina::dtype::float64);
      }
    });
  }
};

// Gradient rules that request operands and results that do not exist.
enum class asks { operand, result, gradient, setting };
template <asks For> struct asking_gradient_op : definition {
  static void gradient(lamina::gradient_call& c) {
    c(For == asks::setting ? 5 : 0, [&]() -> lamina::ir::value {
      if constexpr (For == asks::operand) return c(3);
      else if constexpr (For == asks::result) return c.result(3);
      else return c.gradient(For == asks::gradient ? 3 : 0);
    });
  }
};
// Traits with invalid values.
template <int Axis, std::int64_t First, std::int64_t Count> struct part_op : definition {
  static std::optional<lamina::axis_view> part_of(const attributes&, const lamina::shape&) {
    return lamina::axis_view{Axis, First, Count};
  }
};
struct channels_op : definition {
  static constexpr int operands = 2;
  static lamina::channel_axes channels(const attributes&, const lamina::shape&, const lamina::shape&) {
    return {9, -4};
  }
};
struct bounds_op : definition {
  static std::optional<lamina::value_bounds> bounds(lamina::view<const std::optional<double>>) {
    return lamina::value_bounds{0, std::numeric_limits<double>::quiet_NaN()};
  }
};
struct images_op : definition {
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type>, lamina::inference& out) {
    out.result(lamina::dtype::float32, {1, 1, 2, 3});
  }
  static lamina::image_layouts images(const lamina::image_call&) { return {true, true}; }
};
enum class maps { shares, broadcasts, fewer, axis };
template <maps How> struct mapped_op : definition {
  static void map_axis(const attributes&, lamina::axis_map& m) {
    m.independent = m.worth_copies = true;
    if constexpr (How == maps::shares) m.share(12);
    else if constexpr (How == maps::broadcasts) m.broadcast(7);
    else if constexpr (How == maps::fewer) m.operands.clear();
    else m.results[0] = 9;
  }
};
// Its result cannot be its own operand, although the traits say so.
template <bool Twice> struct larger_op : definition {
  static constexpr bool involution = Twice;
  static constexpr auto identity = Twice ? lamina::identity_rule::never : lamina::identity_rule::always;
  static constexpr bool adds = true;
  static constexpr void infer(const attributes&, lamina::view<const lamina::tensor_type> in, lamina::inference& out) {
    out.result(in[0].element, {in[0].dims.size() * 2});
  }
};
template <std::int64_t Bytes> struct far_address_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general};
    e.step(&run_cube, a, {{&a.in, e.in(0)}, {&a.out, e.out(0).at(Bytes)}});
  }
};
template <std::int32_t Node, std::int32_t Result> struct foreign_value_op : definition {
  static void emit(lamina::emission& e) { e.operand({Node, Result}); }
};
struct foreign_pack_op : definition {
  static void emit(lamina::emission& e) {
    e.packed({7, 0}, 1, 8, [](auto, auto) {}, false);
  }
};
template <bool Scratch> struct much_memory_op : definition {
  static void emit(lamina::emission& e) {
    cube_arguments a{nullptr, nullptr, 1, &ran_general};
    if (!Scratch) e.temporary(~std::size_t(0));
    e.step(&run_cube, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}}, ~std::size_t(0));
  }
};

// cube(-x) is -cube(x); cube(cube root) and the like would be written the same way.
lamina::ir::value cube_of_negative(const lamina::special_call& c) {
  lamina::ir::value x = c.through(0, "negate");
  return x.empty() ? lamina::ir::value() : lamina::ir::value(-cube(x));
}
lamina::ir::value wrong_shape(const lamina::special_call& c) { return reduce_sum(c(0)); }

}  // namespace user

// A special case chosen by types: the cube of a square is the square of a cube.
namespace lamina {
template <class A, class X>
struct typed_case<expression<user::cube_op, fixed_attributes<no_attributes{}>, expression<op::square, A, X>>> {
  template <class E> static auto rewrite(const E& e) {
    ++user::ran_typed;
    return square(user::cube(e.operands.template get<0>().operands.template get<0>()));
  }
};
}  // namespace lamina

using namespace lamina;
using namespace lamina::ir;
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
  auto y = result_of({array_of(dtype::float64, {3}, {1, 2, 3})},
                     [](const auto& v) -> value { return user::cube(v[0]) + 1; });
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
    return std::pair(
        list{double(user::ran_small), double(user::ran_even), double(user::ran_general), double(user::tried)}, g.plan);
  };
  auto [four, by_small] = counts(4);  // both apply: the first is taken and the second is not tried
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
  BOOST_TEST(with.plan->counters().common == 1);  // the cube of x occurs once afterwards
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
  BOOST_TEST(f(where) == wanted, boost::test_tools::per_element());  // planned again
  BOOST_TEST(asked == 1);
  BOOST_TEST(f(where) == wanted, boost::test_tools::per_element());  // cached
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
    BOOST_TEST(numbers(evaluate(apply<user::times_op<2>>({}, x) * apply<user::times_op<3>>({}, x))) == (list{6, 24}),
               boost::test_tools::per_element());
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

// Samples with different numbers of rows; returns the number of operations merged away.
template <class F> std::int64_t merged_samples(F f) {
  eval_plan plan;
  std::vector<matrix<double>> x{{{1, 2, 3}}, {{4, 5, 6}, {7, 8, 9}}, {{0, 1, 0}}};
  std::vector<handle<matrix<double>>> results;
  for (const auto& one : x) results.push_back(plan.add(f(one)));
  plan.run();
  for (std::size_t i = 0; i < x.size(); ++i)
    BOOST_TEST(numbers(results[i].value()) == numbers(evaluate(f(x[i]))), boost::test_tools::per_element());
  return plan.counters().merged;
}
BOOST_AUTO_TEST_CASE(operations_that_merge_by_their_axis_maps) {
  matrix<double> w{{1, 0, 2}, {0, 1, 1}, {3, 1, 0}}, factor{{2}};
  BOOST_TEST(merged_samples([&](const auto& x) { return apply<user::row_sums_op>({}, matmul(x, w)); }) == 2);
  BOOST_TEST(merged_samples([&](const auto& x) { return apply<user::independent_row_sums_op>({}, matmul(x, w)); }) ==
             2 * 2);
  BOOST_TEST(merged_samples([&](const auto& x) { return apply<user::independent_row_sums_op>({}, x); }) ==
             0);  // not worth the copies
  BOOST_TEST(merged_samples([&](const auto& x) { return apply<user::scaled_op>({}, x, factor); }) == 2);
  BOOST_TEST(merged_samples([&](const auto& x) { return tanh(apply<user::scaled_op>({}, x, factor)); }) == 2 * 2);
}

BOOST_AUTO_TEST_CASE(an_operation_that_cannot_be_run) {
  vector<double> x{1, 2, 3};
  auto y = apply<user::silent_op>({}, x);
  BOOST_TEST((y.shape() == shape{3}));
  BOOST_TEST(message_of([&] { evaluate(y); }) == "silent: this operation cannot be run");
}

namespace {
template <class Op> std::string wrong(const shape& s = {2, 3}) {
  return message_of([&] {
    program p;
    p.output("y", value(apply_all<Op>({}, std::vector<value>{p.input("x", {dtype::float64, s})})));
    const shape shapes[] = {s};
    make_plan(p, shapes, target_isa());
  });
}
// With typed operands, whose extents become known when a plan is made.
template <class Op> std::string wrong_gradient_typed(std::int64_t rows, std::int64_t columns) {
  matrix<double> x(rows, columns);
  return message_of([&] { evaluate(gradient<"x">(reduce_sum(apply<Op>({}, var<"x">(x)) * 2))); });
}
template <class Op> std::string wrong_gradient(const shape& s) {
  return message_of([&] {
    program p;
    const value x = p.input("x", {dtype::float64, s});
    gradients(reduce_sum(value(apply<Op>({}, x))), {&x, 1});
  });
}
// Between a product and a sum; either may fuse with it.
template <class Op> std::string wrong_behind() {
  return message_of([&] {
    program p;
    const value x = p.input("x", {dtype::float64, {2, 3}}), w = p.input("w", {dtype::float64, {3, 3}});
    const std::vector<value> in(static_cast<std::size_t>(Op::operands), matmul(x, w));
    p.output("y", value(apply_all<Op>({}, in)) + 1);
    const shape shapes[] = {{2, 3}, {3, 3}};
    make_plan(p, shapes, target_isa());
  });
}
template <class Op> std::string wrong_samples() {
  matrix<double> w(2, 2), x(1, 2), y(2, 2);
  return message_of([&] {
    eval_plan samples;
    samples.add(apply<Op>({}, matmul(x, w)));
    samples.add(apply<Op>({}, matmul(y, w)));
    samples.run();
  });
}
}  // namespace

BOOST_AUTO_TEST_CASE(what_a_rule_gives) {
  using namespace user;
  BOOST_TEST(wrong<definition>() == "");
  BOOST_TEST(wrong<no_result_op>() == "wrong: its `infer` gives 0 results and no reason; 1 result is expected: [2x3]");
  BOOST_TEST(wrong<many_results_op<4>>() ==
             "wrong: its `infer` gives 4 results and no reason; 1 result is expected: [2x3]");
  BOOST_TEST(wrong<many_results_op<50>>() ==
             "wrong: its `infer` gives 50 results and no reason; 1 result is expected: [2x3]");
  program p;
  BOOST_TEST(message_of([&] { apply<fewer_results_op>({}, p.input("x", {dtype::float64, {2}})); }) ==
             "wrong: its `infer` gives 1 result and no reason; 2 results are expected: [2]");
  for (const auto& message : {wrong<no_type_op<9, 0>>(), wrong<no_type_op<-1, 0>>(), wrong<no_type_op<1, 99>>(),
                              wrong<no_type_op<1, dtype_count>>()})
    BOOST_TEST(message.starts_with("wrong: its `infer` gives result 0 the rank "), message);
  BOOST_TEST(wrong<larger_view_op>() == "wrong: a view of operand 0 cannot be float64[1000]: [2x3]");
  BOOST_TEST(wrong<view_of_nothing_op>() == "wrong: it is a view of operand 3; the number of operands is 1: [2x3]");
}

BOOST_AUTO_TEST_CASE(what_an_emit_gives) {
  using namespace user;
  BOOST_TEST(wrong<foreign_field_op>() ==
             "wrong: its `emit` gives a step an address for a field that is not one of its arguments");
  BOOST_TEST(wrong<no_buffer_op>() == "wrong: its `emit` gives a step an address in no buffer");
  BOOST_TEST(wrong<no_function_op>() == "wrong: its `emit` gives a step without a function");
  BOOST_TEST(wrong<no_step_op>() == "wrong: its `emit` adds no step that writes result 0");
  BOOST_TEST(wrong<no_result_step_op>() == "wrong: its `emit` adds no step that writes result 0");
  BOOST_TEST(wrong<too_far_op<true>>() == "wrong: its `emit` asks for result 1 of 1");
  BOOST_TEST(wrong<too_far_op<false>>() == "wrong: its `emit` asks for operand 4 of 1");
  const std::string outside = "wrong: its `emit` gives a step an address outside of its buffer";
  BOOST_TEST(wrong<far_address_op<-8>>() == outside);
  BOOST_TEST(wrong<far_address_op<(1 << 28)>>() == outside);
  BOOST_TEST(wrong<far_address_op<40>>() == "");
  BOOST_TEST((wrong<foreign_value_op<7, 0>>() == "wrong: its `emit` asks for node 7 of 2"));
  BOOST_TEST((wrong<foreign_value_op<-1, 0>>().starts_with("wrong: its `emit` asks for node ")));
  BOOST_TEST((wrong<foreign_value_op<0, 2>>() == "wrong: its `emit` asks for result 2 of 1"));
  BOOST_TEST(wrong<foreign_pack_op>() == "wrong: its `emit` asks for node 7 of 2");
  const std::string much = "wrong: its `emit` asks for 18446744073709551615 bytes";
  BOOST_TEST(wrong<much_memory_op<false>>() == much);
  BOOST_TEST(wrong<much_memory_op<true>>() == much);
}

// Traits of a definition that passes read.
BOOST_AUTO_TEST_CASE(what_traits_give) {
  using namespace user;
  BOOST_TEST((wrong<part_op<0, 0, 2>>() == ""));
  BOOST_TEST(
      (wrong<part_op<0, -100000, 2>>() == "wrong: its `part_of` gives 2 positions from -100000 of axis 0 of [2x3]"));
  BOOST_TEST((wrong<part_op<0, 1, 2>>() == "wrong: its `part_of` gives 2 positions from 1 of axis 0 of [2x3]"));
  BOOST_TEST((wrong<part_op<7, 0, 1>>() == "wrong: its `part_of` gives 1 positions from 0 of axis 7 of [2x3]"));
  BOOST_TEST((wrong<part_op<0, 1, 1>>() == ""));  // smaller than the result: no view
  BOOST_TEST(wrong_behind<bounds_op>() == "");    // NaN is no bound
  BOOST_TEST(wrong_behind<channels_op>() == "wrong: its `channels` gives the axes 9 of [2x3] and -4 of [2x3]");
  BOOST_TEST(wrong<images_op>() ==
             "wrong: its `images` gives channel blocks for float64[2x3] to float32[1x1x2x3], which "
             "are for float32 and int8 of four axes");
  BOOST_TEST(wrong_samples<mapped_op<maps::shares>>() == "wrong: its `map_axis` asks for operand 12 of 1");
  BOOST_TEST(wrong_samples<mapped_op<maps::broadcasts>>() == "wrong: its `map_axis` asks for operand 7 of 1");
  BOOST_TEST(wrong_samples<mapped_op<maps::fewer>>() == "wrong: its `map_axis` gives 0 operands of 1");
  BOOST_TEST(
      wrong_samples<mapped_op<maps::axis>>().starts_with("wrong: its `map_axis` gives result 0 the axis 9 of ["));
  program p;  // results of other types are not removed
  const value x = p.input("x", {dtype::float64, {2, 3}});
  p.output("y", value(apply<larger_op<true>>({}, apply<larger_op<true>>({}, x))));
  p.output("z", value(apply<larger_op<false>>({}, x)));
  const shape extents[] = {{2, 3}};
  BOOST_TEST(make_plan(p, extents, target_isa())->lines().size() == 3u);
}

BOOST_AUTO_TEST_CASE(what_a_gradient_gives) {
  using namespace user;
  using enum gives;
  BOOST_TEST(wrong_gradient<bad_gradient_op<scalar>>({2, 3}) ==
             "wrong: its gradient for operand 0 is float64[]; expected the type of the operand, float64[2x3]");
  BOOST_TEST(wrong_gradient<bad_gradient_op<transposed>>({2, 3}) ==
             "wrong: its gradient for operand 0 is float64[3x2]; expected the type of the operand, float64[2x3]");
  BOOST_TEST(wrong_gradient<bad_gradient_op<transposed>>({3, 3}) == "");
  BOOST_TEST(wrong_gradient<bad_gradient_op<tiled>>({2, 3}) ==
             "wrong: its gradient for operand 0 is float64[128x3]; expected the type of the operand, float64[2x3]");
  BOOST_TEST(wrong_gradient<bad_gradient_op<element>>({2, 3}) ==
             "wrong: its gradient for operand 0 is float32[2x3]; expected the type of the operand, float64[2x3]");
  BOOST_TEST(wrong_gradient<bad_gradient_op<elsewhere>>({}) ==
             "wrong: its gradient for operand 0 is a value of another program");
  BOOST_TEST(wrong_gradient<asking_gradient_op<asks::operand>>({2}) == "wrong: its `gradient` asks for operand 3 of 1");
  BOOST_TEST(wrong_gradient<asking_gradient_op<asks::result>>({2}) == "wrong: its `gradient` asks for result 3 of 1");
  BOOST_TEST(wrong_gradient<asking_gradient_op<asks::gradient>>({2}) == "wrong: its `gradient` asks for result 3 of 1");
  BOOST_TEST(wrong_gradient<asking_gradient_op<asks::setting>>({2}) == "wrong: its `gradient` asks for operand 5 of 1");
  BOOST_TEST(wrong_gradient<bad_gradient_op<transposed>>({dyn, dyn}) == "");  // extents are not known yet
  for (std::int64_t n : {2, 300}) {
    BOOST_TEST(wrong_gradient_typed<bad_gradient_op<tiled>>(n, 300).starts_with(
        "gradient of wrong for operand 0: gradient_like: a gradient must have the element type and shape of its "
        "operand: ["));
    BOOST_TEST(wrong_gradient_typed<bad_gradient_op<transposed>>(n, 4).starts_with(
        "gradient of wrong for operand 0: gradient_like: "));
    BOOST_TEST(wrong_gradient_typed<bad_gradient_op<transposed>>(n, n) == "");
  }
}

BOOST_AUTO_TEST_SUITE_END()
