// Elementwise chains and epilogues: fused results against unfused ones, bit for bit.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array real(const shape& s, int seed, dtype element = dtype::float32) { return random_array(element, s, seed); }

// Builds over the inputs, fused and not; checks for equal bits and returns the fused plan.
std::shared_ptr<const plan> equal_fused(const std::vector<array>& in, const builder& build, int threads = 1) {
  auto make = [&](const pass_options& o, std::shared_ptr<const plan>& kept) {
    small_graph g;
    std::vector<value> x;
    for (const auto& a : in) x.push_back(g.input(a));
    for (const auto& v : build(x)) g.output(v);
    auto r = g.run(o, threads);
    kept = g.plan;
    return r;
  };
  std::shared_ptr<const plan> fused, plain;
  auto a = make({}, fused),
       b = make({.fuse_elementwise = false, .fuse_epilogues = false, .reuse_memory = false}, plain);
  BOOST_TEST(plain->counters().fused_elementwise == 0);
  BOOST_TEST(plain->counters().fused_epilogues == 0);
  for (std::size_t i = 0; i < a.size(); ++i)
    BOOST_CHECK_MESSAGE(same_bits(a[i], b[i]), "result " << i << " of " << in[0].shape().string());
  return fused;
}
using values = std::vector<value>;

}  // namespace

BOOST_AUTO_TEST_SUITE(fusion)

BOOST_AUTO_TEST_CASE(a_chain_is_one_pass) {
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& s :
         {shape{1000}, shape{7}, shape{}, shape{1}, shape{0}, shape{3, 5, 7}, shape{1, 1}, shape{2000, 3}}) {
      auto p = equal_fused({real(s, 1, element), real(s, 2, element)},
                           [](const auto& x) { return values{tanh(x[0] * x[1] + 1) - x[0] / 3}; });
      BOOST_TEST(p->counters().fused_elementwise == 4);
      BOOST_TEST(p->lines().size() == (s.size() ? 1u : 0u));
      if (s.size() >= 1000) BOOST_TEST(p->cost().arena == 0u);  // no temporaries in memory
    }
}

BOOST_AUTO_TEST_CASE(results_too_large_for_the_caches) {
  for (int threads : {1, 2})
    equal_fused(
        {real({4200037}, 1), real({}, 2)}, [](const auto& x) { return values{relu(x[0] * x[1] + x[0])}; }, threads);
}

BOOST_AUTO_TEST_CASE(a_long_chain_is_cut) {
  for (int length : {5, 27, 28, 29, 31, 32, 33, 60, 100}) {
    auto p = equal_fused({real({777}, 1)}, [&](const auto& x) {
      value v = x[0];
      for (int i = 0; i < length; ++i) v = i % 3 == 0 ? value(sin(v)) : i % 3 == 1 ? value(v * 1.25) : value(v + x[0]);
      return values{v};
    });
    BOOST_TEST(p->counters().fused_elementwise > length / 2);
    BOOST_TEST(p->lines().size() <= static_cast<std::size_t>(length / 20 + 1));
  }
}

BOOST_AUTO_TEST_CASE(many_values_alive_at_once) {
  for (int width : {2, 7, 8, 9, 12, 20}) {
    equal_fused({real({600}, 1)}, [&](const auto& x) {
      values parts;
      for (int i = 0; i < width; ++i) parts.push_back(sin(x[0] * (i + 1)));
      value sum = parts[0];
      for (int i = 1; i < width; ++i)
        sum = sum + parts[static_cast<std::size_t>(i)] * parts[static_cast<std::size_t>((i * 5 + 1) % width)];
      return values{sum};
    });
  }
}

BOOST_AUTO_TEST_CASE(many_operands) {
  for (int count : {3, 9, 10, 11, 12, 16, 17, 30}) {
    std::vector<array> in;
    for (int i = 0; i < count; ++i) in.push_back(real({65}, i));
    equal_fused(in, [&](const auto& x) {
      value sum = x[0];
      for (std::size_t i = 1; i < x.size(); ++i) sum = sum * 0.5 + x[i];
      return values{sum};
    });
  }
}

BOOST_AUTO_TEST_CASE(many_results_of_one_chain) {
  for (int count : {2, 5, 6, 9, 15, 20}) {
    equal_fused({real({130}, 1), real({130}, 2)}, [&](const auto& x) {
      values all{x[0] + x[1]};
      for (int i = 1; i < count; ++i) all.push_back(i % 2 ? value(tanh(all.back())) : value(all.back() * x[1]));
      return all;
    });
  }
}

