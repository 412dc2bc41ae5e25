// Elements at coordinates, and operations that compare positions, against values of ONNX's reference implementation.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// The result of a program over these inputs, exactly or but for rounding.
void check(const std::vector<array>& in, const std::function<value(const std::vector<value>&)>& build,
           const array& expected, bool exact = false) {
  const array y = result_of(in, build);
  BOOST_TEST((y.type == expected.type));
  if (exact) BOOST_TEST(same_bits(y, expected));
  else BOOST_TEST(distance(y, expected) < 2e-6);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(coordinates)

BOOST_AUTO_TEST_CASE(rows_at_coordinates) {
  const array a = array_of(
      dtype::float32, {2, 3, 2},
      {-1.690000057220459, 1.1200000047683716, -0.25, 0.8899999856948853, 1.909999966621399, 0.15000000596046448, 0,
       -1.7100000381469727, -0.9300000071525574, -0.0, 0.7200000286102295, 1.2100000381469727});
  const array b = array_of(dtype::int64, {3, 2}, {0, 1, 1, -1, -2, 0});
  check(
      {a, b}, [](auto& v) { return gather_nd(v[0], v[1]); },
      array_of(
          dtype::float32, {3, 2},
          {-0.25, 0.8899999856948853, 0.7200000286102295, 1.2100000381469727, -1.690000057220459, 1.1200000047683716}),
      true);
  const array c = array_of(dtype::int64, {2, 2, 1}, {2, 0, 1, 1});
  check(
      {a, c}, [](auto& v) { return gather_nd(v[0], v[1], {.batch_dims = 1}); },
      array_of(dtype::float32, {2, 2, 2},
               {1.909999966621399, 0.15000000596046448, -1.690000057220459, 1.1200000047683716, -0.9300000071525574,
                -0.0, -0.9300000071525574, -0.0}),
      true);
  const array d = array_of(dtype::float32, {4, 3},
                           {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, 1.6399999856948853,
                            -1.149999976158142, -0.1899999976158142, 1.7200000286102295, -1.899999976158142,
                            0.4000000059604645, 1.7999999523162842, -1.0800000429153442, 0.1899999976158142});
  const array e = array_of(dtype::int64, {3, 1}, {1, 3, 1});
  const array f = array_of(dtype::float32, {3, 3},
                           {1.6399999856948853, -1.4700000286102295, 0.09000000357627869, 1, 0.6800000071525574,
                            -0.12999999523162842, -1.1799999475479126, -0.03999999910593033, -0.5099999904632568});
  check(
      {d, e, f}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::none}); },
      array_of(dtype::float32, {4, 3},
               {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, -1.1799999475479126,
                -0.03999999910593033, -0.5099999904632568, 1.7200000286102295, -1.899999976158142, 0.4000000059604645,
                1, 0.6800000071525574, -0.12999999523162842}));
  check(
      {d, e, f}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::add}); },
      array_of(dtype::float32, {4, 3},
               {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, 2.0999999046325684, -2.6599998474121094,
                -0.6100000143051147, 1.7200000286102295, -1.899999976158142, 0.4000000059604645, 2.799999952316284,
                -0.40000003576278687, 0.06000000238418579}));
  check(
      {d, e, f}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::multiply}); },
      array_of(dtype::float32, {4, 3},
               {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, -3.1737277507781982,
                -0.06762000173330307, 0.008721000514924526, 1.7200000286102295, -1.899999976158142, 0.4000000059604645,
                1.7999999523162842, -0.7344000339508057, -0.024699999019503593}));
  check(
      {d, e, f}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::maximum}); },
      array_of(dtype::float32, {4, 3},
               {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, 1.6399999856948853,
                -0.03999999910593033, 0.09000000357627869, 1.7200000286102295, -1.899999976158142, 0.4000000059604645,
                1.7999999523162842, 0.6800000071525574, 0.1899999976158142}));
  check(
      {d, e, f}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::minimum}); },
      array_of(dtype::float32, {4, 3},
               {-0.47999998927116394, -1.7400000095367432, -0.8500000238418579, -1.1799999475479126,
                -1.4700000286102295, -0.5099999904632568, 1.7200000286102295, -1.899999976158142, 0.4000000059604645, 1,
                -1.0800000429153442, -0.12999999523162842}));
  const array g = array_of(dtype::int64, {4}, {5, -3, 7, 2});
  const array h = array_of(dtype::int64, {3}, {2, 9, -4});
  check(
      {g, e, h}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::add}); },
      array_of(dtype::int64, {4}, {5, -5, 7, 11}), true);
  check(
      {g, e, h}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::multiply}); },
      array_of(dtype::int64, {4}, {5, 24, 7, 18}), true);
  check(
      {g, e, h}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::maximum}); },
      array_of(dtype::int64, {4}, {5, 2, 7, 9}), true);
  check(
      {g, e, h}, [](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = scatter_reduction::minimum}); },
      array_of(dtype::int64, {4}, {5, -4, 7, 2}), true);
}

