// Losses with weights and ignored targets, against values of ONNX's reference implementation.
#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_SUITE(weighted_loss)

BOOST_AUTO_TEST_CASE(losses) {
  const array a = array_of(dtype::float32, {3, 4},
                           {-1.021651268005371, 0.23901687562465668, 0.18232160806655884, -1.6607311964035034,
                            -1.8325815200805664, 0.37156355381011963, 0.3646431565284729, 0.712949812412262,
                            -2.0402209758758545, -0.3856624662876129, -0.07257068902254105, 0.1739533692598343});
  const array b = array_of(dtype::int64, {3}, {1, 0, 3});
  check(
      {a, b}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::none}); },
      array_of(dtype::float32, {3}, {-0.23901687562465668, 1.8325815200805664, -0.1739533692598343}));
  check(
      {a, b}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::none}).loss; },
      array_of(dtype::float32, {3}, {0.8662399649620056, 3.4598593711853027, 0.9010490775108337}));
  const array c = array_of(dtype::float32, {2, 3, 2, 2}, {0.7300000190734863,  -1.659999966621399,  0.1899999976158142,
                                                          1.190000057220459,   1.6399999856948853,  -2,
                                                          1.2300000190734863,  -1.8300000429153442, 0.7300000190734863,
                                                          0.38999998569488525, 1.809999942779541,   0.5299999713897705,
                                                          -1.7200000286102295, 0.6800000071525574,  -0.9800000190734863,
                                                          1.3300000429153442,  -1.8700000047683716, -0.699999988079071,
                                                          0.7099999785423279,  -1.3799999952316284, 0.5899999737739563,
                                                          0.7900000214576721,  0.9399999976158142,  1.5});
  const array d = array_of(dtype::int64, {2, 2, 2}, {0, 1, 2, 0, 1, 1, 0, 2});
  check(
      {c, d}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::none}); },
      array_of(dtype::float32, {2, 2, 2},
               {-0.7300000190734863, 2, -1.809999942779541, -1.190000057220459, 1.8700000047683716, 0.699999988079071,
                0.9800000190734863, -1.5}));
  check(
      {c, d}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::none}).loss; },
      array_of(dtype::float32, {2, 2, 2},
               {1.5005874633789062, 2.5891497135162354, 0.5640614032745361, 0.448302686214447, 2.629486560821533,
                2.241985321044922, 2.58327579498291, 0.6417484283447266}));
  check(
      {a, b},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::none});
      },
      array_of(dtype::float32, {3}, {0, 1.8325815200805664, -0.1739533692598343}));
  check(
      {a, b},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::none}).loss;
      },
      array_of(dtype::float32, {3}, {0, 3.4598593711853027, 0.9010490775108337}));
  check(
      {c, d},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::none});
      },
      array_of(dtype::float32, {2, 2, 2},
               {-0.7300000190734863, 0, -1.809999942779541, -1.190000057220459, 0, 0, 0.9800000190734863, -1.5}));
  check(
      {c, d},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::none}).loss;
      },
      array_of(
          dtype::float32, {2, 2, 2},
          {1.5005874633789062, 0, 0.5640614032745361, 0.448302686214447, 0, 0, 2.58327579498291, 0.6417484283447266}));
  const array e = array_of(dtype::float32, {4}, {0.5, 1, 2, 0.25});
  check(
      {a, b, e}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::none}); },
      array_of(dtype::float32, {3}, {-0.23901687562465668, 0.9162907600402832, -0.04348834231495857}));
  check(
      {a, b, e},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::none}).loss; },
      array_of(dtype::float32, {3}, {0.8662399649620056, 1.7299296855926514, 0.22526226937770844}));
  const array f = array_of(dtype::float32, {3}, {0.20000000298023224, 0.30000001192092896, 0.6000000238418579});
  check(
      {c, d, f}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::none}); },
      array_of(dtype::float32, {2, 2, 2},
               {-0.14600001275539398, 0.6000000238418579, -1.0859999656677246, -0.2380000203847885, 0.5610000491142273,
                0.21000000834465027, 0.19600000977516174, -0.9000000357627869}));
  check(
      {c, d, f},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::none}).loss; },
      array_of(dtype::float32, {2, 2, 2},
               {0.30011749267578125, 0.7767449617385864, 0.3384368419647217, 0.08966054022312164, 0.7888460159301758,
                0.6725956201553345, 0.5166551470756531, 0.38504907488822937}));
  check(
      {a, b, e},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::none});
      },
      array_of(dtype::float32, {3}, {0, 0.9162907600402832, -0.04348834231495857}));
  check(
      {a, b, e},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::none}).loss;
      },
      array_of(dtype::float32, {3}, {0, 1.7299296855926514, 0.22526226937770844}));
  check(
      {c, d, f},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::none});
      },
      array_of(dtype::float32, {2, 2, 2},
               {-0.14600001275539398, 0, -1.0859999656677246, -0.2380000203847885, 0, 0, 0.19600000977516174,
                -0.9000000357627869}));
  check(
      {c, d, f},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::none}).loss;
      },
      array_of(dtype::float32, {2, 2, 2},
               {0.30011749267578125, 0, 0.3384368419647217, 0.08966054022312164, 0, 0, 0.5166551470756531,
                0.38504907488822937}));
  check(
      {a, b}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::sum}); },
      array_of(dtype::float32, {}, {1.4196112155914307}));
  check(
      {a, b}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::sum}).loss; },
      array_of(dtype::float32, {}, {5.227148532867432}));
  check(
      {c, d}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::sum}); },
      array_of(dtype::float32, {}, {0.31999993324279785}));
  check(
      {c, d}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::sum}).loss; },
      array_of(dtype::float32, {}, {13.19859790802002}));
  check(
      {a, b},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::sum});
      },
      array_of(dtype::float32, {}, {1.6586281061172485}));
  check(
      {a, b},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::sum}).loss;
      },
      array_of(dtype::float32, {}, {4.360908508300781}));
  check(
      {c, d},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::sum});
      },
      array_of(dtype::float32, {}, {-4.25}));
  check(
      {c, d},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::sum}).loss;
      },
      array_of(dtype::float32, {}, {5.73797607421875}));
  check(
      {a, b, e}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::sum}); },
      array_of(dtype::float32, {}, {0.6337855458259583}));
  check(
      {a, b, e},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::sum}).loss; },
      array_of(dtype::float32, {}, {2.821431875228882}));
  check(
      {c, d, f}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::sum}); },
      array_of(dtype::float32, {}, {-0.8029999732971191}));
  check(
      {c, d, f},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::sum}).loss; },
      array_of(dtype::float32, {}, {3.86810564994812}));
  check(
      {a, b, e},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::sum});
      },
      array_of(dtype::float32, {}, {0.8728024363517761}));
  check(
      {a, b, e},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::sum}).loss;
      },
      array_of(dtype::float32, {}, {1.955191969871521}));
  check(
      {c, d, f},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::sum});
      },
      array_of(dtype::float32, {}, {-2.1740000247955322}));
  check(
      {c, d, f},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::sum}).loss;
      },
      array_of(dtype::float32, {}, {1.6299190521240234}));
  check(
      {a, b}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::mean}); },
      array_of(dtype::float32, {}, {0.47320374846458435}));
  check(
      {a, b}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::mean}).loss; },
      array_of(dtype::float32, {}, {1.7423828840255737}));
  check(
      {c, d}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.reduction = loss_reduction::mean}); },
      array_of(dtype::float32, {}, {0.03999999165534973}));
  check(
      {c, d}, [](auto& v) { return softmax_cross_entropy(v[0], v[1], {}, {.reduction = loss_reduction::mean}).loss; },
      array_of(dtype::float32, {}, {1.6498247385025024}));
  check(
      {a, b},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::mean});
      },
      array_of(dtype::float32, {}, {0.8293140530586243}));
  check(
      {a, b},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::mean}).loss;
      },
      array_of(dtype::float32, {}, {2.1804542541503906}));
  check(
      {c, d},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::mean});
      },
      array_of(dtype::float32, {}, {-0.8500000238418579}));
  check(
      {c, d},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], {}, {.ignore_index = 1, .reduction = loss_reduction::mean}).loss;
      },
      array_of(dtype::float32, {}, {1.1475951671600342}));
  check(
      {a, b, e}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::mean}); },
      array_of(dtype::float32, {}, {0.36216315627098083}));
  check(
      {a, b, e},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::mean}).loss; },
      array_of(dtype::float32, {}, {1.6122467517852783}));
  check(
      {c, d, f}, [](auto& v) { return negative_log_likelihood(v[0], v[1], v[2], {.reduction = loss_reduction::mean}); },
      array_of(dtype::float32, {}, {-0.2974073886871338}));
  check(
      {c, d, f},
      [](auto& v) { return softmax_cross_entropy(v[0], v[1], v[2], {.reduction = loss_reduction::mean}).loss; },
      array_of(dtype::float32, {}, {1.4326317310333252}));
  check(
      {a, b, e},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::mean});
      },
      array_of(dtype::float32, {}, {1.1637365818023682}));
  check(
      {a, b, e},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::mean}).loss;
      },
      array_of(dtype::float32, {}, {2.6069226264953613}));
  check(
      {c, d, f},
      [](auto& v) {
        return negative_log_likelihood(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::mean});
      },
      array_of(dtype::float32, {}, {-1.2077778577804565}));
  check(
      {c, d, f},
      [](auto& v) {
        return softmax_cross_entropy(v[0], v[1], v[2], {.ignore_index = 1, .reduction = loss_reduction::mean}).loss;
      },
      array_of(dtype::float32, {}, {0.9055106043815613}));
  check(
      {c, d}, [](auto& v) { return softmax_cross_entropy(v[0], v[1]).log_probabilities; },
      array_of(
          dtype::float32, {2, 3, 2, 2},
          {-1.5005874633789062,  -2.2491495609283447, -2.184061288833618,  -0.448302686214447,  -0.5905874371528625,
           -2.5891497135162354,  -1.1440613269805908, -3.4683027267456055, -1.5005874633789062, -0.19914965331554413,
           -0.5640614032745361,  -1.1083027124404907, -2.4794864654541016, -0.8619851469993591, -2.58327579498291,
           -0.8117485046386719,  -2.629486560821533,  -2.241985321044922,  -0.8932757377624512, -3.5217485427856445,
           -0.16948634386062622, -0.7519851326942444, -0.6632757186889648, -0.6417484283447266}));
  const array g = array_of(dtype::int32, {3}, {1, -100, 3});
  check(
      {a, g}, [](auto& v) { return negative_log_likelihood(v[0], v[1], {}, {.ignore_index = -100}); },
      array_of(dtype::float32, {}, {-0.20648512244224548}));
}

BOOST_AUTO_TEST_SUITE_END()
