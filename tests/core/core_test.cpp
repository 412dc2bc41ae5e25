// Run-time behaviour of :core: error types and limits of names.
#include <boost/test/unit_test.hpp>

#include <string>

import lamina;

BOOST_AUTO_TEST_SUITE(core)

BOOST_AUTO_TEST_CASE(raise_throws_the_type_of_its_kind_with_the_message) {
  using namespace lamina;
  auto says = [](const error& e) { return std::string(e.what()) == "what was wrong"; };
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::shape, "what was wrong"), shape_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::type, "what was wrong"), type_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::value, "what was wrong"), value_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::file, "what was wrong"), file_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::state, "what was wrong"), state_error, says);
  BOOST_CHECK_EXCEPTION(detail::raise(error_kind::memory, "what was wrong"), out_of_memory, says);
}

BOOST_AUTO_TEST_CASE(a_name_of_more_than_24_characters_is_refused_at_run_time) {
  std::string longest(24, 'x');
  BOOST_CHECK_EQUAL(lamina::label(longest).string(), longest);
  BOOST_CHECK_THROW((void)lamina::label(longest + "x"), lamina::value_error);
}

BOOST_AUTO_TEST_SUITE_END()
