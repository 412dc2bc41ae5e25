// Data sets of any samples: the requirements, and how batches are read.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

struct labeled {
  vector<float> x;
  std::int64_t y;
};
// Sample i: i % 4 copies of i, and the number i.
struct growing {
  std::int64_t count = 6;
  std::int64_t size() const { return count; }
  labeled operator[](std::int64_t i) const {
    vector<float> x(i % 4);
    for (auto& e : x.writable()) e = static_cast<float>(i);
    return {x, i};
  }
};
struct eight {
  float a;
  double b;
  bool c;
  std::uint8_t d;
  matrix<float, 2, 2> e;
  std::string f;
  std::int16_t g;
  any_tensor h;
};
struct no_index {
  std::int64_t size() const { return 0; }
};
struct of_pointers {
  std::int64_t size() const { return 0; }
  std::pair<float, const char*> operator[](std::int64_t) const { return {}; }
};

static_assert(Dataset<image_dataset>);
static_assert(Dataset<growing>);
static_assert(Dataset<std::vector<float>>);
static_assert(Dataset<std::vector<std::string>>);
static_assert(Dataset<std::vector<eight>>);
static_assert(Dataset<std::vector<std::tuple<std::string, int>>>);
static_assert(Dataset<std::vector<std::pair<any_tensor, double>>>);
static_assert(!Dataset<int>);
static_assert(!Dataset<no_index>);
static_assert(!Dataset<of_pointers>);
static_assert(!Dataset<vector<float>>);

