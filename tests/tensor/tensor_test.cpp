// Tensors: all mixes of static and run-time extents, nested lists, sharing, views, and error messages.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;

using namespace lamina;

namespace {

struct says {
  std::string_view words;
  bool operator()(const error& e) const {
    BOOST_TEST_MESSAGE(e.what());
    return std::string_view(e.what()).find(words) != std::string_view::npos;
  }
};

static_assert(std::convertible_to<matrix<float, 3, 4>, matrix<float>>);
static_assert(std::convertible_to<matrix<float>, matrix<float, dyn, 4>>);
static_assert(!std::convertible_to<matrix<float, 3, 4>, matrix<float, 3, 5>>);
static_assert(!std::convertible_to<matrix<float>, vector<float>>);
// Reading gives a number, even from a mutable tensor; the result of reading cannot be assigned to.
static_assert(std::same_as<decltype(std::declval<vector<float>&>()(0)), float>);
static_assert(std::same_as<decltype(std::declval<const vector<float>&>()(0)), float>);
template <class T>
concept AssignsToWhatItReads = requires(vector<T>& t, T x) { t(0) = x; };
static_assert(!AssignsToWhatItReads<float> && !AssignsToWhatItReads<float16> && !AssignsToWhatItReads<bfloat16>);
template <class T>
concept AssignsToARow = requires(T& t, vector<float> row) { t[0] = row; };
static_assert(!AssignsToARow<matrix<float>>);  // it would change a temporary
static_assert(std::is_nothrow_move_constructible_v<matrix<float>> && std::is_nothrow_move_assignable_v<matrix<float>>);
static_assert(std::movable<matrix<float>> && std::copyable<matrix<float>>);
static_assert(!std::convertible_to<matrix<float>, matrix<double>>);
static_assert(std::same_as<tensor_of_rank<float, 2>, matrix<float>>);

}  // namespace

BOOST_AUTO_TEST_SUITE(tensors)

BOOST_AUTO_TEST_CASE(extents_come_from_type_and_arguments) {
  BOOST_CHECK((tensor<float, extents<2, 3>>().shape() == shape{2, 3}));
  BOOST_CHECK((tensor<float, extents<dyn, 784>>(32).shape() == shape{32, 784}));
  BOOST_CHECK((tensor<float, extents<dyn, 784>>(32, 784).shape() == shape{32, 784}));
  BOOST_CHECK((tensor<float, extents<"N", 1, dyn, 28>>(5, 7).shape() == shape{5, 1, 7, 28}));
  BOOST_CHECK((tensor<float, extents<"N", dyn>>(shape{3, 4}).shape() == shape{3, 4}));
  BOOST_CHECK((tensor<float, extents<dyn, 784>>().shape() == shape{0, 784}));
  BOOST_CHECK_EQUAL((tensor<float, extents<dyn, 784>>().size()), 0);
  BOOST_CHECK((scalar<float>(2.5f).shape() == shape{}));
  BOOST_CHECK_EQUAL(scalar<float>().size(), 1);
  BOOST_CHECK_EQUAL(matrix<float>(4, 5).extent(1), 5);
}

BOOST_AUTO_TEST_CASE(new_tensors_are_zero_and_aligned) {
  matrix<double> m(5, 7);
  BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(m.data().data()) % 64, 0u);
  for (double x : m.data()) BOOST_CHECK_EQUAL(x, 0);
  tensor<std::int8_t, extents<3>> t;
  for (int x : t.data()) BOOST_CHECK_EQUAL(x, 0);
}

BOOST_AUTO_TEST_CASE(extents_that_do_not_fit_are_told) {
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, 784>>(32, 783)), shape_error,
                        says{"tensor: shape [32x783] does not fit the extents [?x784]"});
  BOOST_CHECK_EXCEPTION((tensor<float, extents<"N", 3>>(shape{4})), shape_error,
                        says{"tensor: shape [4] does not fit the extents [Nx3]"});
  BOOST_CHECK_EXCEPTION(matrix<float>(2, -3), shape_error, says{"tensor: extent 1 is -3; expected 0 or more"});
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, 784>>(-1)), shape_error,
                        says{"tensor: extent 0 is -1; expected 0 or more"});
  BOOST_CHECK_EXCEPTION(matrix<float>(shape{2, dyn}), shape_error, says{"tensor: extent 1 of [2x?] is not a number"});
  BOOST_CHECK_EXCEPTION((matrix<float>::uninitialized(shape{2, 3, 4})), shape_error,
                        says{"shape [2x3x4] does not fit the extents [?x?]"});
  matrix<float> m(2, 3);
  BOOST_CHECK_EXCEPTION((matrix<float, dyn, 4>(m)), shape_error,
                        says{"tensor: shape [2x3] does not fit the extents [?x4]"});
}