BOOST_AUTO_TEST_CASE(elements_along_an_axis) {
  const array a = array_of(dtype::float32, {3, 4},
                           {-0.09000000357627869, -0.5400000214576721, 1.350000023841858, 1.0700000524520874,
                            -0.7400000095367432, 0.28999999165534973, -0.8999999761581421, -0.1899999976158142,
                            -0.5899999737739563, 0.6299999952316284, -0.5199999809265137, -0.1599999964237213});
  const array b = array_of(dtype::int64, {2, 3}, {1, -1, 0, 3, 3, 2});
  check(
      {a, b}, [](auto& v) { return gather_elements(v[0], v[1], {1}); },
      array_of(dtype::float32, {2, 3},
               {-0.5400000214576721, 1.0700000524520874, -0.09000000357627869, -0.1899999976158142, -0.1899999976158142,
                -0.8999999761581421}),
      true);
  const array c = array_of(dtype::float32, {2, 3},
                           {0.8799999952316284, -0.3499999940395355, 1.6299999952316284, -1.2799999713897705,
                            0.9599999785423279, -0.3100000023841858});
  check(
      {a, b, c},
      [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1, .reduction = scatter_reduction::none}); },
      array_of(dtype::float32, {3, 4},
               {1.6299999952316284, 0.8799999952316284, 1.350000023841858, -0.3499999940395355, -0.7400000095367432,
                0.28999999165534973, -0.3100000023841858, 0.9599999785423279, -0.5899999737739563, 0.6299999952316284,
                -0.5199999809265137, -0.1599999964237213}));
  check(
      {a, b, c},
      [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1, .reduction = scatter_reduction::add}); },
      array_of(dtype::float32, {3, 4},
               {1.5399999618530273, 0.3399999737739563, 1.350000023841858, 0.7200000286102295, -0.7400000095367432,
                0.28999999165534973, -1.2100000381469727, -0.5100000500679016, -0.5899999737739563, 0.6299999952316284,
                -0.5199999809265137, -0.1599999964237213}));
  check(
      {a, b, c},
      [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1, .reduction = scatter_reduction::multiply}); },
      array_of(dtype::float32, {3, 4},
               {-0.14670000970363617, -0.47520002722740173, 1.350000023841858, -0.37450000643730164,
                -0.7400000095367432, 0.28999999165534973, 0.2789999842643738, 0.23347198963165283, -0.5899999737739563,
                0.6299999952316284, -0.5199999809265137, -0.1599999964237213}));
  check(
      {a, b, c},
      [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1, .reduction = scatter_reduction::maximum}); },
      array_of(dtype::float32, {3, 4},
               {1.6299999952316284, 0.8799999952316284, 1.350000023841858, 1.0700000524520874, -0.7400000095367432,
                0.28999999165534973, -0.3100000023841858, 0.9599999785423279, -0.5899999737739563, 0.6299999952316284,
                -0.5199999809265137, -0.1599999964237213}));
  check(
      {a, b, c},
      [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1, .reduction = scatter_reduction::minimum}); },
      array_of(dtype::float32, {3, 4},
               {-0.09000000357627869, -0.5400000214576721, 1.350000023841858, -0.3499999940395355, -0.7400000095367432,
                0.28999999165534973, -0.8999999761581421, -1.2799999713897705, -0.5899999737739563, 0.6299999952316284,
                -0.5199999809265137, -0.1599999964237213}));
  const array d = array_of(dtype::int64, {1, 4}, {1, 0, 2, -1});
  const array e = array_of(dtype::float32, {1, 4},
                           {-0.28999999165534973, 0.5400000214576721, 0.09000000357627869, -0.3400000035762787});
  check(
      {a, d, e}, [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 0}); },
      array_of(dtype::float32, {3, 4},
               {-0.09000000357627869, 0.5400000214576721, 1.350000023841858, 1.0700000524520874, -0.28999999165534973,
                0.28999999165534973, -0.8999999761581421, -0.1899999976158142, -0.5899999737739563, 0.6299999952316284,
                0.09000000357627869, -0.3400000035762787}),
      true);
}

