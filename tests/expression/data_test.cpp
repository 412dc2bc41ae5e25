// User-defined data types: operands like any other, read once.
module;
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

module lamina;

#include "graph.h"
#include "numbers.h"

namespace user {

// A matrix with one number on its diagonal that counts its reads. None of the library's names is in scope here.
struct diagonal : lamina::operand_base {
  using evaluation_mode = lamina::lazy;
  using element_type = float;
  using extents_type = lamina::extents<lamina::dyn, lamina::dyn>;
  std::int64_t n = 0;
  float number = 0;
  std::atomic<int>* reads = nullptr;

  diagonal(std::int64_t rows, float v, std::atomic<int>* counter = nullptr) : n(rows), number(v), reads(counter) {}
  lamina::shape shape() const { return {n, n}; }
  void read(lamina::view<float> out) const {
    if (reads) ++*reads;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i % static_cast<std::size_t>(n + 1) == 0 ? number : 0;
  }
  bool operator==(const diagonal& o) const { return n == o.n && number == o.number; }
};

// The same without equality and with a static shape.
struct ramp : lamina::operand_base {
  using evaluation_mode = lamina::lazy;
  using element_type = double;
  using extents_type = lamina::extents<4>;
  std::shared_ptr<int> reads = std::make_shared<int>(0);
  lamina::shape shape() const { return {4}; }
};

// A third-party type with its elements in memory.
struct samples : lamina::operand_base {
  using evaluation_mode = lamina::lazy;
  using element_type = float;
  using extents_type = lamina::extents<lamina::dyn>;
  std::shared_ptr<std::vector<float>> kept;
  lamina::shape shape() const { return {static_cast<std::int64_t>(kept->size())}; }
};

// A shape that does not fit the extents.
struct liar : lamina::operand_base {
  using evaluation_mode = lamina::lazy;
  using element_type = float;
  using extents_type = lamina::extents<3>;
  lamina::shape shape() const { return {5}; }
  void read(lamina::view<float>) const {}
};

inline auto twice_plus(const diagonal& d, const diagonal& e) { return d * 2.f + e; }

}  // namespace user

namespace lamina {
template <> struct data_traits<user::ramp> {
  static void read(const user::ramp& r, view<double> out) {
    ++*r.reads;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(i);
  }
};
template <> struct data_traits<user::samples> {
  static const float* data(const user::samples& s) { return s.kept->data(); }
};
}  // namespace lamina

using namespace lamina;
using namespace engine_test;

namespace {}  // namespace

BOOST_AUTO_TEST_SUITE(data_of_the_user)

BOOST_AUTO_TEST_CASE(an_operand_in_every_operation) {
  user::diagonal d(3, 2);
  matrix<float> m{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  BOOST_TEST(numbers(evaluate(d)) == (list{2, 0, 0, 0, 2, 0, 0, 0, 2}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(d + m)) == (list{3, 2, 3, 4, 7, 6, 7, 8, 11}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(m - d)) == (list{-1, 2, 3, 4, 3, 6, 7, 8, 7}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(matmul(d, m))) == (list{2, 4, 6, 8, 10, 12, 14, 16, 18}),
             boost::test_tools::per_element());
  BOOST_TEST(item(reduce_sum(d * 2 + 1)) == 21);
  BOOST_TEST(numbers(evaluate(user::twice_plus(d, d))) == (list{6, 0, 0, 0, 6, 0, 0, 0, 6}),
             boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(concat<0>(d, m))).size() == 18u);
  BOOST_TEST(numbers(evaluate(transpose(d))) == numbers(evaluate(d)), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(argmax<1>(d))) == (list{0, 1, 2}), boost::test_tools::per_element());
  auto [s, t] = evaluate(reduce_sum(d), d);
  BOOST_TEST(s() == 6);
  BOOST_TEST(t(2, 2) == 2);
  matrix<float> out(3, 3);
  evaluate_into(out, d);
  BOOST_TEST(out(1, 1) == 2);
  eval_plan p;
  auto h = p.add(d), k = p.add(d * d);
  p.run();
  BOOST_TEST(h.value()(0, 0) == 2);
  BOOST_TEST(k.value()(0, 0) == 4);
  dynamic<float, 2> any = d;
  BOOST_TEST((any.try_cast<user::diagonal>() != nullptr));
  BOOST_TEST((any.try_cast<user::diagonal>()->number == 2));
  BOOST_TEST((any.try_cast<matrix<float>>() == nullptr));
  BOOST_TEST(evaluate(any + 1)(0, 0) == 3);
}

