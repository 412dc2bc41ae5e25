// Random programs with all passes against the same without passes.
#include <boost/test/unit_test.hpp>

#include <cstring>
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

// Three iterations of a random body, which reads a loop invariant in several ways; the invariant broadcasts to x.
value looped(draws& draw, const value& x, const value& invariant) {
  auto body = std::make_shared<program>();
  const value h = body->input("h", x.type()), each = body->input("x", x.type()),
              y = body->input("invariant", invariant.type());
  const auto of_invariant = [&]() -> value {
    switch (draw.below(5)) {
      case 0: return exp(y) * 0.25;
      case 1: return y * y - y;
      case 2: return y + reduce_max(y);
      case 3: return y.shape().rank ? value(sort(y, {})) : y;
      default: return y;
    }
  };
  const value next = tanh(h * 0.5 + each + of_invariant());
  body->output("h", next);
  body->output("y", draw.below(2) ? value(h * of_invariant()) : value(min(h, of_invariant() + of_invariant())));
  const value one = unsqueeze(x, axes(0)), rows = concat<0>(concat<0>(one, one * 0.5), sin(one));
  const auto made = scan(body, {&x, 1}, {&rows, 1}, {&invariant, 1}, draw.below(2) == 0);
  return made[draw.below(2)];
}

// Grows a program over float32 values of few shapes, small ones or, with odd seeds, ones with long rows. `products`
// allows operations whose sums passes may reorder.
void grow(small_graph& g, int seed, bool products) {
  draws draw{philox(seed, 11)};
  const shape small[] = {{}, {5}, {1, 5}, {4, 1}, {4, 5}, {5, 4}, {3, 4, 5}, {4, 4}, {1}, {64, 5}};
  const shape wide[] = {{}, {128}, {1, 128}, {4, 1}, {4, 128}, {128, 4}, {3, 4, 128}, {4, 64}, {4, 256}, {3, 2, 64}};
  const auto& dims = seed % 2 ? wide : small;
  std::vector<value> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(g.input(random_array(dtype::float32, dims[draw.below(10)], seed * 10 + i, -1, 1)));
  std::vector<value> states;
  for (int i = 0; i < 2; ++i) {
    states.push_back(g.state(i ? "b" : "a", random_array(dtype::float32, dims[4], seed * 10 + 5 + i, -1, 1)));
    all.push_back(states.back());
  }
  auto any = [&]() -> const value& {
    return all[draw.below(3) ? all.size() - 1 - draw.below(std::min<std::size_t>(all.size(), 6))
                             : draw.below(all.size())];
  };
  auto fits_in = [](const value& a, const value& b) {
    shape s;
    return broadcast(a.shape(), b.shape(), s);
  };
  std::size_t steps = 5 + draw.below(40);
  for (std::size_t i = 0; i < steps; ++i) {
    const value x = any(), y = any();
    const shape& s = x.shape();
    switch (draw.below(products ? 36 : 30)) {
      case 0: all.push_back(tanh(x)); break;
      case 1: all.push_back(sin(x)); break;
      case 2: all.push_back(-x); break;
      case 3: all.push_back(relu(x)); break;
      case 4: all.push_back(draw.below(2) ? x * 0.5 : x * 0.5 * 0.25); break;
      case 5: all.push_back(x + 0); break;
      case 6:
      case 7:
      case 8:
        if (fits_in(x, y)) all.push_back(tanh(x + y));
        break;
      case 9:
      case 10:
        if (fits_in(x, y)) all.push_back(x * y);
        break;
      case 11:
        if (fits_in(x, y)) all.push_back(where(x > y, x, y * 0.25));
        break;
      case 12:
        if (fits_in(x, y)) all.push_back(min(x, y));
        break;
      case 13:
        if (s.rank)
          all.push_back(reduce_max(x, {.axes = axes(static_cast<int>(draw.below(static_cast<std::size_t>(s.rank)))),
                                       .keepdim = draw.below(2) == 0}));
        break;
      case 14: all.push_back(reshape(x, shape{dyn})); break;
      case 15:
        if (s.rank == 2) all.push_back(transpose(x));
        break;
      case 16:
        if (s.rank && s.at(0) > 1) all.push_back(slice(x, {.start = 1}));
        break;
      case 17:
        if (s.rank == 1 && s.at(0) % 5 == 0) all.push_back(reshape(x, shape{dyn, 5}));
        break;
      case 18:
        if (s.rank == 2 && s.at(1) > 2) all.push_back(slice(x, {.start = 1, .axis = 1, .step = 2}));
        break;
      case 19:
        if (s.rank == 2 && y.shape().rank == 2 && s.at(1) == y.shape().at(1)) all.push_back(concat<0>(x, y));
        break;
      case 20:
        if (s.rank && s.at(0)) all.push_back(x[static_cast<std::int64_t>(draw.below(2)) - 1]);
        break;
      case 21:
        if (s.rank && s.back() == dim(5)) all.push_back(split(x, {2, 3}, -1)[draw.below(2)]);
        break;
      case 22:
        if (s.rank == 2) all.push_back(tile(x, {2, 1}));
        break;
      case 23:
        if (s.rank && s.rank < 3)
          all.push_back(squeeze(value(unsqueeze(unsqueeze(x, axes(0)), axes(-1))), axes(draw.below(2) ? 0 : -1)));
        break;
      case 24:
        if (s.rank) all.push_back(pad(sort(x, {}), {.axis = -1, .before = 1, .value = 0.5}));
        break;
      case 25:
        if (s.rank == 1) all.push_back(gather(x, argsort(x, {.axis = 0}), 0));
        break;
      case 26:
      case 27:
        if (s.rank && s.back().code > 1 && s.back().code % 2 == 0) {
          const std::int64_t half = s.back().code / 2, at = draw.below(2) ? half : 0;
          all.push_back(slice(x, {.start = at, .stop = at + half, .axis = -1}));
        }
        break;
      case 28:
        if (s.rank && s.at(0) > 1) {
          any_tensor at(tensor_type{dtype::int64, shape{2}});
          const auto first = static_cast<std::int64_t>(draw.below(static_cast<std::size_t>(s.at(0) - 1)));
          const std::int64_t positions[] = {first, first + 1};
          std::memcpy(at.mutable_data(), positions, sizeof positions);
          all.push_back(gather(x, g.p.constant(std::move(at)), 0));
        }
        break;
      case 29:
        if (shape made; broadcast(s, y.shape(), made) && made == s && s.size() * 3 <= 5000 && s.size() > 0)
          all.push_back(looped(draw, x, y));
        break;
      case 30:
      case 31:
        if (s.rank >= 2 && y.shape().rank == 2 && s.back() == y.shape()[0]) all.push_back(tanh(matmul(x, y) * 0.5));
        break;
      case 32:
        if (s.rank >= 2 && y.shape().rank == 2 && s.back() == y.shape()[0] && fits_in(x, y))
          all.push_back(relu(matmul(x, y) + reduce_mean<axes(0)>(y)));
        break;
      case 33:
        if (s.rank) all.push_back(softmax(x));
        break;
      case 34:
        if (s.rank) {
          value p = softmax(x);
          all.push_back(draw.below(2) ? value(log(p)) : value(tanh(x) / p * p));
        }
        break;
      case 35:
        if (s.rank && s.back().code) all.push_back(tanh(cumsum(x * 0.3 * 0.5)));
        break;
      default: break;
    }
    if (all.back().shape().size() > 5000) all.pop_back();
  }
  std::size_t outputs = 1 + draw.below(4);
  for (std::size_t i = 0; i < outputs; ++i) g.output(any());
  for (const auto& s : states)
    if (draw.below(3))
      for (std::size_t i = all.size(); i-- > 0;)
        if (all[i].shape() == s.shape() && draw.below(2)) {
          g.p.assign(s, all[i]);
          break;
        }
}