// A data set of matrices that differ in both extents.
std::vector<any_tensor> matrices() { return {matrix<float>{{1, 2, 3}}, matrix<float>{{4}, {5}}, matrix<float>(0, 0)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(data_set)

BOOST_AUTO_TEST_CASE(fields_are_what_types_and_data_sets_say) {
  const auto s = source_of(growing{});
  BOOST_REQUIRE_EQUAL(s.fields().size(), 2u);
  BOOST_CHECK(s.fields()[0] == (tensor_type{dtype::float32, {dyn}}));
  BOOST_CHECK(s.fields()[1] == (tensor_type{dtype::int64, {}}));
  BOOST_CHECK(s.is_ragged(0) && !s.is_ragged(1));
  std::vector<eight> all(1);
  all[0].h = matrix<double>(3, 1);
  const auto e = source_of(all);
  BOOST_REQUIRE_EQUAL(e.fields().size(), 8u);
  BOOST_CHECK(e.fields()[4] == (tensor_type{dtype::float32, {2, 2}}));
  BOOST_CHECK(e.fields()[5] == (tensor_type{dtype::string, {}}));
  BOOST_CHECK(e.fields()[7] == (tensor_type{dtype::float64, {dyn, dyn}}));
}

BOOST_AUTO_TEST_CASE(a_batch_is_padded_up_to_its_longest_sample) {
  const auto s = source_of(growing{});
  const std::int64_t indices[] = {5, 2, 0};
  const auto shapes = s.batch_shapes(indices);
  BOOST_CHECK(shapes[0] == (shape{3, 2}));
  BOOST_CHECK(shapes[1] == (shape{3}));
  std::vector<float> x(6, 9.f);
  std::vector<std::int64_t> y(3), lengths(3), ones(3);
  void* const to[] = {x.data(), y.data()};
  std::int64_t* const counted[] = {lengths.data(), ones.data()};
  s.read(indices, to, {}, counted);
  BOOST_TEST(x == (std::vector<float>{5, 0, 2, 2, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(y == (std::vector<std::int64_t>{5, 2, 0}), boost::test_tools::per_element());
  BOOST_TEST(lengths == (std::vector<std::int64_t>{1, 2, 0}), boost::test_tools::per_element());
  BOOST_TEST(ones == (std::vector<std::int64_t>{1, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(padding_keeps_rows_and_columns) {
  const auto s = source_of(matrices());
  const std::int64_t indices[] = {0, 1, 2};
  BOOST_CHECK(s.batch_shapes(indices)[0] == (shape{3, 2, 3}));
  std::vector<float> x(24, 9.f);
  void* const to[] = {x.data()};
  const shape wide[] = {{3, 2, 4}};
  s.read(indices, to, wide);
  BOOST_TEST(x == (std::vector<float>{1, 2, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(images_come_as_batch_gives_them) {
  image_dataset::images_type images(4, 2, 3, 3);
  auto bytes = images.writable();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  const image_dataset data{images, vector<std::int64_t>{1, 0, 1, 0}, {"a", "b"}, {.mean = 0.25, .deviation = 0.5}};
  const auto s = source_of(data);
  BOOST_CHECK(s.fields()[0] == (tensor_type{dtype::float32, {2, 3, 3}}));
  const std::int64_t indices[] = {3, 1};
  std::vector<float> a(36), b(36);
  std::vector<std::int64_t> la(2), lb(2);
  void* const to[] = {a.data(), la.data()};
  s.read(indices, to);
  data.batch(indices, b.data(), lb.data());
  BOOST_TEST(a == b, boost::test_tools::per_element());
  BOOST_TEST(la == lb, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(strings_are_assigned) {
  const auto s = source_of(std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"a", "bc"}));
  std::string found[2];
  void* const to[] = {found};
  const std::int64_t indices[] = {1, 0};
  s.read(indices, to);
  BOOST_CHECK_EQUAL(found[0], "bc");
  BOOST_CHECK_EQUAL(found[1], "a");
}

BOOST_AUTO_TEST_CASE(errors_name_sample_field_and_what_was_expected) {
  std::vector<any_tensor> ranks{matrix<float>(1, 2), vector<float>(2)};
  const std::int64_t second[] = {1}, outside[] = {6};
  std::vector<float> x(8);
  void* const to[] = {x.data()};
  BOOST_CHECK_EQUAL(
      message_of([&] { source_of(ranks).read(second, to); }),
      "data set: field 0 of sample 1 is float32[2]; expected float32[?x?]: the samples of a data set have "
      "one rank");
  std::vector<any_tensor> types{vector<float>(2), vector<double>(2)};
  BOOST_CHECK_EQUAL(message_of([&] { source_of(types).read(second, to); }),
                    "data set: field 0 of sample 1 is float64[2]; expected float32[?]");
  BOOST_CHECK_THROW(source_of(types).read(second, to), type_error);
  BOOST_CHECK_EQUAL(message_of([&] { source_of(growing{}).batch_shapes(outside); }),
                    "data set: index 6 is outside 0..5");
  BOOST_CHECK_EQUAL(message_of([&] { source_of(growing{}).read(second, to); }),
                    "data set: a sample has 2 fields; expected a destination, shape and length for each");
  const shape small[] = {{1, 0}};
  BOOST_CHECK_EQUAL(message_of([&] { source_of(std::vector<any_tensor>{vector<float>(2)}).read({0}, to, small); }),
                    "data set: field 0 of sample 0 is float32[2]; expected float32[0]");
  BOOST_CHECK_THROW(source_of(std::vector<any_tensor>{}), value_error);
}

BOOST_AUTO_TEST_CASE(threads_read_at_once) {
  const auto s = source_of(growing{400});
  std::vector<float> x(400 * 3);
  std::vector<std::int64_t> y(400);
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::int64_t> indices(100);
      for (std::int64_t i = 0; i < 100; ++i) indices[static_cast<std::size_t>(i)] = 100 * t + i;
      void* const to[] = {x.data() + 300 * t, y.data() + 100 * t};
      s.read(view<const std::int64_t>(indices), to);
    });
  for (auto& t : threads) t.join();
  for (std::size_t i = 0; i < 400; ++i) {
    BOOST_REQUIRE_EQUAL(y[i], static_cast<std::int64_t>(i));
    for (std::size_t j = 0; j < 3; ++j) BOOST_REQUIRE_EQUAL(x[3 * i + j], j < i % 4 ? static_cast<float>(i) : 0.f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
