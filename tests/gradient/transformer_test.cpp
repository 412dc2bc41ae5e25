// Gradients of normalization, attention and rotary positions, first and second order.
module;
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

BOOST_AUTO_TEST_SUITE(gradient_of_transformers)

BOOST_AUTO_TEST_CASE(normalized_rows) {
  for (const auto& s : {shape{2, 5}, shape{7}, shape{2, 3, 4}, shape{0, 3}, shape{3, 2}, shape{1, 20}}) {
    const shape row{s.back()};
    const std::vector<array> in{real(s, 1), real(row, 2), real(row, 3)};
    check_twice("layer_norm", in, [](const auto& x) {
      return values{layer_norm(x[0], x[1], x[2]), layer_norm(x[0], {.epsilon = 0.1}) + sum_like(x[1] * x[2], x[1])};
    });
    check_twice("rms_norm", {in[0], in[1]}, [](const auto& x) { return values{rms_norm(x[0], x[1]), rms_norm(x[0])}; });
  }
  check("rows of two axes", {real({2, 3, 4}, 1), real({3, 4}, 2), real({3, 4}, 3)},
        [](const auto& x) { return values{layer_norm(x[0], x[1], x[2])}; });
  for (const auto& s : {shape{2, 6, 3}, shape{1, 3, 4}, shape{0, 6, 2}, shape{2, 6}, shape{1, 9, 2, 1}})
    check_twice(
        "group_norm", {real(s, 1), real({s[1]}, 2), real({s[1]}, 3)},
        [](const auto& x) { return values{group_norm(x[0], x[1], x[2], {.num_groups = 3, .epsilon = 0.1})}; }, true,
        extents_known::when_built);
  for (const auto& s : {shape{2, 3, 2, 2}, shape{1, 2, 4}, shape{0, 3, 2}, shape{2, 1, 5}, shape{1, 2, 1, 3}})
    check_twice(
        "instance_norm", {real(s, 1), real({s[1]}, 2), real({s[1]}, 3)},
        [](const auto& x) { return values{instance_norm(x[0], x[1], x[2])}; }, true, extents_known::when_built);
}

BOOST_AUTO_TEST_CASE(attention_to_every_operand) {
  struct problem {
    shape q, k, v;
  };
  for (const auto& [q, k, v] : {problem{{3, 4}, {5, 4}, {5, 2}},
                                {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}},
                                {{4, 3, 2}, {2, 4, 2}, {2, 4, 3}},
                                {{1, 4, 1, 2}, {1, 1, 1, 2}, {1, 1, 1, 2}},
                                {{2, 0, 3}, {2, 2, 3}, {2, 2, 3}},
                                {{2, 4, 2, 3}, {2, 2, 3, 3}, {2, 2, 3, 2}},
                                {{1, 0, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 3}}})
    for (bool causal : {false, true}) {
      const attention_attributes a{.causal = causal};
      const std::vector<array> in{real(q, 1), real(k, 2), real(v, 3)};
      check_twice("attention", in, [&](const auto& x) { return values{attention(x[0], x[1], x[2], a)}; });
      for (const auto& m : {shape{q[q.rank - 2], k[k.rank - 2]}, shape{k[k.rank - 2]}, shape{q[q.rank - 2], 1}}) {
        check_twice("attention under an added mask", {in[0], in[1], in[2], real(m, 4)},
                    [&](const auto& x) { return values{attention(x[0], x[1], x[2], x[3], a)}; });
        check("attention under a mask", {in[0], in[1], in[2], random_array(dtype::boolean, m, 4)},
              [&](const auto& x) { return values{attention(x[0], x[1], x[2], x[3], a)}; });
      }
    }
  check_twice("a mask for each head", {real({4, 3, 2}, 1), real({2, 4, 2}, 2), real({2, 4, 3}, 3), real({4, 3, 4}, 4)},
              [](const auto& x) { return values{attention(x[0], x[1], x[2], x[3])}; });
  check("one value as query, key and value", {real({2, 4, 3}, 1)},
        [](const auto& x) { return values{attention(x[0], x[0], x[0], {.causal = true})}; });
}

