// Tensors: extents of every mix, nested lists, sharing, views, and the words of their errors.
#include <boost/test/unit_test.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

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
// An element beside a number of another kind does not lose its fraction in silence.
template <class T, class Other>
concept Chosen = requires(bool yes, tensor<T, extents<2>>& t, Other o) { yes ? t(0) : o; };
static_assert(!Chosen<float, int> && !Chosen<double, std::int64_t> && !Chosen<std::int64_t, int>);
static_assert(Chosen<float, float> && Chosen<float, double> && Chosen<std::int32_t, int>);
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
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, 784>>(32, 783)), shape_error, says{"tensor: shape [32x783] does not fit the extents [?x784]"});
  BOOST_CHECK_EXCEPTION((tensor<float, extents<"N", 3>>(shape{4})), shape_error, says{"tensor: shape [4] does not fit the extents [Nx3]"});
  BOOST_CHECK_EXCEPTION(matrix<float>(2, -3), shape_error, says{"tensor: extent 1 is to be 0 or more, and is -3"});
  matrix<float> m(2, 3);
  BOOST_CHECK_EXCEPTION((matrix<float, dyn, 4>(m)), shape_error, says{"tensor: shape [2x3] does not fit the extents [?x4]"});
}

BOOST_AUTO_TEST_CASE(sizes_beyond_memory_are_told_and_do_not_wrap_around) {
  auto large = std::int64_t(1) << 32;
  BOOST_CHECK_EXCEPTION(matrix<float>(large, large), shape_error, says{"tensor: [4294967296x4294967296] has more elements than memory can hold"});
  BOOST_CHECK_EXCEPTION((tensor<float, extents<dyn, dyn, dyn>>(0, large, large)), shape_error, says{"more elements than memory can hold"});
  BOOST_CHECK_THROW(matrix<float>(large, large >> 8), out_of_memory);
}

BOOST_AUTO_TEST_CASE(conversion_shares_memory) {
  matrix<float, 2, 3> fixed;
  fixed(1, 2) = 7;
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
  BOOST_CHECK_EXCEPTION((matrix<float, 2, 3>{{1, 2}, {3, 4}}), shape_error, says{"shape [2x2] does not fit the extents [2x3]"});
}

BOOST_AUTO_TEST_CASE(indices_outside_are_told) {
  matrix<float> m(2, 3);
  const auto& read = m;
  BOOST_CHECK_EXCEPTION((void)read(2, 0), value_error, says{"index (2, 0) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m(0, 3) = 1, value_error, says{"index (0, 3) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m(-1, 0) = 1, value_error, says{"index (-1, 0)"});
  BOOST_CHECK_EXCEPTION(m[2], value_error, says{"index (2) is outside the shape [2x3]"});
  BOOST_CHECK_EXCEPTION(m.rows(1, 3), value_error, says{"index (1, 3)"});
  BOOST_CHECK_THROW(m.rows(2, 1), value_error);
  BOOST_CHECK_EQUAL(m.rows(2, 2).size(), 0);
}

BOOST_AUTO_TEST_CASE(shared_memory_is_not_written) {
  auto shared = says{"tensor [2x2]: its memory is shared with another tensor or is held by an expression, so it cannot be written; "
                     "call detach() first, or keep a formula instead of an expression"};
  matrix<float> a{{1, 2}, {3, 4}};
  a(0, 0) = 5;
  {
    auto b = a;
    BOOST_CHECK_EXCEPTION(a(0, 0) = 6, state_error, shared);
    BOOST_CHECK_EXCEPTION(b.writable(), state_error, shared);
    BOOST_CHECK_EQUAL(b(0, 0), 5);
    b.detach();
    b(0, 0) = 7;
    BOOST_CHECK_EQUAL(a(0, 0), 5);
    a(0, 0) = 8;
    BOOST_CHECK_EQUAL(b(0, 0), 7);
  }
  {
    auto row = a[1];
    BOOST_CHECK_THROW(a(0, 0) = 6, state_error);
    BOOST_CHECK_THROW(row(0) = 6, state_error);
  }
  a(0, 0) = 9;
  auto at = a.data().data();
  a.detach();   // nothing is copied for the only handle
  BOOST_CHECK(a.data().data() == at);
  auto moved = std::move(a);
  moved(0, 0) = 10;
  BOOST_CHECK_EQUAL(moved(0, 0), 10);
}

BOOST_AUTO_TEST_CASE(elements_are_assigned_from_elements) {
  vector<float> v{1, 2, 3};
  v(0) = v(2);
  BOOST_CHECK_EQUAL(v(0), 3);
  auto r = v(1);
  r = 8;
  BOOST_CHECK_EQUAL(v(1), 8);
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
    row(1) = 5;   // the only handle now
    auto element = matrix<float>{{1, 2}, {3, 4}}(1, 0);
    static_assert(std::same_as<decltype(element), float>);      // not a reference into a tensor that has ended
    BOOST_CHECK_EQUAL(element, 3);
  }
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_SUITE_END()