BOOST_AUTO_TEST_CASE(one_name_is_one_number) {
  using square = tensor<float, extents<"N", "N">>;
  BOOST_CHECK((square(3, 3).shape() == shape{3, 3}));
  BOOST_CHECK_EXCEPTION(square(2, 5), shape_error, says{"tensor: shape [2x5] does not fit the extents [NxN]"});
  BOOST_CHECK_EXCEPTION(square(matrix<float>(2, 5)), shape_error,
                        says{"tensor: shape [2x5] does not fit the extents [NxN]"});
  BOOST_CHECK_EXCEPTION((square{{1, 2}}), shape_error, says{"shape [1x2] does not fit the extents [NxN]"});
  static_assert(std::constructible_from<square, matrix<float, 128, 128>> &&
                !std::constructible_from<square, matrix<float, 128, 64>>);
}

BOOST_AUTO_TEST_CASE(memory_holds_what_the_shape_says) {
  const storage sixteen(16);
  BOOST_CHECK_EQUAL(vector<float>(sixteen, shape{4}).size(), 4);
  BOOST_CHECK_EXCEPTION(matrix<float>(sixteen, shape{100, 100}), shape_error,
                        says{"tensor: memory of 16 bytes cannot hold float32[100x100]"});
  BOOST_CHECK_EXCEPTION(vector<float>(sixteen, shape{3}, 2), shape_error,
                        says{"tensor: memory of 16 bytes cannot hold float32[3] from byte 8 on"});
  BOOST_CHECK_EXCEPTION(vector<float>(sixteen, shape{1}, 5), shape_error,
                        says{"cannot hold float32[1] from byte 20 on"});
  BOOST_CHECK_EXCEPTION(vector<float>(storage(), shape{1}), shape_error,
                        says{"memory of 0 bytes cannot hold float32[1]"});
  BOOST_CHECK_EQUAL(vector<float>(storage(), shape{0}).size(), 0);
  BOOST_CHECK_EXCEPTION(any_tensor(sixteen, {dtype::float64, {3}}), shape_error,
                        says{"memory of 16 bytes cannot hold float64[3]"});
  BOOST_CHECK_EXCEPTION(any_tensor(sixteen, {dtype::int8, {1}}, 16), shape_error,
                        says{"cannot hold int8[1] from byte 16 on"});
  BOOST_CHECK_EXCEPTION(any_tensor(sixteen, {dtype::float32, {2}}, 2), value_error,
                        says{"the memory of float32[2] is not aligned to 4 bytes"});
  BOOST_CHECK_EXCEPTION((borrow(static_cast<float*>(nullptr), {2})), value_error,
                        says{"tensor: the memory is a null pointer"});
}

