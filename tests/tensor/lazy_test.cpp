// Data without storage, the caller's memory, and tensors with a type known only at run time.
#include <boost/test/unit_test.hpp>

#include <array>
#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

bool mentions(const error& e, std::string_view expected) {
  return std::string_view(e.what()).find(expected) != std::string_view::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensor_without_own_memory)

BOOST_AUTO_TEST_CASE(zeros_filled_and_one_hot_hold_no_storage) {
  auto before = memory::counters().allocations;
  auto z = zeros<float>(4, 5);
  auto s = zeros<double, extents<784, 10>>();
  auto f = filled(3.f, 10, 20, 30);
  auto h = one_hot(100, 37, 0.3f);
  auto huge = zeros<float>(1 << 30, 1 << 20);
  BOOST_CHECK_EQUAL(memory::counters().allocations, before);
  BOOST_CHECK(z.shape() == (shape{4, 5}) && z.value() == 0);
  BOOST_CHECK(s.shape() == (shape{784, 10}));
  BOOST_CHECK(f.shape() == (shape{10, 20, 30}) && f.value() == 3);
  BOOST_CHECK(h.shape() == (shape{100}) && h.position() == 37 && h.value() == 0.3f);
  BOOST_CHECK(huge.shape()[0] == dim(1 << 30));
  static_assert(std::same_as<decltype(s)::extents_type, extents<784, 10>>);
  static_assert(sizeof(z) < 128 && sizeof(h) < 128);
}

BOOST_AUTO_TEST_CASE(a_position_outside_one_hot_is_told) {
  for (std::int64_t position : {-1, 10, 11})
    BOOST_CHECK_EXCEPTION(one_hot<float>(10, position), value_error, [&](const error& e) {
      return mentions(e, "one_hot: position " + std::to_string(position) + " is outside 0..9");
    });
  BOOST_CHECK_EQUAL((one_hot<float>(10, 9).position()), 9);
}

BOOST_AUTO_TEST_CASE(extents_of_lazy_data_are_checked) {
  BOOST_CHECK_THROW(zeros<float>(2, -1), shape_error);
  BOOST_CHECK_THROW(filled(1.f, -1), shape_error);
}

BOOST_AUTO_TEST_CASE(borrowed_memory_is_read_and_written_where_it_is) {
  std::vector<float> mine{1, 2, 3, 4, 5, 6};
  auto before = memory::counters().allocations;
  {
    auto t = borrow(std::span(mine), {2, 3});
    static_assert(std::same_as<decltype(t), tensor<float, extents<dyn, dyn>>>);
    BOOST_CHECK(t.data().data() == mine.data());
    t.writable(1, 2) = 60;
    BOOST_CHECK_EQUAL(mine[5], 60);
    mine[0] = 10;
    BOOST_CHECK_EQUAL(t(0, 0), 10);
    BOOST_CHECK(t.memory().is_borrowed());
    auto part = borrow(std::span(mine), {2});  // fewer elements than the span has
    BOOST_CHECK_EQUAL(part.size(), 2);
  }
  BOOST_CHECK_EQUAL(memory::counters().allocations, before);
  std::array<float, 4> four{};
  BOOST_CHECK_EXCEPTION(borrow(std::span(four), {2, 3}), shape_error,
                        [](const error& e) { return mentions(e, "borrow: a span of 4 elements cannot hold [2x3]"); });
}

