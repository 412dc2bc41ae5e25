// Gradients of normalisation, attention and rotary positions, first and second order.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace engine_test;

BOOST_AUTO_TEST_SUITE(gradient_of_transformers)

BOOST_AUTO_TEST_CASE(normalised_rows) {
  for (const auto& s : {shape{2, 5}, shape{7}, shape{2, 3, 4}, shape{0, 3}, shape{3, 2}, shape{1, 20}}) {
    const shape row{s.back()};
    const std::vector<array> in{real(s, 1), real(row, 2), real(row, 3)};
    check_twice("layer_norm", in, [](const auto& x) { return values{layer_norm(x[0], x[1], x[2]), layer_norm(x[0], {.epsilon = 0.1}) + sum_like(x[1] * x[2], x[1])}; });
    check_twice("rms_norm", {in[0], in[1]}, [](const auto& x) { return values{rms_norm(x[0], x[1]), rms_norm(x[0])}; });
  }
  check("rows of two axes", {real({2, 3, 4}, 1), real({3, 4}, 2), real({3, 4}, 3)}, [](const auto& x) { return values{layer_norm(x[0], x[1], x[2])}; });
  for (const auto& s : {shape{2, 6, 3}, shape{1, 3, 4}, shape{0, 6, 2}, shape{2, 6}, shape{1, 9, 2, 1}})
    check_twice("group_norm", {real(s, 1), real({s[1]}, 2), real({s[1]}, 3)}, [](const auto& x) { return values{group_norm(x[0], x[1], x[2], {.groups = 3, .epsilon = 0.1})}; }, true, extents_known::when_built);
  for (const auto& s : {shape{2, 3, 2, 2}, shape{1, 2, 4}, shape{0, 3, 2}, shape{2, 1, 5}, shape{1, 2, 1, 3}})
    check_twice("instance_norm", {real(s, 1), real({s[1]}, 2), real({s[1]}, 3)}, [](const auto& x) { return values{instance_norm(x[0], x[1], x[2])}; }, true, extents_known::when_built);
}

BOOST_AUTO_TEST_CASE(attention_to_every_operand) {
  struct problem { shape q, k, v; };
  for (const auto& [q, k, v] : {problem{{3, 4}, {5, 4}, {5, 2}}, {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, {{4, 3, 2}, {2, 4, 2}, {2, 4, 3}}, {{1, 4, 1, 2}, {1, 1, 1, 2}, {1, 1, 1, 2}},
                                {{2, 0, 3}, {2, 2, 3}, {2, 2, 3}}})
    for (bool causal : {false, true}) {
      const attention_attributes a{.causal = causal};
      const std::vector<array> in{real(q, 1), real(k, 2), real(v, 3)};
      const bool shared = q.rank > 2 && q[q.rank - 3] != k[k.rank - 3];      // the numbers of heads must be known
      const auto open = shared ? extents_known::when_built : extents_known::both_ways;
      check_twice("attention", in, [&](const auto& x) { return values{attention(x[0], x[1], x[2], a)}; }, true, open);
      for (const auto& m : {shape{q[q.rank - 2], k[k.rank - 2]}, shape{k[k.rank - 2]}, shape{q[q.rank - 2], 1}}) {
        check_twice("attention under an added mask", {in[0], in[1], in[2], real(m, 4)}, [&](const auto& x) { return values{attention(x[0], x[1], x[2], x[3], a)}; }, true, open);
        check("attention under a mask", {in[0], in[1], in[2], random_array(dtype::boolean, m, 4)}, [&](const auto& x) { return values{attention(x[0], x[1], x[2], x[3], a)}; }, true, open);
      }
    }
  check_twice("a mask for each head", {real({4, 3, 2}, 1), real({2, 4, 2}, 2), real({2, 4, 3}, 3), real({4, 3, 4}, 4)}, [](const auto& x) { return values{attention(x[0], x[1], x[2], x[3])}; }, true, extents_known::when_built);
  check("one value as query, key and value", {real({2, 4, 3}, 1)}, [](const auto& x) { return values{attention(x[0], x[0], x[0], {.causal = true})}; });
}

BOOST_AUTO_TEST_CASE(rotary_positions) {
  for (const auto& s : {shape{3, 4}, shape{2, 1, 2}, shape{2, 2, 3, 6}, shape{0, 2}, shape{1, 8}})
    for (bool interleaved : {false, true}) {
      const array positions = random_array(dtype::int64, {s[s.rank - 2]}, 2, 0, 9);
      check_twice("rope", {real(s, 1), positions}, [&](const auto& x) { return values{rope(x[0], x[1], {.interleaved = interleaved})}; });
    }
}

BOOST_AUTO_TEST_SUITE_END()
