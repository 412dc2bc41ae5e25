// Run-time behavior of :core: error types and the length limits of names.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <string>

import lamina;

BOOST_AUTO_TEST_SUITE(core)

// Numbers in messages of errors, also in constant expressions.
BOOST_AUTO_TEST_CASE(numbers_in_messages) {
  constexpr double infinite = std::numeric_limits<double>::infinity(),
                   no_number = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [words, v] : std::map<std::string, double>{{"0.1", 0.1},
                                                              {"-2.5", -2.5},
                                                              {"1e-300", 1e-300},
                                                              {"-3e-7", -3e-7},
                                                              {"1e-6", 9.9999999e-7},
                                                              {"1000000", 1e6},
                                                              {"1e15", 1e15},
                                                              {"1.797693e308", std::numeric_limits<double>::max()},
                                                              {"inf", infinite},
                                                              {"-inf", -infinite},
                                                              {"nan", no_number}}) {
    lamina::message_text t;
    t << v;
    BOOST_TEST(t.string() == words);
  }
}

BOOST_AUTO_TEST_CASE(raise_throws_the_type_of_its_kind_with_the_message) {
  using namespace lamina;
  auto says = [](const error& e) { return std::string(e.what()) == "what was wrong"; };
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::shape, "what was wrong"), shape_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::type, "what was wrong"), type_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::value, "what was wrong"), value_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::file, "what was wrong"), file_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::state, "what was wrong"), state_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::memory, "what was wrong"), out_of_memory, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::deadline, "what was wrong"), deadline_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::stopped, "what was wrong"), stopped_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::unsupported, "what was wrong"), unsupported_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::resource, "what was wrong"), resource_error, says);
}

BOOST_AUTO_TEST_CASE(a_name_of_more_than_24_characters_is_refused_at_run_time) {
  std::string longest(24, 'x');
  BOOST_CHECK_EQUAL(lamina::label(longest).string(), longest);
  BOOST_CHECK_THROW((void)lamina::label(longest + "x"), lamina::value_error);
}

BOOST_AUTO_TEST_CASE(numbers_have_a_point) {
  using namespace lamina;
  BOOST_CHECK_EQUAL(decimals_of(1.005, 2), "1.00");  // 1.00499...
  BOOST_CHECK_EQUAL(decimals_of(0.125, 2), "0.12");
  BOOST_CHECK_EQUAL(decimals_of(-1234567.5, 0), "-1234568");
  BOOST_CHECK_EQUAL(decimals_of(0, 3), "0.000");
  BOOST_CHECK_EQUAL(decimals_of(std::numeric_limits<double>::quiet_NaN(), 3), "nan");
  BOOST_CHECK_EQUAL(decimals_of(1e300, 100).size(), 301 + 101);
  for (const auto& [spelled, x] :
       std::map<std::string, double>{{"0.5", 0.5}, {"-1e-3", -1e-3}, {"12", 12}, {"1e308", 1e308}, {".5", 0.5}})
    BOOST_TEST((number_in(spelled) == x), spelled);
  BOOST_TEST(number_in("inf").value() > 1e308);
  BOOST_TEST(std::isnan(number_in("nan").value()));
  for (const char* none : {"", " ", "0,5", "1 ", " 1", "1x", "0x10", "1e999", "-", "1.000.000", "--1"})
    BOOST_TEST(!number_in(none).has_value(), none);
}

BOOST_AUTO_TEST_CASE(utf8_is_told_from_other_bytes) {
  for (const char* good :
       {"", "abc", "gr\xc3\xb6\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    BOOST_TEST(lamina::is_utf8(good), good);
  // Truncated, a lone continuation byte, overlong, a surrogate, beyond the last code point.
  for (const char* bad :
       {"\xff", "a\xc3", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82z"})
    BOOST_TEST(!lamina::is_utf8(bad), bad);
}

BOOST_AUTO_TEST_SUITE_END()