BOOST_AUTO_TEST_CASE(broadcasting_chains) {
  equal_fused({real({40, 30}, 1), real({30}, 2), real({40, 1}, 3), real({}, 4)},
              [](const auto& x) { return values{relu((x[0] - x[1]) * x[2] + x[3])}; });
  equal_fused({real({2, 3, 4, 5, 6}, 1), real({3, 1, 5, 1}, 2), real({2, 1, 4, 1, 6}, 3)},
              [](const auto& x) { return values{(x[0] + x[1]) * x[2]}; });
  equal_fused({real({2, 1, 2, 1, 2, 1, 2, 1}, 1), real({1, 3, 1, 3, 1, 3, 1, 3}, 2)},
              [](const auto& x) { return values{tanh(x[0] + x[1]) * x[1] - x[0]}; });
  equal_fused({real({3, 2, 1, 2, 3, 2}, 1), real({1, 4, 2, 1, 1}, 2)},
              [](const auto& x) { return values{max(x[0] * x[1], x[1] - 1)}; });
  equal_fused({real({500, 1}, 1), real({1, 700}, 2)}, [](const auto& x) { return values{exp(x[0] * x[1])}; });
  equal_fused({real({2, 0, 3}, 1), real({3}, 2)}, [](const auto& x) { return values{exp(x[0] * x[1])}; });
}

BOOST_AUTO_TEST_CASE(sums_of_chains) {
  // Operand shapes, axes, and whether the chain adds up its rows.
  struct sum {
    shape x, y;
    axes over;
    bool fused;
  };
  const sum sums[] = {{{32, 8, 16, 16}, {8, 1, 1}, axes(0, 2, 3), true},
                      {{4, 3, 40, 53}, {3, 1, 1}, axes(0, 2, 3), true},
                      {{2, 2, 70, 71}, {1, 2, 1, 1}, axes(2, 3), true},
                      {{3, 20011}, {1}, axes(1), true},
                      {{60, 307}, {60, 1}, axes(1), true},
                      {{2, 3, 4, 5, 300}, {3, 1, 5, 1}, axes(1, 4), true},
                      {{2, 3, 2, 3, 2, 3, 300}, {3, 1, 3, 1, 3, 1}, axes(0, 2, 6), true},
                      {{50011}, {1}, axes(0), false},           // one row
                      {{60, 307}, {307}, axes(0, 1), false},    // the same, in the order of the sum
                      {{60, 307}, {60, 1}, axes(0), false},     // rows stay
                      {{9, 64, 64}, {64}, axes(1, 2), false},   // the chain's rows are shorter than the sum's
                      {{5, 307}, {5, 1}, axes(1), false},       // in the first cache
                      {{500, 100}, {500, 1}, axes(1), false}};  // short rows
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& [x, y, over, fused] : sums)
      for (const bool keepdim : {false, true})
        for (const bool read : {false, true})
          for (const int threads : {1, 2}) {
            small_graph g;
            const value a = g.input(real(x, 1, element)), b = g.input(real(y, 2, element)), v = tanh(a * b + 0.5) * a;
            g.output(reduce_sum(v, {.axes = over, .keepdim = keepdim}));
            if (read) g.output(v);
            const auto together = g.run({}, threads);
            const auto joined = g.plan->counters().fused_elementwise;
            const auto apart = g.run({.fuse_elementwise = false, .reuse_memory = false});
            BOOST_TEST(joined == 3 + fused);
            BOOST_TEST(same_bits(together[0], apart[0]));
            if (read) BOOST_TEST(same_bits(together[1], apart[1]));
          }
}

BOOST_AUTO_TEST_CASE(sums_of_chains_that_replace_states) {
  // The sum is assigned to a state that the chain reads in its shape; the chain's result replaces another one.
  small_graph g;
  const value x = g.input(real({64, 512}, 1)), total = g.state("total", real({64, 1}, 2)),
              kept = g.state("kept", real({64, 512}, 3)), v = (x + total) * kept;
  g.p.assign(total, reduce_sum(v, {.axes = axes(1), .keepdim = true}));
  g.p.assign(kept, v);
  g.output(v);
  const auto together = g.run();
  BOOST_TEST(g.plan->counters().fused_elementwise == 2);
  const any_tensor sums = g.store.find("total")->value();
  small_graph h;
  const value x2 = h.input(real({64, 512}, 1)), total2 = h.input(real({64, 1}, 2)), kept2 = h.input(real({64, 512}, 3)),
              w = (x2 + total2) * kept2;
  h.output(w);
  h.output(reduce_sum(w, {.axes = axes(1), .keepdim = true}));
  const auto apart = h.run(no_passes);
  BOOST_TEST(same_bits(together[0], apart[0]));
  BOOST_TEST(same_bits(from_tensor(sums), apart[1]));
}