BOOST_AUTO_TEST_CASE(memory_is_borrowed_under_a_shape_value) {
  std::vector<float> mine{1, 2, 3, 4, 5, 6};
  const shape s{2, 3};
  any_tensor any = borrow(std::span(mine), s);
  BOOST_CHECK((any.type() == tensor_type{dtype::float32, s}));
  BOOST_CHECK(any.data() == reinterpret_cast<const std::byte*>(mine.data()));
  BOOST_CHECK(any.memory().is_borrowed());
  BOOST_CHECK_EQUAL((any.as<float, extents<dyn, dyn>>()(1, 0)), 4);
  auto typed = borrow<extents<dyn, 3>>(std::span(mine), s);
  static_assert(std::same_as<decltype(typed), tensor<float, extents<dyn, 3>>>);
  BOOST_CHECK(typed.data().data() == mine.data());
  typed.writable(1, 2) = 60;
  BOOST_CHECK_EQUAL(mine[5], 60);
  BOOST_CHECK_EQUAL(borrow(std::span(mine), shape{}).bytes(), 4);  // one element, of rank 0
  auto says = [&](const shape& wrong, std::string_view expected) {
    BOOST_CHECK_EXCEPTION(borrow(std::span(mine), wrong), shape_error,
                          [&](const error& e) { return mentions(e, expected); });
    BOOST_CHECK_EXCEPTION((borrow<extents<dyn, dyn>>(std::span(mine), wrong)), shape_error,
                          [&](const error& e) { return mentions(e, expected); });
  };
  says({2, 4}, "borrow: a span of 6 elements cannot hold [2x4]");
  says({2, dyn}, "borrow: [2x?] has an extent that is not a number");
  says({"N", 3}, "borrow: [Nx3] has an extent that is not a number");
  constexpr auto huge = std::int64_t(1) << 32;
  says({huge, huge}, "borrow: a span of 6 elements cannot hold [4294967296x4294967296]");
  BOOST_CHECK_EXCEPTION(borrow(std::span(mine), {huge, huge}), shape_error,
                        [](const error& e) { return mentions(e, "cannot hold"); });
  BOOST_CHECK_THROW((borrow<extents<dyn, 2>>(std::span(mine), s)), shape_error);
  BOOST_CHECK_THROW((borrow<extents<dyn>>(std::span(mine), s)), shape_error);
}

BOOST_AUTO_TEST_CASE(a_keeper_lives_as_long_as_the_memory_is_used) {
  auto keeper = std::make_shared<std::vector<float>>(4, 1.f);
  std::weak_ptr<void> watch = keeper;
  {
    vector<float> whole(storage::borrowed(keeper->data(), 16, keeper), shape{4});
    keeper.reset();
    const auto rest = whole.rows(1, 4);
    whole = vector<float>();
    BOOST_CHECK(!watch.expired());
    BOOST_CHECK_EQUAL(rest(0), 1);
  }
  BOOST_CHECK(watch.expired());
}

BOOST_AUTO_TEST_CASE(any_tensor_shares_and_gives_back_the_typed_tensor) {
  matrix<float> m{{1, 2}, {3, 4}};
  any_tensor any = m.rows(1, 2);
  BOOST_CHECK(any.type() == (tensor_type{dtype::float32, {1, 2}}));
  BOOST_CHECK_EQUAL(any.bytes(), 8u);
  BOOST_CHECK_EQUAL(any.print(), "[[3. 4.]]");
  auto typed = any.as<float, extents<dyn, 2>>();
  BOOST_CHECK(typed.data().data() == m.data().data() + 2);
  BOOST_CHECK_EXCEPTION((any.as<double, extents<dyn, dyn>>()), type_error,
                        [](const error& e) { return mentions(e, "a tensor of float32 is read as float64"); });
  BOOST_CHECK_THROW((any.as<float, extents<dyn, 3>>()), shape_error);
  BOOST_CHECK_THROW(any.elements<std::int32_t>(), type_error);
  auto copy = any.copy();
  BOOST_CHECK(copy.data() != any.data());
  BOOST_CHECK_EQUAL(copy.elements<float>()[1], 4);
  BOOST_CHECK(!any_tensor() && any);
  BOOST_CHECK_EQUAL(any_tensor().print(), "none");
  BOOST_CHECK_EQUAL(any_tensor(tensor_type{dtype::int16, {2}}).print(), "[0 0]");
}

BOOST_AUTO_TEST_SUITE_END()