struct outcome {
  std::vector<array> results;
  std::size_t stages = 0;
  std::int64_t moved = 0, parts = 0;  // before loops; at known positions
};
outcome run(int seed, bool products, const pass_options& o, int threads = 1) {
  small_graph g;
  grow(g, seed, products);
  outcome r{g.run(o, threads)};
  r.results.push_back(g.now("a"));
  r.results.push_back(g.now("b"));
  r.stages = g.plan->stages().size();
  r.moved = g.plan->counters().moved_before_loops;
  r.parts = g.plan->counters().of(rewrite::known_positions);
  return r;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_programs)

// The arrays of all tests compute the numbers of the generator themselves.
BOOST_AUTO_TEST_CASE(random_arrays_have_the_numbers_of_the_generator) {
  for (const int seed : {0, 1, -1, -(1 << 30)})
    for (const std::int64_t size : {1, 2, 7}) {
      const auto a = random_array(dtype::float64, {size}, seed, 0, 1);
      for (std::int64_t i = 0; i < size; ++i)
        BOOST_TEST(a.values[static_cast<std::size_t>(i)] ==
                   philox(seed, 3).uniform<double>(static_cast<std::uint64_t>(i)));
    }
}

BOOST_AUTO_TEST_CASE(elementwise_programs_agree_bit_for_bit) {
  // x replaces x + 0, which is the same except for -0: distance 0 instead of equal bits.
  std::int64_t moved = 0, parts = 0;
  for (int seed = 0; seed < random_cases(1500); ++seed) {
    auto a = run(seed, false, {}), b = run(seed, false, no_passes);
    moved += a.moved;
    parts += a.parts;
    for (std::size_t i = 0; i < a.results.size(); ++i)
      BOOST_REQUIRE_MESSAGE(distance(a.results[i], b.results[i]) == 0, "seed " << seed << ", result " << i);
  }
  BOOST_TEST(moved > 0);
  BOOST_TEST(parts > 0);
}