BOOST_AUTO_TEST_CASE(triangles) {
  const array a = array_of(
      dtype::float32, {2, 3, 4},
      {-1.9900000095367432,  -1.6299999952316284, 0.8399999737739563,  0.10000000149011612,  0.7799999713897705,
       1.8200000524520874,   0.7300000190734863,  -1.7899999618530273, -0.7599999904632568,  0.3700000047683716,
       -1.059999942779541,   1.8600000143051147,  1.7799999713897705,  1.3899999856948853,   -0.10999999940395355,
       1.3700000047683716,   -1.4800000190734863, -0.7699999809265137, -0.15000000596046448, 0.9700000286102295,
       -0.05999999865889549, -1.4500000476837158, -0.6299999952316284, -0.699999988079071});
  const array b = array_of(dtype::int64, {}, {-1});
  check(
      {a, b}, [](auto& v) { return trilu(v[0], v[1], {.upper = true}); },
      array_of(dtype::float32, {2, 3, 4}, {-1.9900000095367432,  -1.6299999952316284, 0.8399999737739563,
                                           0.10000000149011612,  0.7799999713897705,  1.8200000524520874,
                                           0.7300000190734863,   -1.7899999618530273, 0,
                                           0.3700000047683716,   -1.059999942779541,  1.8600000143051147,
                                           1.7799999713897705,   1.3899999856948853,  -0.10999999940395355,
                                           1.3700000047683716,   -1.4800000190734863, -0.7699999809265137,
                                           -0.15000000596046448, 0.9700000286102295,  0,
                                           -1.4500000476837158,  -0.6299999952316284, -0.699999988079071}),
      true);
  check(
      {a, b}, [](auto& v) { return trilu(v[0], v[1], {.upper = false}); },
      array_of(dtype::float32, {2, 3, 4},
               {0, 0, 0, 0, 0.7799999713897705,  0, 0, 0, -0.7599999904632568,  0.3700000047683716,  0, 0,
                0, 0, 0, 0, -1.4800000190734863, 0, 0, 0, -0.05999999865889549, -1.4500000476837158, 0, 0}),
      true);
  const array c = array_of(dtype::int64, {}, {0});
  check(
      {a, c}, [](auto& v) { return trilu(v[0], v[1], {.upper = true}); },
      array_of(dtype::float32, {2, 3, 4},
               {-1.9900000095367432,
                -1.6299999952316284,
                0.8399999737739563,
                0.10000000149011612,
                0,
                1.8200000524520874,
                0.7300000190734863,
                -1.7899999618530273,
                0,
                0,
                -1.059999942779541,
                1.8600000143051147,
                1.7799999713897705,
                1.3899999856948853,
                -0.10999999940395355,
                1.3700000047683716,
                0,
                -0.7699999809265137,
                -0.15000000596046448,
                0.9700000286102295,
                0,
                0,
                -0.6299999952316284,
                -0.699999988079071}),
      true);
  check(
      {a, c}, [](auto& v) { return trilu(v[0], v[1], {.upper = false}); },
      array_of(dtype::float32, {2, 3, 4},
               {-1.9900000095367432,
                0,
                0,
                0,
                0.7799999713897705,
                1.8200000524520874,
                0,
                0,
                -0.7599999904632568,
                0.3700000047683716,
                -1.059999942779541,
                0,
                1.7799999713897705,
                0,
                0,
                0,
                -1.4800000190734863,
                -0.7699999809265137,
                0,
                0,
                -0.05999999865889549,
                -1.4500000476837158,
                -0.6299999952316284,
                0}),
      true);
  const array d = array_of(dtype::int64, {}, {2});
  check(
      {a, d}, [](auto& v) { return trilu(v[0], v[1], {.upper = true}); },
      array_of(dtype::float32, {2, 3, 4},
               {0, 0, 0.8399999737739563,   0.10000000149011612, 0, 0, 0, -1.7899999618530273, 0, 0, 0, 0,
                0, 0, -0.10999999940395355, 1.3700000047683716,  0, 0, 0, 0.9700000286102295,  0, 0, 0, 0}),
      true);
  check(
      {a, d}, [](auto& v) { return trilu(v[0], v[1], {.upper = false}); },
      array_of(dtype::float32, {2, 3, 4},
               {-1.9900000095367432,  -1.6299999952316284, 0.8399999737739563,   0,
                0.7799999713897705,   1.8200000524520874,  0.7300000190734863,   -1.7899999618530273,
                -0.7599999904632568,  0.3700000047683716,  -1.059999942779541,   1.8600000143051147,
                1.7799999713897705,   1.3899999856948853,  -0.10999999940395355, 0,
                -1.4800000190734863,  -0.7699999809265137, -0.15000000596046448, 0.9700000286102295,
                -0.05999999865889549, -1.4500000476837158, -0.6299999952316284,  -0.699999988079071}),
      true);
  const array e = array_of(dtype::int64, {}, {5});
  check(
      {a, e}, [](auto& v) { return trilu(v[0], v[1], {.upper = true}); },
      array_of(dtype::float32, {2, 3, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
      true);
  check(
      {a, e}, [](auto& v) { return trilu(v[0], v[1], {.upper = false}); },
      array_of(
          dtype::float32, {2, 3, 4},
          {-1.9900000095367432,  -1.6299999952316284, 0.8399999737739563,  0.10000000149011612,  0.7799999713897705,
           1.8200000524520874,   0.7300000190734863,  -1.7899999618530273, -0.7599999904632568,  0.3700000047683716,
           -1.059999942779541,   1.8600000143051147,  1.7799999713897705,  1.3899999856948853,   -0.10999999940395355,
           1.3700000047683716,   -1.4800000190734863, -0.7699999809265137, -0.15000000596046448, 0.9700000286102295,
           -0.05999999865889549, -1.4500000476837158, -0.6299999952316284, -0.699999988079071}),
      true);
  const array f = array_of(dtype::int64, {}, {-5});
  check(
      {a, f}, [](auto& v) { return trilu(v[0], v[1], {.upper = true}); },
      array_of(
          dtype::float32, {2, 3, 4},
          {-1.9900000095367432,  -1.6299999952316284, 0.8399999737739563,  0.10000000149011612,  0.7799999713897705,
           1.8200000524520874,   0.7300000190734863,  -1.7899999618530273, -0.7599999904632568,  0.3700000047683716,
           -1.059999942779541,   1.8600000143051147,  1.7799999713897705,  1.3899999856948853,   -0.10999999940395355,
           1.3700000047683716,   -1.4800000190734863, -0.7699999809265137, -0.15000000596046448, 0.9700000286102295,
           -0.05999999865889549, -1.4500000476837158, -0.6299999952316284, -0.699999988079071}),
      true);
  check(
      {a, f}, [](auto& v) { return trilu(v[0], v[1], {.upper = false}); },
      array_of(dtype::float32, {2, 3, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
      true);
  const array g = array_of(dtype::boolean, {2, 3}, {1, 1, 0, 1, 1, 1});
  check({g}, [](auto& v) { return trilu(v[0], 0); }, array_of(dtype::boolean, {2, 3}, {1, 1, 0, 0, 1, 1}), true);
  const array h = array_of(dtype::float32, {3, 4},
                           {-0.800000011920929, -1.340000033378601, -0.3400000035762787, -0.20999999344348907,
                            1.100000023841858, 1.190000057220459, 0.09000000357627869, -0.1599999964237213,
                            1.1100000143051147, 1.5499999523162842, 0.699999988079071, 1.2000000476837158});
  check(
      {h}, [](auto& v) { return eye_like(v[0], dtype::int32, 1); },
      array_of(dtype::int32, {3, 4}, {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}), true);
}

BOOST_AUTO_TEST_CASE(one_hot_rows) {
  const array a = array_of(dtype::int64, {2, 3}, {1, -1, 4, 0, 7, -4});
  const array b = array_of(dtype::int64, {1}, {4});
  const array c = array_of(dtype::float32, {2}, {-1, 3});
  check(
      {a, b, c}, [](auto& v) { return one_hot_of(v[0], v[1], v[2], {-1}); },
      array_of(dtype::float32, {2, 3, 4},
               {-1, 3, -1, -1, -1, -1, -1, 3, -1, -1, -1, -1, 3, -1, -1, -1, -1, -1, -1, -1, 3, -1, -1, -1}),
      true);
  check(
      {a, b, c}, [](auto& v) { return one_hot_of(v[0], v[1], v[2], {0}); },
      array_of(dtype::float32, {4, 2, 3},
               {-1, -1, -1, 3, -1, 3, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3, -1, -1, -1, -1}),
      true);
  check(
      {a, b, c}, [](auto& v) { return one_hot_of(v[0], v[1], v[2], {1}); },
      array_of(dtype::float32, {2, 4, 3},
               {-1, -1, -1, 3, -1, -1, -1, -1, -1, -1, 3, -1, 3, -1, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1}),
      true);
  const array d = array_of(dtype::boolean, {2}, {1, 0});
  check(
      {a, b, d}, [](auto& v) { return one_hot_of(v[0], v[1], v[2]); },
      array_of(dtype::boolean, {2, 3, 4}, {1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}),
      true);
  const array e = array_of(dtype::float32, {2, 4}, {1, 3, 3, 2, 4, 0, 4, 1});
  check({e}, [](auto& v) { return hardmax(v[0]); }, array_of(dtype::float32, {2, 4}, {0, 1, 0, 0, 1, 0, 0, 0}), true);
  check(
      {e}, [](auto& v) { return hardmax(v[0], {0}); }, array_of(dtype::float32, {2, 4}, {0, 1, 0, 1, 1, 0, 1, 0}),
      true);
  check({e}, [](auto& v) { return last_argmax(v[0], {.axis = 1}); }, array_of(dtype::int64, {2}, {2, 2}), true);
  const array f = array_of(dtype::int32, {3, 2}, {1, 0, 1, 0, 2, 0});
  check(
      {f}, [](auto& v) { return last_argmin(v[0], {.axis = 0, .keepdim = true}); },
      array_of(dtype::int64, {1, 2}, {1, 2}), true);
}

BOOST_AUTO_TEST_CASE(sequences) {
  const array a = array_of(dtype::float32, {4, 3, 2},
                           {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  const array b = array_of(dtype::int64, {3}, {4, 0, 3});
  check(
      {a, b}, [](auto& v) { return reverse_sequence(v[0], v[1]); },
      array_of(dtype::float32, {4, 3, 2},
               {18, 19, 2, 3, 16, 17, 12, 13, 8, 9, 10, 11, 6, 7, 14, 15, 4, 5, 0, 1, 20, 21, 22, 23}),
      true);
  const array c = array_of(dtype::float32, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const array d = array_of(dtype::int64, {3}, {1, 2, 4});
  check(
      {c, d}, [](auto& v) { return reverse_sequence(v[0], v[1], {.time_axis = 1, .batch_axis = 0}); },
      array_of(dtype::float32, {3, 4}, {0, 1, 2, 3, 5, 4, 6, 7, 11, 10, 9, 8}), true);
  const array e = array_of(
      dtype::float32, {2, 1, 4, 2},
      {1.7599999904632568, -1.840000033378601, 1.5, -0.8899999856948853, -0.10000000149011612, 1.190000057220459,
       0.8700000047683716, -1.409999966621399, 0.6299999952316284, -1.7200000286102295, -0.5699999928474426, 1.25,
       -0.28999999165534973, 0.4000000059604645, 0.9100000262260437, 1.2799999713897705});
  const array f = array_of(dtype::float32, {2, 1, 2, 2},
                           {1.0399999618530273, -1.9700000286102295, -0.3199999928474426, -0.15000000596046448,
                            -1.7799999713897705, 0.17000000178813934, 0.4300000071525574, 1.309999942779541});
  const array g = array_of(dtype::int64, {2}, {1, 2});
  check(
      {e, f, g}, [](auto& v) { return tensor_scatter(v[0], v[1], v[2]); },
      array_of(
          dtype::float32, {2, 1, 4, 2},
          {1.7599999904632568, -1.840000033378601, 1.0399999618530273, -1.9700000286102295, -0.3199999928474426,
           -0.15000000596046448, 0.8700000047683716, -1.409999966621399, 0.6299999952316284, -1.7200000286102295,
           -0.5699999928474426, 1.25, -1.7799999713897705, 0.17000000178813934, 0.4300000071525574, 1.309999942779541}),
      true);
  const array h = array_of(dtype::int64, {2}, {3, 1});
  check(
      {e, f, h}, [](auto& v) { return tensor_scatter(v[0], v[1], v[2], {.circular = true}); },
      array_of(
          dtype::float32, {2, 1, 4, 2},
          {-0.3199999928474426, -0.15000000596046448, 1.5, -0.8899999856948853, -0.10000000149011612, 1.190000057220459,
           1.0399999618530273, -1.9700000286102295, 0.6299999952316284, -1.7200000286102295, -1.7799999713897705,
           0.17000000178813934, 0.4300000071525574, 1.309999942779541, 0.9100000262260437, 1.2799999713897705}),
      true);
  const array i = array_of(dtype::float32, {2, 3, 2},
                           {1.7699999809265137, -1.4900000095367432, -1.0800000429153442, 0.6399999856948853,
                            -1.4700000286102295, -1.100000023841858, 0.30000001192092896, -1.3200000524520874,
                            1.1299999952316284, 1.4299999475479126, -1.8700000047683716, 0.12999999523162842});
  const array j = array_of(dtype::float32, {2, 2, 2},
                           {1.190000057220459, 1.899999976158142, -0.8999999761581421, -1.3200000524520874,
                            1.5099999904632568, 1.6399999856948853, -1.2100000381469727, -0.23000000417232513});
  check(
      {i, j}, [](auto& v) { return tensor_scatter(v[0], v[1]); },
      array_of(dtype::float32, {2, 3, 2},
               {1.190000057220459, 1.899999976158142, -0.8999999761581421, -1.3200000524520874, -1.4700000286102295,
                -1.100000023841858, 1.5099999904632568, 1.6399999856948853, -1.2100000381469727, -0.23000000417232513,
                -1.8700000047683716, 0.12999999523162842}),
      true);
  check({i}, [](auto& v) { return size_of_value(v[0]); }, array_of(dtype::int64, {}, {12}), true);
}

BOOST_AUTO_TEST_CASE(running_products) {
  const array a = array_of(dtype::float32, {2, 3, 2},
                           {0.8799999952316284, 1.3799999952316284, -1.3300000429153442, 0.6600000262260437,
                            1.2300000190734863, 0.20000000298023224, -1.340000033378601, -1.8600000143051147,
                            -0.8700000047683716, 1.2300000190734863, -1.8200000524520874, -1.9700000286102295});
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 0, .exclusive = false, .reverse = false}); },
      array_of(dtype::float32, {2, 3, 2},
               {0.8799999952316284, 1.3799999952316284, -1.3300000429153442, 0.6600000262260437, 1.2300000190734863,
                0.20000000298023224, -1.1792000532150269, -2.566800117492676, 1.1571000814437866, 0.8118000626564026,
                -2.238600015640259, -0.39400002360343933}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 1, .exclusive = false, .reverse = false}); },
      array_of(dtype::float32, {2, 3, 2},
               {0.8799999952316284, 1.3799999952316284, -1.1704000234603882, 0.910800039768219, -1.4395920038223267,
                0.18216000497341156, -1.340000033378601, -1.8600000143051147, 1.1658000946044922, -2.2878000736236572,
                -2.1217563152313232, 4.5069661140441895}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 0, .exclusive = false, .reverse = true}); },
      array_of(dtype::float32, {2, 3, 2},
               {-1.1792000532150269, -2.566800117492676, 1.1571000814437866, 0.8118000626564026, -2.238600015640259,
                -0.39400002360343933, -1.340000033378601, -1.8600000143051147, -0.8700000047683716, 1.2300000190734863,
                -1.8200000524520874, -1.9700000286102295}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 1, .exclusive = false, .reverse = true}); },
      array_of(dtype::float32, {2, 3, 2},
               {-1.4395920038223267, 0.18216001987457275, -1.6359000205993652, 0.13200001418590546, 1.2300000190734863,
                0.20000000298023224, -2.121756076812744, 4.5069661140441895, 1.583400011062622, -2.423099994659424,
                -1.8200000524520874, -1.9700000286102295}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 0, .exclusive = true, .reverse = false}); },
      array_of(dtype::float32, {2, 3, 2},
               {1, 1, 1, 1, 1, 1, 0.8799999952316284, 1.3799999952316284, -1.3300000429153442, 0.6600000262260437,
                1.2300000190734863, 0.20000000298023224}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 1, .exclusive = true, .reverse = false}); },
      array_of(dtype::float32, {2, 3, 2},
               {1, 1, 0.8799999952316284, 1.3799999952316284, -1.1704000234603882, 0.910800039768219, 1, 1,
                -1.340000033378601, -1.8600000143051147, 1.1658000946044922, -2.2878000736236572}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 0, .exclusive = true, .reverse = true}); },
      array_of(dtype::float32, {2, 3, 2},
               {-1.340000033378601, -1.8600000143051147, -0.8700000047683716, 1.2300000190734863, -1.8200000524520874,
                -1.9700000286102295, 1, 1, 1, 1, 1, 1}));
  check(
      {a}, [](auto& v) { return cumprod(v[0], {.axis = 1, .exclusive = true, .reverse = true}); },
      array_of(dtype::float32, {2, 3, 2},
               {-1.6359000205993652, 0.13200001418590546, 1.2300000190734863, 0.20000000298023224, 1, 1,
                1.583400011062622, -2.423099994659424, -1.8200000524520874, -1.9700000286102295, 1, 1}));
  const array b = array_of(dtype::int64, {4}, {3, -2, 5, 1099511627776.0});
  check(
      {b}, [](auto& v) { return cumprod(v[0], {.axis = 0}); },
      array_of(dtype::int64, {4}, {3, -6, -30, -32985348833280.0}), true);
}