BOOST_AUTO_TEST_CASE(cheap_values_are_computed_again) {
  // As batch normalization keeps a map less its means for the gradient.
  const auto build = [](const auto& x) {
    const value mean = reduce_mean(x[0], {.axes = axes(0, 2, 3), .keepdim = true}), centered = x[0] - mean,
                scaled = centered * x[1] + x[2], weighted = x[3] * centered;
    const value passed = where(scaled >= 0 && scaled <= 6, x[3], 0);
    return values{clamp(scaled, 0, 6), reduce_max(square(centered), {.axes = axes(1)}),
                  reduce_max(weighted, {.axes = axes(1)}), reduce_max(passed, {.axes = axes(1)})};
  };
  const shape map{4, 20, 9, 9}, channels{20, 1, 1};
  auto p = equal_fused({real(map, 1), real(channels, 2), real(channels, 3), real(map, 4)}, build);
  for (const auto& line : p->lines()) BOOST_TEST(line.what != "subtract");
  BOOST_TEST(p->lines().size() == 8u);  // the mean, four chains and three maxima
  // A value of more steps is computed from one that is kept.
  p = equal_fused({real(map, 1), real(channels, 2)}, [](const auto& x) {
    values all;
    value v = x[0];
    for (int k = 0; k < 60; ++k) {
      v = k % 2 ? value(v * x[1]) : value(v + x[1]);
      all.push_back(reduce_max(sin(v), {.axes = axes(1)}));
    }
    all.push_back(reduce_max(cos(x[0]), {.axes = axes(1)}));
    return all;
  });
  std::size_t operations = 0;
  for (const auto& line : p->lines())
    operations += 1 + static_cast<std::size_t>(std::count(line.what.begin(), line.what.end(), '+'));
  BOOST_TEST(operations < 60 * 7);
  // A value that an output or another operation reads is kept.
  p = equal_fused({real(map, 1), real(channels, 2)}, [](const auto& x) {
    const value moved = x[0] + x[1];
    return values{moved, tanh(x[0]), reduce_max(sin(moved), {.axes = axes(1)}),
                  reduce_max(cos(moved), {.axes = axes(1)})};
  });
  int sums = 0;
  for (const auto& line : p->lines()) sums += line.what.find("add") != std::string::npos;
  BOOST_TEST(sums == 1);
}

BOOST_AUTO_TEST_CASE(chains_of_mixed_element_types) {
  equal_fused({real({900}, 1), real({900}, 2)}, [](const auto& x) {
    return values{where(x[0] > x[1] && x[0] > 0, x[0], cast<float>(cast<double>(x[1]) * 2))};
  });
  equal_fused({random_array(dtype::int64, {77}, 1, -50, 50), random_array(dtype::int32, {77}, 2, -50, 50)},
              [](const auto& x) { return values{x[0] * 3 + cast<std::int64_t>(x[1]), cast<std::uint8_t>(x[0] == 3)}; });
}

BOOST_AUTO_TEST_CASE(steps_side_by_side_give_the_same) {
  for (const auto& s : {shape{300000}, shape{300, 1000}, shape{1000, 301}})
    equal_fused(
        {real(s, 1), real({s.back()}, 2)}, [](const auto& x) { return values{tanh(x[0] * x[1] + 1) - x[0] / 3}; }, 3);
}

