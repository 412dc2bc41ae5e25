// The `main` of every Boost.Test program here.
#define BOOST_TEST_MODULE lamina
#ifdef LAMINA_TEST_HEADER_ONLY
#include <boost/test/included/unit_test.hpp>
#else
#include <boost/test/unit_test.hpp>
#endif
