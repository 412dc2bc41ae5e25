// Lists of tensors of one shape, as lists and as operands.
#include <boost/test/unit_test.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"
#include "numbers.h"

using namespace lamina;
using namespace engine_test;

namespace {}  // namespace

BOOST_AUTO_TEST_SUITE(growable_lists)

BOOST_AUTO_TEST_CASE(items_make_one_rank_more) {
  growable<float, 1> g(3);
  static_assert(std::same_as<decltype(g)::extents_type, extents<dyn, dyn>>);
  BOOST_TEST(g.empty());
  BOOST_TEST((g.shape() == shape{0, 3}));
  g.push(vector<float>{1, 2, 3});
  g.push(tensor<float, extents<3>>{4, 5, 6});
  BOOST_TEST(!g.empty());
  BOOST_TEST(g.size() == 2);
  BOOST_TEST((g.shape() == shape{2, 3}));
  BOOST_TEST((g.item_shape() == shape{3}));
  BOOST_TEST(numbers(g) == (list{1, 2, 3, 4, 5, 6}), boost::test_tools::per_element());
  growable<double, 0> n;
  n.push(2.5);
  n.push(scalar<double>(3.5));
  BOOST_TEST((n.shape() == shape{2}));
  BOOST_TEST(n[1]() == 3.5);
  growable<float, 2> m(shape{2, 2});
  m.push(matrix<float>{{1, 2}, {3, 4}});
  BOOST_TEST((m.shape() == shape{1, 2, 2}));
}

BOOST_AUTO_TEST_CASE(an_item_of_another_shape_is_told) {
  growable<float, 1> g(3);
  g.push(vector<float>{1, 2, 3});
  BOOST_TEST(message_of([&] { g.push(vector<float>{1, 2}); }) == "growable: its items are [3]; got [2]");
  BOOST_CHECK_THROW(g.push(vector<float>{1, 2}), shape_error);
  BOOST_TEST(g.size() == 1);
  BOOST_TEST(message_of([&] { (void)g[1]; }) == "growable: item 1 does not exist; the size is 1");
  BOOST_CHECK_THROW((void)g[-1], value_error);
  BOOST_CHECK_THROW((growable<float, 1>(-3)), shape_error);
}

BOOST_AUTO_TEST_CASE(a_range_gives_items_and_an_empty_one_is_an_error) {
  std::vector<vector<float>> items{{1, 2}, {3, 4}, {5, 6}};
  growable<float, 1> g(items.begin(), items.end());
  BOOST_TEST((g.shape() == shape{3, 2}));
  const double raw[] = {1, 2, 3};
  growable<double, 0> n(raw, raw + 3);
  BOOST_TEST(numbers(n) == (list{1, 2, 3}), boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION((growable<float, 1>(items.end(), items.end())), value_error, [](const error& e) {
    return std::string(e.what()).find("growable: an empty range has no item to take the shape from") == 0;
  });
  items.push_back({1, 2, 3});
  BOOST_CHECK_THROW((growable<float, 1>(items.begin(), items.end())), shape_error);
}

BOOST_AUTO_TEST_CASE(reserve_clear_and_reverse) {
  growable<float, 1> g(2);
  g.reserve(5);
  auto before = memory::counters().allocations;
  const void* place = g.data().data();
  vector<float> item{0, 0};
  auto with_item = memory::counters().allocations;
  for (int i = 0; i < 5; ++i) {
    item.writable(0) = static_cast<float>(i);
    g.push(item);
  }
  BOOST_TEST(memory::counters().allocations == with_item);
  BOOST_TEST(with_item == before + 1);
  BOOST_TEST(g.data().data() == place);
  g.reverse();
  BOOST_TEST(numbers(g) == (list{4, 0, 3, 0, 2, 0, 1, 0, 0, 0}), boost::test_tools::per_element());
  g.clear();
  BOOST_TEST(g.empty());
  BOOST_TEST((g.shape() == shape{0, 2}));
  BOOST_TEST(g.capacity() == 5);
  g.push(item);
  BOOST_TEST(g[0](0) == 4);
  BOOST_CHECK_THROW(g.reserve(-1), value_error);
  g.reserve(1);  // less than the capacity: no effect
  BOOST_TEST(g.capacity() == 5);
  growable<float, 1> none(2);
  none.reverse();
  none.clear();
  BOOST_TEST(none.empty());
}

BOOST_AUTO_TEST_CASE(items_of_no_elements) {
  growable<float, 1> g(0);
  for (int i = 0; i < 9; ++i) g.push(vector<float>(0));
  g.reverse();
  BOOST_TEST((g.shape() == shape{9, 0}));
  BOOST_TEST((evaluate(reduce_sum<axes(1)>(g)).shape() == shape{9}));
}

BOOST_AUTO_TEST_CASE(views_share_memory_and_a_change_takes_a_copy) {
  growable<float, 1> g(2);
  for (float v : {1.f, 2.f, 3.f}) g.push(vector<float>{v, -v});
  auto second = g[1];
  auto all = g.packed();
  BOOST_TEST(second.data().data() == g.data().data() + 2);
  BOOST_TEST(all.data().data() == g.data().data());
  BOOST_CHECK_THROW(second.writable(0) = 7, state_error);  // shared
  auto copy = g;
  BOOST_TEST(copy.data().data() == g.data().data());
  copy.push(vector<float>{9, 9});
  copy.reverse();
  BOOST_TEST(g.size() == 3);
  BOOST_TEST(second(0) == 2);
  BOOST_TEST(numbers(g) == (list{1, -1, 2, -2, 3, -3}), boost::test_tools::per_element());
  BOOST_TEST(numbers(copy) == (list{9, 9, 3, -3, 2, -2, 1, -1}), boost::test_tools::per_element());
  copy.push(copy[3]);  // one of its own items
  BOOST_TEST(copy[4](1) == -1);
  auto kept = copy;
  copy.clear();
  copy.push(vector<float>{5, 5});
  BOOST_TEST(kept[0](0) == 9);
}

BOOST_AUTO_TEST_CASE(an_operand_that_is_read_where_it_is) {
  growable<float, 1> g(2);
  g.push(vector<float>{1, 2});
  g.push(vector<float>{3, 4});
  vector<float> row{10, 20};
  BOOST_TEST(numbers(evaluate(g * 2 + row)) == (list{12, 24, 16, 28}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(matmul(g, g))) == (list{7, 10, 15, 22}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(reduce_sum<axes(0)>(g))) == (list{4, 6}), boost::test_tools::per_element());
  auto y = g + 1;  // holds the current items
  g.push(vector<float>{5, 6});
  BOOST_TEST((evaluate(y).shape() == shape{2, 2}));
  BOOST_TEST(numbers(evaluate(g)) == (list{1, 2, 3, 4, 5, 6}), boost::test_tools::per_element());
  auto before = memory::counters().allocations;
  {
    auto z = evaluate(g);
    BOOST_TEST(z.size() == 6);
  }
  BOOST_TEST(memory::counters().allocations == before + 1);  // the result alone: the items are not copied
  BOOST_TEST(message_of([&] { evaluate(g + vector<float>(3)); }) == "add: the shapes do not broadcast: [3x2] [3]");
  dynamic<float, 2> d = g;
  BOOST_TEST(numbers(evaluate(d - 1)) == (list{0, 1, 2, 3, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