BOOST_AUTO_TEST_CASE(epilogues_of_products) {
  const std::vector<std::pair<const char*, builder>> tails{
      {"bias", [](const auto& x) { return values{matmul(x[0], x[1]) + x[2]}; }},
      {"bias first", [](const auto& x) { return values{x[2] + matmul(x[0], x[1])}; }},
      {"relu", [](const auto& x) { return values{relu(matmul(x[0], x[1]))}; }},
      {"bias, relu", [](const auto& x) { return values{relu(matmul(x[0], x[1]) + x[2])}; }},
      {"bias, residual, relu", [](const auto& x) { return values{relu(matmul(x[0], x[1]) + x[2] + x[3])}; }},
      {"residual", [](const auto& x) { return values{matmul(x[0], x[1]) + x[3]}; }},
      {"clamp", [](const auto& x) { return values{clamp(matmul(x[0], x[1]) + x[2], -0.5, 0.75)}; }}};
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& [m, k, n] :
         {std::tuple{1, 1, 1}, {3, 5, 7}, {16, 32, 24}, {1, 40, 33}, {65, 17, 1}, {200, 100, 90}, {4, 0, 5}})
      for (const auto& [name, build] : tails) BOOST_TEST_CONTEXT(name << " " << m << "x" << k << "x" << n) {
          auto p = equal_fused(
              {real({m, k}, 1, element), real({k, n}, 2, element), real({n}, 3, element), real({m, n}, 4, element)},
              build);
          BOOST_TEST(p->counters().fused_epilogues >= 1);
          BOOST_TEST(p->lines().size() == 1u);
        }
}

BOOST_AUTO_TEST_CASE(what_an_epilogue_must_leave_alone) {
  auto count = [](const std::vector<array>& in, const builder& build) {
    return equal_fused(in, build)->counters().fused_epilogues;
  };
  const std::vector<array> in{real({4, 5}, 1), real({5, 4}, 2), real({4}, 3), real({4, 1}, 4), real({4, 4}, 5)};
  BOOST_TEST(count(in, [](const auto& x) { return values{matmul(x[0], x[1]) + x[3]}; }) == 0);  // one number per row
  BOOST_TEST(count(in, [](const auto& x) {
               value y = matmul(x[0], x[1]);
               return values{y + x[2], y};
             }) == 0);  // read elsewhere
  BOOST_TEST(count(in, [](const auto& x) {
               value y = matmul(x[0], x[1]);
               return values{y + y};
             }) == 0);
  BOOST_TEST(count(in, [](const auto& x) {
               value y = matmul(x[0], x[1]);
               return values{relu(y) * y};
             }) == 0);
  BOOST_TEST(count(in, [](const auto& x) { return values{x[2] - matmul(x[0], x[1])}; }) == 0);
  BOOST_TEST(count(in, [](const auto& x) { return values{relu(matmul(x[0], x[1])) + x[2]}; }) ==
             1);  // nothing fuses after the clamp
  BOOST_TEST(count({real({1, 5}, 1), real({5, 4}, 2), real({3, 1, 4}, 3)},
                   [](const auto& x) { return values{matmul(x[0], x[1]) + x[2]}; }) == 0);
}

BOOST_AUTO_TEST_CASE(products_that_meet_in_a_sum) {
  const std::vector<array> in{real({4, 5}, 1), real({5, 4}, 2), real({4}, 3), real({4, 4}, 4)};
  equal_fused(in, [](const auto& x) { return values{matmul(x[0], x[1]) + matmul(x[3], x[3])}; });
  equal_fused(in, [](const auto& x) { return values{relu(matmul(x[0], x[1]) + matmul(x[3], x[3]) + x[2])}; });
  equal_fused(in, [](const auto& x) {
    value h = matmul(x[0], x[1]) + x[2], k = matmul(x[3], h) + h;  // a residual that is also a product's operand
    return values{k, matmul(k, h) + matmul(h, k) + x[3]};
  });
  equal_fused(in, [](const auto& x) {
    value h = x[3];
    for (int i = 0; i < 6; ++i) h = h + relu(matmul(relu(matmul(h, x[3]) + x[2]), x[3]));
    return values{h};
  });
}

BOOST_AUTO_TEST_CASE(batched_products_with_epilogues) {
  equal_fused({real({3, 4, 5}, 1), real({5, 6}, 2), real({6}, 3)},
              [](const auto& x) { return values{relu(matmul(x[0], x[1]) + x[2])}; });
  equal_fused({real({3, 4, 5}, 1), real({3, 5, 6}, 2), real({6}, 3), real({3, 4, 6}, 4)},
              [](const auto& x) { return values{matmul(x[0], x[1]) + x[2] + x[3]}; });
  equal_fused({real({2, 1, 4, 5}, 1), real({3, 5, 6}, 2), real({6}, 3), real({2, 3, 4, 6}, 4)},
              [](const auto& x) { return values{matmul(x[0], x[1]) + x[2] + x[3]}; });
}

BOOST_AUTO_TEST_SUITE_END()