BOOST_AUTO_TEST_CASE(what_was_moved_from_has_no_elements) {
  matrix<float> a{{1, 2}, {3, 4}};
  auto b = std::move(a);
  const auto gone = says{"tensor [2x2] has no elements: it was moved from, or never had memory; assign to it first"};
  // NOLINTBEGIN(bugprone-use-after-move): this is under test
  BOOST_CHECK_EXCEPTION(a.writable(), state_error, gone);
  BOOST_CHECK_EXCEPTION(a.writable(0, 0), state_error, gone);
  BOOST_CHECK_EXCEPTION((void)a(0, 0), state_error, gone);
  BOOST_CHECK_EXCEPTION(a.data(), state_error, gone);
  BOOST_CHECK_EXCEPTION(a[0], state_error, gone);
  BOOST_CHECK_EXCEPTION(a.rows(0, 1), state_error, gone);
  BOOST_CHECK_EXCEPTION(a.copy(), state_error, gone);
  BOOST_CHECK_EXCEPTION((matrix<float, 2, 2>(a)), state_error, gone);
  BOOST_CHECK_EXCEPTION((any_tensor(a)), state_error, gone);
  BOOST_CHECK_EXCEPTION(evaluate(a + 1), state_error, gone);
  BOOST_CHECK_EXCEPTION(evaluate(matmul(b, a)), state_error, gone);
  b.writable(0, 0) = 9;  // b is the only handle
  BOOST_CHECK_EQUAL(b(0, 0), 9);
  a = b.copy();
  BOOST_CHECK_EQUAL(a(0, 0), 9);
  a = std::move(b);
  BOOST_CHECK_EXCEPTION(b.writable(), state_error, gone);
  auto& self = a;
  a = std::move(self);
  BOOST_CHECK_EQUAL(a(1, 1), 4);
  matrix<float, 2, 2> fixed{{1, 2}, {3, 4}};
  const auto taken = std::move(fixed);
  BOOST_CHECK_EXCEPTION(fixed.data(), state_error, gone);
  BOOST_CHECK_EXCEPTION(evaluate(fixed * taken), state_error, gone);
  auto e = taken + 1;
  const auto f = std::move(e);
  BOOST_CHECK_EXCEPTION(evaluate(e), state_error, gone);
  BOOST_CHECK_EQUAL(evaluate(f)(1, 1), 5);
  vector<float> none;
  const auto nothing = std::move(none);  // there were no elements
  BOOST_CHECK(none.data().empty());

  any_tensor any(tensor_type{dtype::float32, {2, 2}});
  const any_tensor other = std::move(any);
  BOOST_CHECK_EXCEPTION(any.mutable_data(), state_error, gone);
  BOOST_CHECK_EXCEPTION(any.elements<float>(), state_error, gone);
  BOOST_CHECK_EXCEPTION((any.as<float, extents<2, 2>>()), state_error, gone);
  BOOST_CHECK_EXCEPTION(any.copy(), state_error, gone);
  BOOST_CHECK(!any && any.data() == nullptr && other.elements<float>().size() == 4);
  BOOST_CHECK_THROW(any_tensor().elements<float>(), state_error);

  growable<float, 1> rows(2);
  rows.push(vector<float>{1, 2});
  auto rest = std::move(rows);
  BOOST_CHECK(rows.empty() && rest.size() == 1);
  rows.push(vector<float>{5, 6});
  BOOST_CHECK_EQUAL(rows[0](0), 5);
  BOOST_CHECK_EQUAL(rest[0](0), 1);
  // NOLINTEND(bugprone-use-after-move)
}

BOOST_AUTO_TEST_CASE(sizes_beyond_memory_are_told_and_do_not_wrap_around) {
  auto large = std::int64_t(1) << 32;
  BOOST_CHECK_EXCEPTION(matrix<float>(large, large), shape_error,
                        says{"tensor: [4294967296x4294967296] has more elements than memory can hold"});
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, dyn, dyn>>(0, large, large)), shape_error,
                        says{"more elements than memory can hold"});
  BOOST_CHECK_THROW(matrix<float>(large, large >> 8), out_of_memory);
}

BOOST_AUTO_TEST_CASE(conversion_shares_memory) {
  matrix<float, 2, 3> fixed;
  fixed.writable(1, 2) = 7;
  matrix<float> free = fixed;
  BOOST_CHECK(free.memory().same(fixed.memory()));
  matrix<float, dyn, 3> half = free;
  BOOST_CHECK_EQUAL(half(1, 2), 7);
  matrix<float, 2, 3> again = half;
  BOOST_CHECK(again.data().data() == fixed.data().data());
}

BOOST_AUTO_TEST_CASE(nested_lists_become_tensors) {
  matrix<float> m{{1, 2, 3}, {4, 5, 6}};
  BOOST_CHECK((m.shape() == shape{2, 3}));
  BOOST_CHECK_EQUAL(m(1, 0), 4);
  vector<std::int64_t> v{7};
  BOOST_CHECK((v.shape() == shape{1}));
  BOOST_CHECK_EQUAL(v(0), 7);
  tensor<int, extents<dyn, 2, 1>> t{{{1}, {2}}, {{3}, {4}}, {{5}, {6}}};
  BOOST_CHECK((t.shape() == shape{3, 2, 1}));
  BOOST_CHECK_EQUAL(t(2, 1, 0), 6);
  tensor<bool, extents<dyn>> b{true, false};
  BOOST_CHECK(b(0) && !b(1));
}

