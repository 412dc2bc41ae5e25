// A topology of 200 sublayers must compile.
#include <boost/test/unit_test.hpp>

import lamina;

#include "large_topology.h"

using namespace lamina;
using large_test::large;

namespace {

static_assert(large.size == 200 && ValidTopology<large>);
static_assert(no_error<shape_check<large, input<"N", 16>>>);
static_assert(output_type_of<large, input<"N", 16>>.dims == shape{"N", 16});
static_assert(!no_error<shape_check<large, input<"N", 17>>>);

}  // namespace

BOOST_AUTO_TEST_CASE(two_hundred_sublayers_are_in_order) {
  std::size_t position[200]{};
  for (std::size_t i = 0; i < 200; ++i) position[large.wires.order[i]] = i;
  for (std::size_t i = 3; i < 200; i += 4) BOOST_TEST(position[i] > position[i - 1]);
}