BOOST_AUTO_TEST_CASE(programs_with_sums_agree) {
  for (int seed = 5000; seed < 5000 + random_cases(1500); ++seed) {
    auto a = run(seed, true, {}), b = run(seed, true, no_passes);
    for (std::size_t i = 0; i < a.results.size(); ++i)
      BOOST_REQUIRE_MESSAGE(distance(a.results[i], b.results[i]) < 1e-4,
                            "seed " << seed << ", result " << i << ": " << distance(a.results[i], b.results[i]));
  }
}

BOOST_AUTO_TEST_CASE(threads_change_no_bit) {
  for (int seed = 7000; seed < 7000 + random_cases(200); ++seed) {
    auto a = run(seed, true, {}), b = run(seed, true, {}, 3);
    for (std::size_t i = 0; i < a.results.size(); ++i)
      BOOST_REQUIRE_MESSAGE(same_bits(a.results[i], b.results[i]), "seed " << seed << ", result " << i);
  }
}

BOOST_AUTO_TEST_CASE(operations_side_by_side_change_no_bit) {
  std::size_t stages = 0, alone = 0;
  for (int seed = 7200; seed < 7200 + random_cases(500); ++seed) {
    auto a = run(seed, true, {}), b = run(seed, true, {.parallel = true}, 1 + seed % 3);
    for (std::size_t i = 0; i < a.results.size(); ++i)
      BOOST_REQUIRE_MESSAGE(same_bits(a.results[i], b.results[i]), "seed " << seed << ", result " << i);
    alone += a.stages;
    stages += b.stages;
  }
  BOOST_TEST(stages < alone);
}

BOOST_AUTO_TEST_CASE(ways_to_share_memory_change_no_bit) {
  for (int seed = 7700; seed < 7700 + random_cases(300); ++seed) {
    auto a = run(seed, true, {});
    for (auto how : {memory_sharing::greedy, memory_sharing::dynamic, memory_sharing::none}) {
      auto b = run(seed, true, {.parallel = seed % 2 == 0, .memory = how}, 1 + seed % 2);
      for (std::size_t i = 0; i < a.results.size(); ++i)
        BOOST_REQUIRE_MESSAGE(same_bits(a.results[i], b.results[i]),
                              "seed " << seed << ", " << name_of(how) << ", result " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_switch_alone) {
  for (int seed = 8000; seed < 8000 + random_cases(300); ++seed) {
    auto whole = run(seed, true, {});
    for (int k = 0; k < rewrite_count; ++k) {
      auto part = run(seed, true, {.without = {static_cast<rewrite>(k)}});
      for (std::size_t i = 0; i < part.results.size(); ++i)
        BOOST_REQUIRE_MESSAGE(distance(part.results[i], whole.results[i]) < 1e-4,
                              "seed " << seed << ", without " << k << ", result " << i);
    }
    for (int off = 0; off < 6; ++off) {
      pass_options o;
      bool* const switches[] = {&o.fold_constants, &o.simplify,       &o.fuse_elementwise,
                                &o.fuse_epilogues, &o.blocked_layout, &o.reuse_memory};
      *switches[off] = false;
      auto part = run(seed, true, o);
      for (std::size_t i = 0; i < part.results.size(); ++i)
        BOOST_REQUIRE_MESSAGE(distance(part.results[i], whole.results[i]) < 1e-4,
                              "seed " << seed << ", switch " << off << ", result " << i);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
