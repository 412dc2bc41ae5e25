// Cases for named_tests.cmake to tell apart; CTest does not run this program by itself.
#include <boost/test/unit_test.hpp>

#include <stdexcept>

BOOST_AUTO_TEST_SUITE(cases)

BOOST_AUTO_TEST_CASE(passes) { BOOST_TEST(true); }
BOOST_AUTO_TEST_CASE(fails) { BOOST_TEST(false); }
BOOST_AUTO_TEST_CASE(throws) { throw std::runtime_error("a case that throws"); }
BOOST_AUTO_TEST_CASE(disabled, *boost::unit_test::disabled()) { BOOST_TEST(true); }

BOOST_AUTO_TEST_SUITE_END()
