// Run-time behaviour of :shape: names and ranks that do not fit, and how shapes are written.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

BOOST_AUTO_TEST_SUITE(shapes)

BOOST_AUTO_TEST_CASE(names_of_dimensions_are_kept_and_limited) {
  for (std::string name : {"N", "batch", "a_b_C_9_z0", "0123456789"}) {
    text t;
    t << dim::named(name);
    BOOST_CHECK_EQUAL(t.string(), name);
    BOOST_CHECK(dim::named(name).is_name());
  }
  for (std::string name : {"", "elevenchars", "a-b", "a b", "\xc3\xa4"}) BOOST_CHECK_THROW(dim::named(name), value_error);
}

BOOST_AUTO_TEST_CASE(a_shape_has_at_most_eight_dimensions) {
  std::vector<std::int64_t> eight(8, 2), nine(9, 2);
  BOOST_CHECK_EQUAL(shape::of(eight).size(), 256);
  BOOST_CHECK_THROW(shape::of(nine), shape_error);
  BOOST_CHECK_THROW((shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), shape_error);
}

BOOST_AUTO_TEST_CASE(shapes_are_written_as_in_messages) {
  BOOST_CHECK_EQUAL((shape{"N", 1, dyn, 28}.string()), "[Nx1x?x28]");
  BOOST_CHECK_EQUAL(shape{}.string(), "[]");
}

BOOST_AUTO_TEST_CASE(places_and_offsets_are_each_other) {
  const shape s{2, 3, 4};
  for (std::int64_t n = 0; n < s.size(); ++n) BOOST_REQUIRE_EQUAL(s.offset_of(s.place_of(n)), n);
  for (const place& wrong : {place(2, 0, 0), place(0, -1, 0), place(0, 0, 4), place(0, 0), place()}) BOOST_CHECK_THROW((void)s.offset_of(wrong), value_error);
  BOOST_CHECK_THROW((void)s.place_of(24), value_error);
  BOOST_CHECK_THROW((void)s.place_of(-1), value_error);
  BOOST_CHECK_THROW((void)(shape{0, 3}.place_of(0)), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
