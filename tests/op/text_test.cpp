// Operations on strings, against expected values written here.
module;
#include <boost/test/unit_test.hpp>

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;
using strings = std::vector<std::string>;

any_tensor texts(const shape& s, const strings& all) { return any_tensor::of_strings(s, view<const std::string>(all)); }
any_tensor row(const strings& all) { return texts({dim(static_cast<std::int64_t>(all.size()))}, all); }
any_tensor integers(const shape& s, std::vector<double> v) {
  return to_tensor(array_of(dtype::int64, s, std::move(v)));
}
strings words_of(const any_value& v) {
  const auto all = v.as_tensor().elements<std::string_view>();
  return {all.begin(), all.end()};
}
std::vector<double> numbers(const any_value& v) { return from_tensor(v.as_tensor()).values; }

// Runs operations on tensors with extents left open in the program.
std::vector<any_value> run(const std::vector<any_tensor>& in, const builder& build) {
  auto p = std::make_shared<program>();
  values inputs;
  std::vector<any_value> given;
  for (const auto& t : in) {
    tensor_type type = t.type();
    for (int i = 0; i < type.dims.rank; ++i) type.dims[i] = dyn;
    inputs.push_back(p->input("x" + std::to_string(inputs.size()), type));
    given.emplace_back(t);
  }
  for (const auto& v : build(inputs)) p->output("y", v);
  session s(std::move(p), {}, std::make_shared<context>(1, target_isa()));
  return s.run(given);
}