// Every reduction of every number type, against a loop over the positions in order.
BOOST_AUTO_TEST_CASE(reductions_of_every_type) {
  const auto reduced = [](scatter_reduction r, double x, double y) {
    switch (r) {
      case scatter_reduction::add: return x + y;
      case scatter_reduction::multiply: return x * y;
      case scatter_reduction::maximum: return std::max(x, y);
      case scatter_reduction::minimum: return std::min(x, y);
      default: return y;
    }
  };
  for (auto element : {dtype::float32, dtype::float64, dtype::int8, dtype::int16, dtype::int32, dtype::int64,
                       dtype::uint8, dtype::float16, dtype::bfloat16, dtype::boolean, dtype::uint16, dtype::uint32,
                       dtype::uint64, dtype::float8_e4m3fn})
    for (std::int64_t rows : {0, 1, 7, 40})
      for (std::int64_t width : {0, 1, 3, 17, 70})
        for (int k = 0; k < (is_real(element) || is_integer(element) ? 5 : 1); ++k) {
          const auto reduction = static_cast<scatter_reduction>(k);
          const double low = is_real(element) || element == dtype::int8 || element == dtype::int64 ? -2 : 0;
          const auto whole = [](array a) {  // exact in every type
            for (auto& v : a.values) v = a.type.element == dtype::boolean ? v : std::round(v) + 0.;
            return a;
          };
          const array x = whole(random_array(element, {5, 3, width}, 1, low, 2)),
                      updates = whole(random_array(element, {rows, width}, 2, low, 2)),
                      index = random_array(dtype::int64, {rows, 2}, 3, -3, 3);
          array want = x;
          for (std::int64_t r = 0; r < rows; ++r) {
            const auto at = [&](std::int64_t i, std::int64_t n) {
              const auto p = static_cast<std::int64_t>(index.values[static_cast<std::size_t>(2 * r + i)]);
              return p < 0 ? p + n : p;
            };
            for (std::int64_t i = 0; i < width; ++i) {
              double& to = want.values[static_cast<std::size_t>((at(0, 5) * 3 + at(1, 3)) * width + i)];
              to = reduced(reduction, to, updates.values[static_cast<std::size_t>(r * width + i)]);
              if (element == dtype::int8) to = static_cast<std::int8_t>(static_cast<std::int64_t>(to));
              else if (element == dtype::uint8) to = static_cast<std::uint8_t>(static_cast<std::int64_t>(to));
              else if (is_integer(element)) to += 0.;
            }
          }
          check(
              {x, index, updates}, [&](auto& v) { return scatter_nd(v[0], v[1], v[2], {.reduction = reduction}); },
              want, true);
        }
}