// The gradient does not depend on which extents are known when it is built.
BOOST_AUTO_TEST_CASE(attention_with_shared_heads_and_unknown_extents) {
  const shape full{2, 4, 3, 2}, few{2, 2, 5, 2}, scores{2, 4, 3, 5};
  const std::vector<array> in{real(full, 1), real(few, 2), real(few, 3), real(scores, 4), real({4, 1, 1}, 5)};
  const auto gradients_with = [&](const std::vector<shape>& known, std::size_t mask) {
    small_graph g;
    std::vector<value> x;
    for (std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, mask}) {
      x.push_back(g.p.input("x", {dtype::float64, known[i]}));
      g.data.push_back(in[i]);
    }
    const value y = attention(x[0], x[1], x[2], x[3], {.causal = true});
    for (const auto& v : gradients(reduce_sum(y * y), x)) g.output(v);
    return g.run();
  };
  for (const std::size_t mask : {3u, 4u}) {
    const auto wanted = gradients_with({full, few, few, scores, {4, 1, 1}}, mask);
    for (const auto& known : std::vector<std::vector<shape>>{
             {{dyn, 4, dyn, dyn}, {dyn, 2, dyn, dyn}, {dyn, 2, dyn, dyn}, {dyn, 4, dyn, dyn}, {4, dyn, dyn}},
             {{dyn, 4, dyn, 2}, {dyn, 2, dyn, 2}, {dyn, 2, dyn, 2}, {dyn, dyn, dyn, dyn}, {dyn, 1, dyn}},
             {{"N", 4, "T", 2}, {"N", 2, "S", 2}, {"N", 2, "S", 2}, {"N", 4, "T", "S"}, {4, 1, 1}},
             {{"N", "H", "T", "D"}, {"N", "G", "S", "D"}, {"N", "G", "S", "D"}, {"N", "H", "T", "S"}, {"H", 1, 1}},
             {{2, dyn, 3, 2}, {2, dyn, 5, 2}, {2, dyn, 5, 2}, {2, dyn, 3, 5}, {dyn, 1, 1}},
             {{2, 4, 3, 2}, {2, dyn, 5, 2}, {2, dyn, 5, 2}, {dyn, dyn, 3, 5}, {dyn, 1, 1}},
             {{2, dyn, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}, {2, dyn, 3, 5}, {dyn, 1, 1}}}) {
      const auto got = gradients_with(known, mask);
      BOOST_REQUIRE(got.size() == wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        BOOST_CHECK_MESSAGE(distance(got[i], wanted[i]) < 1e-12,
                            "operand " << i << " of queries " << known[0].string() << ", keys " << known[1].string());
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_in_groups) {
  struct problem {
    shape x, keys;
  };
  for (const auto& [x, keys] : {problem{{4, 3, 2}, {2, 5, 2}},
                                {{2, 6, 1, 2}, {2, 3, 2, 2}},
                                {{1, 3, 2}, {2, 5, 2}},
                                {{0, 3, 2}, {2, 5, 2}},
                                {{3, 1, 2}, {1, 1, 1}}})
    check_twice("group_heads", {real(x, 1), real(keys, 2)},
                [](const auto& v) { return values{value(apply<op::group_heads>({}, v[0], v[1]))}; });
}

BOOST_AUTO_TEST_CASE(statistics_of_rows_without_elements) {
  for (const auto element : {dtype::float32, dtype::float64}) {
    small_graph g;
    const value x = g.input(array_of(element, {3, 0}, {}));
    for (std::size_t of : {1u, 2u}) g.output(apply<op::layer_norm>({.epsilon = 0.25}, x)[of]);
    g.output(apply<op::rms_norm>({.epsilon = 0.25}, x)[1]);
    const auto r = g.run();
    BOOST_TEST(r[0].values == (std::vector<double>{2, 2, 2}), boost::test_tools::per_element());
    BOOST_TEST(r[1].values == (std::vector<double>{0, 0, 0}), boost::test_tools::per_element());
    BOOST_TEST(r[2].values == (std::vector<double>{2, 2, 2}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(rotary_positions) {
  for (const auto& s : {shape{3, 4}, shape{2, 1, 2}, shape{2, 2, 3, 6}, shape{0, 2}, shape{1, 8}})
    for (bool interleaved : {false, true}) {
      const array positions = random_array(dtype::int64, {s[s.rank - 2]}, 2, 0, 9);
      check_twice("rope", {real(s, 1), positions},
                  [&](const auto& x) { return values{rope(x[0], x[1], {.interleaved = interleaved})}; });
    }
}

BOOST_AUTO_TEST_CASE(rotary_positions_by_tables) {
  struct sizes {
    shape x, table;
  };
  for (const auto& [s, table] : {sizes{{3, 4}, {3, 4}}, sizes{{2, 2, 3, 6}, {2, 1, 3, 6}},
                                 sizes{{2, 3, 2, 4}, {1, 3, 1, 4}}, sizes{{0, 2}, {1, 2}}, sizes{{1, 8}, {8}}})
    for (bool interleaved : {false, true})
      check_twice("rotary_embedding", {real(s, 1), real(table, 2), real(table, 3)}, [&](const auto& x) {
        return values{rotary_embedding(x[0], x[1], x[2], {.interleaved = interleaved})};
      });
}

BOOST_AUTO_TEST_SUITE_END()