BOOST_AUTO_TEST_CASE(lists_that_do_not_fit_are_told) {
  auto ragged = says{"the rows of a nested list have different lengths"};
  BOOST_CHECK_EXCEPTION((matrix<float>{{1, 2}, {3}}), shape_error, ragged);
  BOOST_CHECK_EXCEPTION((matrix<float>{{}, {3}}), shape_error, ragged);
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, dyn, dyn>>{{{1, 2}, {3, 4}}, {{5, 6}}}), shape_error, ragged);
  BOOST_CHECK_EXCEPTION((matrix<float, 2, 3>{{1, 2}, {3, 4}}), shape_error,
                        says{"shape [2x2] does not fit the extents [2x3]"});
}

BOOST_AUTO_TEST_CASE(indices_outside_are_told) {
  matrix<float> m(2, 3);
  const auto& read = m;
  BOOST_CHECK_EXCEPTION((void)read(2, 0), value_error, says{"index (2, 0) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m.writable(0, 3) = 1, value_error, says{"index (0, 3) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m.writable(-1, 0) = 1, value_error, says{"index (-1, 0)"});
  BOOST_CHECK_EXCEPTION(m[2], value_error, says{"index (2) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m.rows(1, 3), value_error, says{"index (1, 3)"});
  BOOST_CHECK_THROW(m.rows(2, 1), value_error);
  BOOST_CHECK_EQUAL(m.rows(2, 2).size(), 0);
}

BOOST_AUTO_TEST_CASE(shared_memory_is_not_written) {
  auto shared = says{
      "tensor [2x2]: its memory is shared with another tensor, an expression or the result of a layer, so it cannot be "
      "written; "
      "call detach() first, which gives it its own memory"};
  matrix<float> a{{1, 2}, {3, 4}};
  a.writable(0, 0) = 5;
  {
    auto b = a;
    BOOST_CHECK_EXCEPTION(a.writable(0, 0) = 6, state_error, shared);
    BOOST_CHECK_EXCEPTION(b.writable(), state_error, shared);
    BOOST_CHECK_EQUAL(b(0, 0), 5);
    b.detach();
    b.writable(0, 0) = 7;
    BOOST_CHECK_EQUAL(a(0, 0), 5);
    a.writable(0, 0) = 8;
    BOOST_CHECK_EQUAL(b(0, 0), 7);
  }
  {
    auto row = a[1];
    BOOST_CHECK_THROW(a.writable(0, 0) = 6, state_error);
    BOOST_CHECK_THROW(row.writable(0) = 6, state_error);
  }
  a.writable(0, 0) = 9;
  auto at = a.data().data();
  a.detach();  // the only handle copies nothing
  BOOST_CHECK(a.data().data() == at);
  auto moved = std::move(a);
  moved.writable(0, 0) = 10;
  BOOST_CHECK_EQUAL(moved(0, 0), 10);
}

BOOST_AUTO_TEST_CASE(elements_are_assigned_from_elements) {
  vector<float> v{1, 2, 3};
  v.writable(0) = v(2);
  BOOST_CHECK_EQUAL(v(0), 3);
  v.writable(1) += 6;
  BOOST_CHECK_EQUAL(v(1), 8);
  std::swap(v.writable(0), v.writable(1));
  BOOST_CHECK(v(0) == 8 && v(1) == 3);
}

BOOST_AUTO_TEST_CASE(an_element_is_a_number) {
  matrix<float> m{{1, 2}, {3, 4}};
  auto x = m(1, 1);
  m.writable(1, 1) = 7;
  BOOST_CHECK_EQUAL(x, 4);  // not the current element
  BOOST_CHECK_EQUAL(std::max(m(0, 0), 1.5f), 1.5f);
  BOOST_CHECK_EQUAL(std::exp(m(0, 0)), std::exp(1.f));
  BOOST_CHECK_EQUAL(exp(m(0, 0)), exp(1.f));  // not an expression
  BOOST_CHECK_EQUAL(evaluate(m * m(0, 1))(1, 0), 6);
  BOOST_CHECK_EQUAL(evaluate(exp(m * m(0, 0)))(0, 0), evaluate(exp(m))(0, 0));
  const bool yes = true;
  const auto chosen = yes ? m(0, 1) : 0.5;  // a double, so the fraction is kept
  static_assert(std::same_as<decltype(chosen), const double>);
  vector<float16> h(2);
  h.writable(0) = float16(1.5f);
  BOOST_CHECK_EQUAL(static_cast<float>(h(0)), 1.5f);
}

BOOST_AUTO_TEST_CASE(rows_and_elements_are_written_in_place) {
  tensor<float, extents<2, 2, 3>> t;
  const auto at = t.data().data();
  t.writable(1, 0, 2) = 5;
  for (float& x : t.writable(0)) x = 1;
  for (float& x : t.writable(1, 1)) x = 2;
  BOOST_CHECK_EQUAL(t.writable(0).size(), 6u);
  BOOST_CHECK_EQUAL(t.writable(1, 1).size(), 3u);
  BOOST_CHECK(t(1, 0, 2) == 5 && t(1, 0, 1) == 0 && t(0, 1, 2) == 1 && t(1, 1, 0) == 2 && t.data().data() == at);
  BOOST_CHECK_EXCEPTION(t.writable(2), value_error, says{"index (2) is outside the shape [2x2x3]"});
  BOOST_CHECK_EXCEPTION(t.writable(1, -1), value_error, says{"index (1, -1) is outside the shape [2x2x3]"});
  const auto shares = t;
  BOOST_CHECK_THROW(t.writable(0), state_error);
  BOOST_CHECK_THROW(t.writable(0, 0, 0), state_error);
}

BOOST_AUTO_TEST_CASE(views_look_at_the_same_memory) {
  tensor<float, extents<2, 3, 4>> t;
  for (int i = 0; auto& x : t.writable()) x = static_cast<float>(i++);
  auto inner = t[1];
  static_assert(std::same_as<decltype(inner), tensor<float, extents<3, 4>>>);
  BOOST_CHECK(inner.memory().same(t.memory()));
  BOOST_CHECK_EQUAL(inner(0, 0), 12);
  const auto number = t[1][2][3];
  BOOST_CHECK_EQUAL(number(), 23);
  auto rows = inner.rows(1, 3);
  static_assert(std::same_as<decltype(rows), tensor<float, extents<dyn, 4>>>);
  BOOST_CHECK((rows.shape() == shape{2, 4}));
  BOOST_CHECK_EQUAL(rows(0, 0), 16);
  BOOST_CHECK_EQUAL(rows[1].offset(), 20u);
  auto copy = rows.copy();
  BOOST_CHECK(!copy.memory().same(t.memory()));
  BOOST_CHECK_EQUAL(copy(1, 3), 23);
  BOOST_CHECK_EQUAL(copy.offset(), 0u);
}

BOOST_AUTO_TEST_CASE(a_view_outlives_its_tensor) {
  auto before = memory::counters().current;
  {
    vector<float> row;
    {
      matrix<float> m{{1, 2}, {3, 4}};
      row = m[1];
    }
    BOOST_CHECK_EQUAL(row(1), 4);
    row.writable(1) = 5;  // the only handle now
    auto element = matrix<float>{{1, 2}, {3, 4}}(1, 0);
    static_assert(std::same_as<decltype(element), float>);  // not a reference into a destroyed tensor
    BOOST_CHECK_EQUAL(element, 3);
  }
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_CASE(strings_are_held_and_read) {
  any_tensor t;
  {
    std::vector<std::string> words{"first", "", "a longer one than what fits into the object itself"};
    t = any_tensor::of_strings({3}, words);
    words.assign(3, "overwritten");
  }
  const any_tensor shared = t, copy = t.copy();
  t = any_tensor();
  for (const any_tensor* one : {&shared, &copy}) {
    const auto all = one->elements<std::string_view>();
    BOOST_TEST_REQUIRE(all.size() == 3u);
    BOOST_TEST(all[0] == "first");
    BOOST_TEST(all[1] == "");
    BOOST_TEST(all[2].substr(0, 8) == "a longer");
    BOOST_TEST((one->element() == dtype::string));
  }
  BOOST_TEST((shared.elements<std::string_view>()[0].data() != copy.elements<std::string_view>()[0].data()));
  any_tensor written = shared;
  BOOST_CHECK_THROW(written.mutable_data(), state_error);
  BOOST_CHECK_THROW(shared.elements<float>(), type_error);
  BOOST_CHECK_THROW(any_tensor(vector<float>{1}).elements<std::string_view>(), type_error);
  BOOST_CHECK_THROW(any_tensor::of_strings({2}, std::vector<std::string>{"one"}), shape_error);
  BOOST_CHECK_THROW(any_tensor::of_strings({dyn}, std::vector<std::string>{"one"}), shape_error);
  const any_tensor none = any_tensor::of_strings({0, 2}, std::vector<std::string>{});
  BOOST_TEST(none.elements<std::string_view>().size() == 0u);
  BOOST_TEST(none.copy().print() == "[]");
}

BOOST_AUTO_TEST_SUITE_END()
