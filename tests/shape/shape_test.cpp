// Run-time behavior of :shape: mismatching names and ranks, and how shapes are printed.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

import lamina;

using namespace lamina;

BOOST_AUTO_TEST_SUITE(shapes)

BOOST_AUTO_TEST_CASE(names_of_dimensions_are_kept_and_limited) {
  for (std::string name : {"N", "batch", "a_b_C_9_z0", "0123456789", "elevenchars", "past_sequence_length + 1"}) {
    message_text t;
    t << dim::named(name);
    BOOST_CHECK_EQUAL(t.string(), name);
    BOOST_CHECK(dim::named(name).is_name());
  }
  for (std::string name : {std::string(), std::string(101, 'a'), std::string("a!b"), std::string("\xc3\xa4")})
    BOOST_CHECK_THROW(dim::named(name), value_error);
}

BOOST_AUTO_TEST_CASE(a_shape_has_at_most_eight_dimensions) {
  std::vector<std::int64_t> eight(8, 2), nine(9, 2);
  BOOST_CHECK_EQUAL(shape::of(eight).size(), 256);
  BOOST_CHECK_THROW(shape::of(nine), shape_error);
  BOOST_CHECK_THROW((shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), shape_error);
}

BOOST_AUTO_TEST_CASE(extents_are_numbers_from_zero_on) {
  const auto says = [](const std::string& expected) {
    return [expected](const error& e) { return std::string(e.what()).find(expected) != std::string::npos; };
  };
  std::vector<std::int64_t> below{-5, 3};
  BOOST_CHECK_EXCEPTION((shape{-5, 3}), shape_error,
                        says("an extent is -5; expected 0 or more, or `dyn` where it is not known"));
  BOOST_CHECK_EXCEPTION((shape{3, -1}), shape_error, says("an extent is -1"));
  BOOST_CHECK_EXCEPTION(shape::of(below), shape_error, says("an extent is -5"));
  BOOST_CHECK_EXCEPTION(dim(std::uint64_t(-1)), shape_error,
                        says("an extent is 18446744073709551615; expected at most 9223372036854775807"));
  BOOST_CHECK_EXCEPTION(zeros<float>(2, -1), shape_error, says("an extent is -1"));
}

BOOST_AUTO_TEST_CASE(sizes_that_cannot_be_counted_are_told) {
  const auto says = [](const std::string& expected) {
    return [expected](const error& e) { return std::string(e.what()).find(expected) != std::string::npos; };
  };
  constexpr auto large = std::int64_t(1) << 40;
  BOOST_CHECK_EXCEPTION((void)(shape{large, large}.size()), shape_error,
                        says("shape [1099511627776x1099511627776] has more than 2^63 - 1 elements"));
  BOOST_CHECK_EXCEPTION((void)(shape{2, large, large}.size(1, 3)), shape_error,
                        says("has more than 2^63 - 1 elements"));
  BOOST_CHECK_EQUAL((shape{large, large, 0}.size()), 0);
  BOOST_CHECK_EQUAL((shape{0, large, large}.size()), 0);
  BOOST_CHECK_EQUAL((shape{large, 2, 0}.size(0, 2)), 2 * large);
  BOOST_CHECK_EXCEPTION((void)(shape{2, dyn}.size()), shape_error,
                        says("shape [2x?] has no size: not all of its extents are numbers"));
  BOOST_CHECK_EXCEPTION((void)(shape{"N", 0}.size()), shape_error, says("shape [Nx0] has no size"));
  BOOST_CHECK_EXCEPTION((void)(tensor_type{dtype::float64, {large, 1 << 22}}.bytes()), shape_error,
                        says("has more elements than memory can hold"));
}

BOOST_AUTO_TEST_CASE(axes_that_are_not_there_are_told) {
  const auto says = [](const std::string& expected) {
    return [expected](const error& e) { return std::string(e.what()).find(expected) != std::string::npos; };
  };
  shape s{2, 3};
  const shape none;
  for (int axis : {-1, 2, 7, 9}) {
    BOOST_CHECK_EXCEPTION((void)s[axis], value_error,
                          says("shape [2x3] has no axis " + std::to_string(axis) + "; expected 0 to 1"));
    BOOST_CHECK_EXCEPTION((void)s.at(axis), value_error, says("shape [2x3] has no axis"));
    BOOST_CHECK_EXCEPTION((void)std::as_const(s)[axis], value_error, says("shape [2x3] has no axis"));
    BOOST_CHECK_THROW((void)matrix<float>(2, 3).extent(axis), value_error);
    BOOST_CHECK_THROW((void)place(1, 2)[axis], value_error);
    BOOST_CHECK_THROW((void)axes(0, 1)[axis], value_error);
  }
  BOOST_CHECK_EXCEPTION((void)none.back(), value_error, says("shape [] has no axes"));
  BOOST_CHECK_THROW((void)shape{}.back(), value_error);
  BOOST_CHECK_THROW((void)none[0], value_error);
  BOOST_CHECK_THROW((void)s.size(0, 3), value_error);
  BOOST_CHECK_THROW((void)s.size(-1, 1), value_error);
}

BOOST_AUTO_TEST_CASE(shapes_are_written_as_in_messages) {
  BOOST_CHECK_EQUAL((shape{"N", 1, dyn, 28}.string()), "[Nx1x?x28]");
  BOOST_CHECK_EQUAL(shape{}.string(), "[]");
}

BOOST_AUTO_TEST_CASE(places_and_offsets_are_each_other) {
  const shape s{2, 3, 4};
  for (std::int64_t n = 0; n < s.size(); ++n) BOOST_REQUIRE_EQUAL(s.offset_of(s.place_of(n)), n);
  for (const place& wrong : {place(2, 0, 0), place(0, -1, 0), place(0, 0, 4), place(0, 0), place()})
    BOOST_CHECK_THROW((void)s.offset_of(wrong), value_error);
  BOOST_CHECK_THROW((void)s.place_of(24), value_error);
  BOOST_CHECK_THROW((void)s.place_of(-1), value_error);
  BOOST_CHECK_THROW((void)(shape{0, 3}.place_of(0)), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