bool full_match(const std::string& pattern, const std::string& s) {
  const auto made =
      run({row({s}), row({pattern})}, [](const values& x) { return values{regex_full_match(x[0], x[1])}; });
  return numbers(made[0])[0] != 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(strings_are_joined_and_compared) {
  const auto made = run({texts({2, 1}, {"a", "b"}), row({"", "b", "\xc3\xa9"})}, [](const values& x) {
    return values{string_concat(x[0], x[1]), equal_strings(x[0], x[1]), find_strings(x[1], x[0])};
  });
  BOOST_TEST((words_of(made[0]) == strings{"a", "ab", "a\xc3\xa9", "b", "bb", "b\xc3\xa9"}));
  BOOST_TEST((made[0].as_tensor().shape() == shape{2, 3}));
  BOOST_TEST((numbers(made[1]) == std::vector<double>{0, 0, 0, 0, 1, 0}));
  BOOST_TEST((numbers(made[2]) == std::vector<double>{-1, 1, -1}));
}

BOOST_AUTO_TEST_CASE(strings_are_split) {
  const auto split = [](const strings& all, const std::string& delimiter, std::int64_t max) {
    return run({row(all), row({delimiter})}, [&](const values& x) { return string_split(x[0], x[1], {.max = max}); });
  };
  auto made = split({"a,,b", "c", ""}, ",", -1);
  BOOST_TEST((words_of(made[0]) == strings{"a", "", "b", "c", "", "", "", "", ""}));
  BOOST_TEST((numbers(made[1]) == std::vector<double>{3, 1, 0}));
  made = split({" a  b c ", "d"}, "", 1);
  BOOST_TEST((words_of(made[0]) == strings{"a", "b c ", "d", ""}));
  made = split({"a,b,c"}, ",", 1);
  BOOST_TEST((words_of(made[0]) == strings{"a", "b,c"}));
}

BOOST_AUTO_TEST_CASE(strings_are_normalized) {
  const auto normal = [](const strings& all, const strings& stops, case_change change, bool sensitive) {
    return words_of(run({row(all), row(stops)}, [&](const values& x) {
      return values{string_normalize(x[0], x[1], {static_cast<std::int64_t>(change), sensitive})};
    })[0]);
  };
  BOOST_TEST((normal({"Monday", "b"}, {"monday"}, case_change::upper, false) == strings{"B"}));
  BOOST_TEST((normal({"Monday", "\xc3\x89"}, {"monday"}, case_change::lower, true) == strings{"monday", "\xc3\xa9"}));
  BOOST_TEST((normal({"a"}, {"a"}, case_change::none, true) == strings{""}));
}

BOOST_AUTO_TEST_CASE(strings_are_numbers) {
  const auto read = [](const strings& all, dtype to) {
    return numbers(run({row(all)}, [&](const values& x) { return values{string_to_number(x[0], to)}; })[0]);
  };
  BOOST_TEST((read({"3.5", "-1e2", "+2", " INF"}, dtype::float32) ==
              std::vector<double>{3.5, -100, 2, std::numeric_limits<double>::infinity()}));
  BOOST_TEST((read({"7", "-8", "1.9", "1e3"}, dtype::int32) == std::vector<double>{7, -8, 1, 1000}));
  BOOST_CHECK_THROW(read({"seven"}, dtype::int32), value_error);
  BOOST_CHECK_THROW(read({"300"}, dtype::int8), value_error);
  const auto written = [](const any_tensor& t) {
    return words_of(run({t}, [](const values& x) { return values{number_to_string(x[0])}; })[0]);
  };
  BOOST_TEST(
      (written(to_tensor(array_of(dtype::float32, {4}, {0.5, 100000, 3, -std::numeric_limits<double>::infinity()}))) ==
       strings{"0.5", "100000", "3", "-INF"}));
  BOOST_TEST((written(integers({1}, {-12})) == strings{"-12"}));
}

BOOST_AUTO_TEST_CASE(positions_move_in_place_of_strings) {
  const auto made = run({texts({2, 2}, {"a", "b", "c", "a"}), row({"z"})}, [](const values& x) {
    const value first = string_positions(x[0]), second = string_positions(x[1], view<const value>(&x[0], 1));
    const value both[] = {reshape(transpose(first), shape{dyn}), second};
    const auto ranks = string_ranks(x[0]);
    return values{take_strings(view<const value>(x), concat(view<const value>(both), 0)), ranks[0], ranks[1]};
  });
  BOOST_TEST((words_of(made[0]) == strings{"a", "c", "b", "a", "z"}));
  BOOST_TEST((numbers(made[1]) == std::vector<double>{0, 1, 2, 0}));
  BOOST_TEST((words_of(made[2]) == strings{"a", "b", "c"}));
  const auto outside = [](const values& x) { return values{take_strings(view<const value>(&x[0], 1), x[1])}; };
  BOOST_CHECK_THROW(run({row({"a"}), integers({1}, {1})}, outside), value_error);
  BOOST_CHECK_THROW(run({row({"a"}), integers({1}, {-1})}, outside), value_error);
}

BOOST_AUTO_TEST_CASE(patterns_match_whole_strings) {
  BOOST_TEST(full_match("a|bc", "bc"));
  BOOST_TEST(!full_match("a|bc", "abc"));
  BOOST_TEST(full_match("", ""));
  BOOST_TEST(full_match("(a|b)*c+d?", "abbacc"));
  BOOST_TEST(full_match("x{2,3}y{2}z{0,}", "xxxyy"));
  BOOST_TEST(!full_match("x{2,3}", "xxxx"));
  BOOST_TEST(full_match("[a-c\\d_-]+[^x]", "a1-_z"));
  BOOST_TEST(!full_match("[^x]", "x"));
  BOOST_TEST(full_match("(?i)h\\w+\\.", "HeLLo."));
  BOOST_TEST(full_match("^(?:a(?P<n>b|c)){2}$", "abac"));
  BOOST_TEST(full_match(".", "\xc3\xa9"));
  BOOST_TEST(!full_match("a$b", "ab"));
  BOOST_TEST(full_match("a(|b|c)d", "ad"));
  BOOST_TEST(!full_match("(a*)*b", std::string(100000, 'a')));
  for (const char* bad : {"(", ")", "[a", "*", "a\\", "(?=a)", "\\1", "a{2,1}", "a{9999}", "((a{1000}){1000}){1000}"})
    BOOST_CHECK_THROW(full_match(bad, "a"), value_error);
  BOOST_CHECK_THROW(full_match(std::string(1000, '('), "a"), value_error);
}

BOOST_AUTO_TEST_CASE(n_grams_are_counted) {
  const auto count = [](const any_tensor& x, const any_tensor& pool, const tf_idf_attributes& a) {
    const any_tensor weights = to_tensor(array_of(dtype::float32, {4}, {1, 2, 3, 4}));
    return numbers(run({x, pool, integers({2}, {0, 2}), integers({4}, {0, 1, 3, 2}), weights},
                       [&](const values& v) { return values{tf_idf(v[0], v[1], v[2], v[3], v[4], a)}; })[0]);
  };
  // n-grams: a, b, (a, b), (b, a)
  const any_tensor x = texts({1, 4}, {"a", "b", "a", "c"}), pool = row({"a", "b", "a", "b", "b", "a"});
  BOOST_TEST((count(x, pool, {.longest = 2, .width = 4}) == std::vector<double>{2, 1, 1, 1}));
  BOOST_TEST((count(x, pool, {.longest = 2, .width = 4, .counts = false, .weighted = true}) ==
              std::vector<double>{1, 2, 4, 3}));
  const any_tensor i = integers({5}, {1, 9, 2, 9, 1}), p = integers({6}, {1, 2, 1, 2, 2, 1});
  BOOST_TEST((count(i, p, {.shortest = 2, .longest = 2, .width = 4}) == std::vector<double>{0, 0, 0, 0}));
  BOOST_TEST((count(i, p, {.shortest = 2, .longest = 2, .skips = 1, .width = 4}) == std::vector<double>{0, 0, 1, 1}));
  BOOST_CHECK_THROW(count(i, p, {.longest = 2, .width = 3}), value_error);
}

BOOST_AUTO_TEST_CASE(memory_of_the_caller_holds_no_strings) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::string, {2}});
  p->output("y", string_concat(x, x));
  session s(std::move(p), {}, std::make_shared<context>(1, target_isa()));
  const any_tensor in = row({"a", "b"});
  const shape extents[] = {in.shape()};
  const void* data[] = {in.data()};
  const auto place = [](std::size_t, const tensor_type&) -> void* { return nullptr; };
  BOOST_CHECK_THROW(s.run(view<const shape>(extents), view<const void* const>(data), place), type_error);
  const std::vector<any_tensor> given{in};
  BOOST_TEST((words_of(s.run(view<const any_tensor>(given))[0]) == strings{"aa", "bb"}));
}

BOOST_AUTO_TEST_SUITE_END()
