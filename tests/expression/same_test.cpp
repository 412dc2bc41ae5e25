// When two operands count as the same, the cost of the comparison, and the hash that agrees with it.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// Whether a and b are the same, checking symmetry and that the same operands have equal hashes.
template <class A, class B> bool alike(const A& a, const B& b) {
  BOOST_TEST(same(a, b) == same(b, a));
  if (same(a, b)) BOOST_TEST(structure_hash(a) == structure_hash(b));
  return same(a, b);
}

// Memory that crashes the program when it is read.
class unreadable {
 public:
  unreadable() : at_(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  unreadable(const unreadable&) = delete;
  unreadable& operator=(const unreadable&) = delete;
  ~unreadable() { munmap(at_, 4096); }
  matrix<float> as_matrix() const { return borrow(std::span(static_cast<float*>(at_), 1024), {32, 32}); }

 private:
  void* at_;
};

struct ones : operand_base {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  std::int64_t n = 1;
  lamina::shape shape() const { return {n}; }
  void read(view<float> out) const {
    for (auto& x : out) x = 1;
  }
  bool operator==(const ones& o) const { return n == o.n; }
};
struct nameless : operand_base {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {2}; }
  void read(view<float> out) const {
    for (auto& x : out) x = 1;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sameness)

BOOST_AUTO_TEST_CASE(copies_are_the_same_and_equal_elements_are_not) {
  matrix<float> a{{1, 2}, {3, 4}}, b{{1, 2}, {3, 4}};
  auto copy = a;
  BOOST_TEST(alike(a, copy));
  BOOST_TEST(!alike(a, b));
  copy.detach();
  BOOST_TEST(!alike(a, copy));
  BOOST_TEST(alike(a[1], a[1]));
  BOOST_TEST(!alike(a[0], a[1]));
  BOOST_TEST(!alike(a.rows(0, 1), a.rows(0, 2)));
  auto r = evaluate(a + b), again = r;
  BOOST_TEST(alike(r, again));
  BOOST_TEST(!alike(r, evaluate(a + b)));
}

BOOST_AUTO_TEST_CASE(other_types_are_never_the_same) {
  matrix<float> a(2, 2);
  tensor<float, extents<2, 2>> fixed(a.memory(), a.shape());
  BOOST_TEST(!same(a, fixed));
  BOOST_TEST(!same(a, zeros<float>(2, 2)));
  BOOST_TEST(!same(zeros<float>(2), filled(0.0, 2)));
  BOOST_TEST(!same(one_hot<float>(2, 0), filled(1.f, 2)));
  BOOST_TEST(!same(a + a, a * a));
  BOOST_TEST(!same(make_dynamic(a), a));
  BOOST_TEST(!same(var<"a">(a), var<"b">(a)));
  BOOST_TEST(!same(make_dynamic(a + a), make_dynamic(a * a)));
}

BOOST_AUTO_TEST_CASE(numbers_and_data_without_storage_by_value) {
  BOOST_TEST(alike(scalar<float>(2), scalar<float>(2)));
  BOOST_TEST(!alike(scalar<float>(2), scalar<float>(3)));
  BOOST_TEST(alike(scalar<float>(0.f), scalar<float>(-0.f)));
  BOOST_TEST(alike(zeros<float>(2, 3), zeros<float>(2, 3)));
  BOOST_TEST(!alike(zeros<float>(2, 3), zeros<float>(3, 2)));
  BOOST_TEST(alike(filled(2.f, 4), filled(2.f, 4)));
  BOOST_TEST(!alike(filled(2.f, 4), filled(3.f, 4)));
  BOOST_TEST(alike(filled(0.f, 4), filled(-0.f, 4)));
  BOOST_TEST(alike(one_hot<float>(5, 2, 3), one_hot<float>(5, 2, 3)));
  BOOST_TEST(!alike(one_hot<float>(5, 2, 3), one_hot<float>(5, 2, 4)));
  BOOST_TEST(!alike(one_hot<float>(5, 2, 3), one_hot<float>(5, 1, 3)));
  BOOST_TEST(!alike(one_hot<float>(5, 2, 3), one_hot<float>(6, 2, 3)));
  vector<float> x{1, 2};
  BOOST_TEST(alike(x + 1, x + 1));  // numbers compare by value
  BOOST_TEST(!alike(x + 1, x + 2));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(alike(x + nan, x + nan));
}

BOOST_AUTO_TEST_CASE(operations_by_attributes_and_operands) {
  matrix<float> a(2, 2), b(2, 2);
  BOOST_TEST(alike(a + b, a + b));  // built twice
  BOOST_TEST(!alike(a + b, b + a));
  BOOST_TEST(alike(tanh(matmul(a, b)) * 2 - a, tanh(matmul(a, b)) * 2 - a));
  BOOST_TEST(!alike(tanh(matmul(a, b)) * 2 - a, tanh(matmul(b, a)) * 2 - a));
  BOOST_TEST(!same(reduce_sum<axes(0)>(a), reduce_sum<axes(1)>(a)));
  BOOST_TEST(alike(softmax(a, {.axis = 0}), softmax(a, {.axis = 0})));
  BOOST_TEST(!alike(softmax(a, {.axis = 0}), softmax(a, {.axis = 1})));
  BOOST_TEST(alike(var<"a">(a) + b, var<"a">(a) + b));
  auto loss = [&](const matrix<float>& w) { return gradient<"w">(reduce_sum(matmul(a, var<"w">(w)))); };
  BOOST_TEST(alike(loss(b), loss(b)));
  BOOST_TEST(!alike(loss(b), loss(a)));
  auto y = a + b;
  auto before = y;
  evaluate(y);
  BOOST_TEST(alike(y, before));
  growable<float, 1> g(2);
  g.push(vector<float>{1, 2});
  auto h = g;
  BOOST_TEST(alike(g, h));
  h.push(vector<float>{3, 4});
  BOOST_TEST(!alike(g, h));
}

BOOST_AUTO_TEST_CASE(data_of_the_user_by_its_own_equality) {
  BOOST_TEST(same(ones{.n = 3}, ones{.n = 3}));
  BOOST_TEST(!same(ones{.n = 3}, ones{.n = 4}));
  BOOST_TEST(alike(ones{.n = 3} * 2, ones{.n = 3} * 2));
  BOOST_TEST(!alike(ones{.n = 3} * 2, ones{.n = 4} * 2));
  auto y = nameless() * 2, copy = y;  // without `==`: only copies are the same
  BOOST_TEST(alike(y, copy));
  BOOST_TEST(!alike(y, nameless() * 2));
}

BOOST_AUTO_TEST_CASE(through_dynamic) {
  vector<float> a{1, 2}, b{3, 4};
  BOOST_TEST(alike(dynamic<float, 1>(), dynamic<float, 1>()));
  BOOST_TEST(!alike(dynamic<float, 1>(), make_dynamic(a)));
  BOOST_TEST(alike(make_dynamic(a), make_dynamic(a)));
  BOOST_TEST(alike(make_dynamic(a + b), make_dynamic(a + b)));
  BOOST_TEST(!alike(make_dynamic(a + b), make_dynamic(a + a)));
  static_assert(std::same_as<decltype(make_dynamic(make_dynamic(a))), dynamic<float, 1>>);  // not nested
  auto d = make_dynamic(a);
  BOOST_TEST((make_dynamic(d).node() == d.node()));
  auto nested = [&](const vector<float>& last) { return make_dynamic(make_dynamic(a * 2) + make_dynamic(last)) * 3; };
  BOOST_TEST(alike(nested(b), nested(b)));
  BOOST_TEST(!alike(nested(b), nested(a)));
}

BOOST_AUTO_TEST_CASE(deep_and_shared_structures_cost_their_parts) {
  vector<float> a{1, 2};
  auto doubled = [&](int times) {  // 2^times leaves if each part were visited once per occurrence
    dynamic<float, 1> d = a;
    for (int i = 0; i < times; ++i) d = d + d;
    return d;
  };
  BOOST_TEST(alike(doubled(1000), doubled(1000)));
  BOOST_TEST(!alike(doubled(1000), doubled(1001)));
  auto chain = [&](float last) {  // recursion would overflow the call stack far earlier
    dynamic<float, 1> d = a * last;
    for (int i = 0; i < 100000; ++i) d = d + 1.f;
    return d;
  };
  BOOST_TEST(alike(chain(2), chain(2)));
  BOOST_TEST(!alike(chain(2), chain(3)));
}

BOOST_AUTO_TEST_CASE(no_element_is_read) {
  unreadable memory, other;
  auto a = memory.as_matrix(), b = other.as_matrix();
  BOOST_TEST(alike(a, memory.as_matrix()));
  BOOST_TEST(!alike(a, b));
  BOOST_TEST(alike(matmul(a, b) + a * 2, matmul(a, b) + a * 2));
  BOOST_TEST(!alike(matmul(a, b) + a * 2, matmul(a, b) + b * 2));
  BOOST_TEST(alike(make_dynamic(tanh(a) + b), make_dynamic(tanh(a) + b)));
  BOOST_TEST(alike(gradient<"a">(reduce_sum(var<"a">(a) * b)), gradient<"a">(reduce_sum(var<"a">(a) * b))));
}

BOOST_AUTO_TEST_CASE(values_of_a_program) {
  program p, q;
  value x = p.input("x", {dtype::float32, {2}}), y = q.input("x", {dtype::float32, {2}});
  BOOST_TEST(same(value(x + 1), value(x + 1)));
  BOOST_TEST(!same(value(x + 1), value(x + 2)));
  BOOST_TEST(!same(x, y));
}

BOOST_AUTO_TEST_SUITE_END()