BOOST_AUTO_TEST_CASE(beside_a_variable_with_its_gradient) {
  user::diagonal d(2, 3);
  matrix<float> w{{1, 2}, {3, 4}};
  auto loss = reduce_sum(matmul(d, var<"w">(w)) * 2);
  BOOST_TEST(numbers(evaluate(gradient<"w">(loss))) == (list{6, 6, 6, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(read_once_and_only_when_evaluated) {
  std::atomic<int> reads{0};
  user::diagonal d(2, 1, &reads);
  auto y = d * 2 + 1;
  BOOST_TEST((y.shape() == shape{2, 2}));
  BOOST_TEST(reads == 0);
  auto copy = y;
  evaluate(y);
  evaluate(y);
  evaluate(copy * 3);
  BOOST_TEST(reads == 1);
  reads = 0;
  evaluate(d * d + matmul(d, d));  // equal operands are merged
  BOOST_TEST(reads == 1);
  reads = 0;
  dynamic<float, 2> e = d * d, f = e + d;
  evaluate(f * e);
  BOOST_TEST(reads == 1);
  evaluate(f);
  BOOST_TEST(reads == 1);
}

BOOST_AUTO_TEST_CASE(equal_data_is_one_operand) {
  user::diagonal d(2, 3);
  eval_plan p;
  std::atomic<int> reads{0};
  d.reads = &reads;
  auto a = p.add(exp(d)), b = p.add(exp(d) + 1);
  BOOST_TEST(reads == 0);
  p.run();
  BOOST_TEST(reads == 1);
  BOOST_TEST(p.counters().nodes == 4);  // d, exp, the number, add: exp occurs once
  BOOST_TEST(a.value()(0, 1) == 1);
  BOOST_TEST(b.value()(0, 1) == 2);
  user::diagonal other(2, 4);
  BOOST_TEST(evaluate(d * other)(0, 0) == 12);
  BOOST_TEST(evaluate(d * d)(0, 0) == 9);
  BOOST_TEST(evaluate(other * d)(0, 0) == 12);
}

BOOST_AUTO_TEST_CASE(a_traits_point_for_types_of_others) {
  user::ramp r;
  auto y = r * 2.0;
  static_assert(std::same_as<decltype(evaluate(y)), tensor<double, extents<4>>>);
  BOOST_TEST(numbers(evaluate(y)) == (list{0, 2, 4, 6}), boost::test_tools::per_element());
  evaluate(y);
  BOOST_TEST(*r.reads == 1);

  user::samples s;
  s.kept = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  evaluate(s + 1);
  auto before = memory::counters().allocations;
  {
    auto z = evaluate(s + 1);
    BOOST_TEST(z(2) == 4);
  }
  BOOST_TEST(memory::counters().allocations == before + 1);  // read in place
}

BOOST_AUTO_TEST_CASE(a_shape_beside_its_extents_is_told) {
  BOOST_TEST(message_of([] { evaluate(user::liar() + 1); }) == "tensor: shape [5] does not fit the extents [3]");
  BOOST_TEST(message_of([] { evaluate(user::diagonal(3, 1) + vector<float>(2)); }) ==
             "add: the shapes do not broadcast: [3x3] [2]");
}

BOOST_AUTO_TEST_CASE(what_is_no_operand) {
  struct nothing {};
  struct no_shape {
    using evaluation_mode = lazy;
    using element_type = float;
    using extents_type = extents<dyn>;
  };
  static_assert(UserOperand<user::diagonal> && UserOperand<user::ramp> && UserOperand<user::samples>);
  static_assert(!UserData<nothing> && UserData<no_shape> && !UserOperand<no_shape>);
  static_assert(!UserData<vector<float>> && !Evaluable<no_shape> && Evaluable<user::diagonal>);
  static_assert(data_check<no_shape>::message().view().find("`lamina::shape shape() const`") != std::string_view::npos);
}

BOOST_AUTO_TEST_SUITE_END()