BOOST_AUTO_TEST_CASE(positions_outside) {
  const array x = array_of(dtype::float32, {2, 3}, {1, 2, 3, 4, 5, 6}), u = array_of(dtype::float32, {1}, {9});
  const auto failure = [](const std::vector<array>& in, const std::function<value(const std::vector<value>&)>& build) {
    return message_of([&] { result_of(in, build); });
  };
  const array at = array_of(dtype::int64, {1, 2}, {1, 3});
  BOOST_TEST(failure({x, at}, [](auto& v) { return gather_nd(v[0], v[1]); }) ==
             "gather_nd: a position is outside of its axis: 3 at [0, 1] (1 in total)");
  BOOST_TEST(failure({x, at, u}, [](auto& v) { return scatter_nd(v[0], v[1], v[2]); }) ==
             "scatter_nd: a position is outside of its axis: 3 at [0, 1] (1 in total)");
  const array along = array_of(dtype::int64, {1, 1}, {-4}), one = array_of(dtype::float32, {1, 1}, {9});
  BOOST_TEST(failure({x, along, one}, [](auto& v) { return scatter_elements(v[0], v[1], v[2], {.axis = 1}); }) ==
             "put_along_axis: a position is outside of its axis: -4 at [0, 0] (1 in total)");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit) {
  small_graph g;
  const value x = g.input(array_of(dtype::float32, {2, 3}, std::vector<double>(6))),
              at = g.input(array_of(dtype::int64, {4, 3}, std::vector<double>(12))),
              truth = g.input(array_of(dtype::boolean, {2, 3}, std::vector<double>(6))),
              rows = g.input(array_of(dtype::int64, {2, 1}, {0, 1}));
  BOOST_TEST(message_of([&] { gather_nd(x, at); }) ==
             "gather_nd: 3 coordinates after 0 batch axes do not fit the ranks: float32[2x3] int64[4x3]");
  BOOST_TEST(message_of([&] { gather_nd(x, rows, {.coordinates = 2}); }) ==
             "gather_nd: the last extent of the positions must be the number of coordinates of a row: float32[2x3] "
             "int64[2x1]");
  BOOST_TEST(message_of([&] { scatter_nd(x, rows, x, {.batch_dims = 1}); }) ==
             "scatter_nd: the updates must be float32[2]: float32[2x3] int64[2x1] float32[2x3]");
  BOOST_TEST(
      message_of([&] { scatter_nd(truth, rows, truth, {.reduction = scatter_reduction::add}); }) ==
      "scatter_nd: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2x3] "
      "int64[2x1] bool[2x3]");
  BOOST_TEST(message_of([&] { scatter_elements(x, at, x, {.axis = 0}); }) ==
             "put_along_axis: the updates must be float32[4x3]: float32[2x3] int64[4x3] float32[2x3]");
  BOOST_TEST(
      message_of([&] { scatter_elements(x, at, x, {.axis = 1}); }) ==
      "put_along_axis: the positions must fit the shape of the operand except along axis 1: float32[2x3] int64[4x3] "
      "float32[2x3]");
  BOOST_TEST(message_of([&] { reverse_sequence(x, rows, {.time_axis = 1, .batch_axis = -1}); }) ==
             "reverse_sequence: time_axis and batch_axis must differ");
  BOOST_TEST(message_of([&] { hardmax(x, {2}); }) == "hardmax: axis 2 is outside the rank of [2x3]");
}

BOOST_AUTO_TEST_SUITE_END()
