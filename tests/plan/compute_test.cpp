// Plans that compute products with weights in bfloat16: against float32 plans over operands that are rounded beforehand.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

const pass_options in_bfloat{.compute = dtype::bfloat16};

array real(const shape& s, int seed, double low = -1, double high = 1) {
  return random_array(dtype::float32, s, seed, low, high);
}
array rounded(array a) {
  for (double& v : a.values) v = static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(v))));
  return a;
}
/// Euclidean norm of the difference, in that of b.
double relative_error(const array& a, const array& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    difference += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
    norm += b.values[i] * b.values[i];
  }
  return std::sqrt(difference / norm);
}
std::size_t lines_in_bfloat(const plan& p) {
  std::size_t count = 0;
  for (const auto& l : p.lines()) count += l.what.find("(bfloat16)") != std::string::npos;
  return count;
}

/// A net of one product: its result in bfloat16, and that of a float32 plan over operands that are rounded or not.
using net = std::function<value(small_graph&, const value& x, const array& weight)>;
struct outcome {
  array rounds, of_rounded, of_whole;
  std::shared_ptr<const plan> planned;
};
outcome outcome_of(const array& x, const array& w, const net& build, const pass_options& passes = in_bfloat) {
  const auto run = [&](const array& in, const array& weight, const pass_options& o, std::shared_ptr<const plan>* made) {
    small_graph g;
    g.output(build(g, g.input(in), weight));
    auto result = g.run(o)[0];
    if (made) *made = g.plan;
    return result;
  };
  outcome all;
  all.rounds = run(x, w, passes, &all.planned);
  all.of_rounded = run(rounded(x), rounded(w), {}, nullptr);
  all.of_whole = run(x, w, {}, nullptr);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compute)

BOOST_AUTO_TEST_CASE(products_with_weights_round_their_operands) {
  for (const auto& [rows, depth, columns] : {std::tuple{1, 33, 40}, {5, 33, 40}, {64, 770, 100}, {5000, 20, 30}})
    for (const bool transposed : {false, true}) {
      const shape w = transposed ? shape{columns, depth} : shape{depth, columns};
      const auto all =
          outcome_of(real({rows, depth}, 1), real(w, 2), [&](small_graph& g, const value& x, const array& a) {
            const value b = g.state("b", real({columns}, 3));
            return relu(matmul(x, g.state("w", a), {.transpose_b = transposed}) + b);
          });
      BOOST_TEST_CONTEXT(rows << " x " << depth << " x " << columns << (transposed ? " transposed" : "")) {
        BOOST_TEST(lines_in_bfloat(*all.planned) == 1u);
        BOOST_TEST(distance(all.rounds, all.of_rounded) < 2e-5);
        BOOST_TEST(distance(all.rounds, all.of_whole) > 1e-4);
      }
    }
}

BOOST_AUTO_TEST_CASE(constants_are_weights_and_inputs_are_not) {
  const auto constant =
      outcome_of(real({7, 12}, 1), real({12, 20}, 2),
                 [](small_graph& g, const value& x, const array& a) { return matmul(x, g.p.constant(to_tensor(a))); });
  BOOST_TEST(lines_in_bfloat(*constant.planned) == 1u);
  BOOST_TEST(distance(constant.rounds, constant.of_rounded) < 1e-5);
  const auto input =
      outcome_of(real({7, 12}, 1), real({12, 20}, 2),
                 [](small_graph& g, const value& x, const array& a) { return matmul(x, g.input(a, "w")); });
  BOOST_TEST(lines_in_bfloat(*input.planned) == 0u);
  BOOST_TEST(same_bits(input.rounds, input.of_whole));
}

BOOST_AUTO_TEST_CASE(convolutions_round_their_operands) {
  struct {
    shape image, weight;
    conv2d_attributes how;
  } const cases[] = {{{2, 40, 9, 11}, {33, 40, 1, 1}, {}},
                     {{1, 33, 12, 13}, {40, 33, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
                     {{1, 20, 14, 9}, {17, 20, 5, 5}, {.padding = {2, 2}}}};
  for (const auto& c : cases) {
    const auto all =
        outcome_of(real(c.image, 1), real(c.weight, 2), [&](small_graph& g, const value& x, const array& a) {
          const value b = g.state("b", real({1, a.shape()[0].code, 1, 1}, 3));
          return relu(conv2d(x, g.state("w", a), c.how) + b);
        });
    BOOST_TEST_CONTEXT(c.image.string() << " by " << c.weight.string()) {
      BOOST_TEST(lines_in_bfloat(*all.planned) == 1u);
      BOOST_TEST(distance(all.rounds, all.of_rounded) < 5e-5);
      BOOST_TEST(distance(all.rounds, all.of_whole) > 1e-4);
    }
  }
  // Winograd's way rounds what it transforms.
  const auto all = outcome_of(
      real({1, 40, 30, 30}, 1), real({48, 40, 3, 3}, 2),
      [](small_graph& g, const value& x, const array& a) { return conv2d(x, g.state("w", a), {.padding = {1, 1}}); });
  BOOST_TEST(lines_in_bfloat(*all.planned) == 1u);
  BOOST_TEST(relative_error(all.rounds, all.of_whole) < 1e-2);
}

BOOST_AUTO_TEST_CASE(bits_depend_on_neither_threads_nor_rows) {
  const array x = real({70, 200}, 1), image = real({2, 32, 20, 21}, 4);
  const auto run = [&](int threads, std::int64_t rows) {
    small_graph g;
    array part = x;
    part.type.dims = shape{rows, 200};
    part.values.resize(static_cast<std::size_t>(rows) * 200);
    g.output(matmul(g.input(part), g.state("w", real({200, 300}, 2))));
    g.output(conv2d(g.input(image, "image"), g.state("v", real({64, 32, 1, 1}, 3)), {}));
    g.output(conv2d(g.input(image, "other"), g.state("u", real({64, 32, 3, 3}, 5)), {.padding = {1, 1}}));
    return g.run(in_bfloat, threads);
  };
  const auto once = run(1, 70), parallel = run(3, 70), row = run(1, 1);
  for (std::size_t i = 0; i < once.size(); ++i) BOOST_TEST(same_bits(once[i], parallel[i]));
  for (std::size_t j = 0; j < 300; ++j) BOOST_TEST(row[0].values[j] == once[0].values[j]);
}

BOOST_AUTO_TEST_CASE(training_computes_in_float32) {
  const auto run = [](const pass_options& o) {
    small_graph g;
    const value x = g.input(real({6, 20}, 1)), w = g.state("w", real({20, 30}, 2));
    g.output(matmul(x, w));
    g.p.assign(w, value(w * 0.5));
    const value image = g.input(real({1, 32, 9, 9}, 3), "image"), v = g.state("v", real({32, 32, 3, 3}, 4));
    const value loss = reduce_sum(tanh(conv2d(image, v, {})), {}), wanted[] = {v};
    for (const auto& gradient : gradients(loss, wanted)) g.output(gradient);
    return g.run(o);
  };
  const auto half = run(in_bfloat), whole = run({});
  for (std::size_t i = 0; i < whole.size(); ++i) BOOST_TEST(same_bits(half[i], whole[i]));
}

BOOST_AUTO_TEST_CASE(attention_rounds_its_operands) {
  for (const auto& [queries, keys, depth, width] : {std::tuple{1, 5, 8, 6}, {130, 131, 33, 20}, {70, 200, 16, 50}})
    for (const bool causal : {false, true})
      for (const bool masked : {false, true}) {
        const auto run = [&](const pass_options& o, int threads = 1) {
          small_graph g;
          const value q = g.input(real({2, 3, queries, depth}, 1), "q"), k = g.input(real({2, 3, keys, depth}, 2), "k"),
                      v = g.input(real({2, 3, keys, width}, 3), "v");
          const attention_attributes how{.causal = causal};
          g.output(masked ? value(attention(q, k, v, g.input(real({queries, keys}, 4), "m"), how))
                          : value(attention(q, k, v, how)));
          return g.run(o, threads)[0];
        };
        const array whole = run({}), half = run(in_bfloat);
        BOOST_TEST_CONTEXT(queries << " queries, " << keys << " keys" << (causal ? ", causal" : "")
                                   << (masked ? ", masked" : "")) {
          BOOST_TEST(relative_error(half, whole) < 1e-2);
          BOOST_TEST(relative_error(half, whole) > 1e-4);
          BOOST_TEST(same_bits(half, run(in_bfloat, 3)));
        }
      }
}

BOOST_AUTO_TEST_CASE(other_types_are_refused) {
  small_graph g;
  g.output(matmul(g.input(real({2, 3}, 1)), g.state("w", real({3, 4}, 2))));
  BOOST_CHECK_EXCEPTION(g.run({.compute = dtype::float16}), unsupported_error, [](const unsupported_error& e) {
    return std::string_view(e.what()).find(
               "pass_options::compute is float16; a plan computes in float32 or bfloat16") != std::string_view::npos;
  });
}

// Blocks as nets consist of: results stay within a hundredth.
BOOST_AUTO_TEST_CASE(residual_blocks_of_convolutions) {
  const auto run = [](const pass_options& o) {
    small_graph g;
    value x = g.input(real({1, 64, 16, 16}, 1));
    for (int i = 0; i < 4; ++i) {
      const auto weight = [&](const char* name, const shape& s) {
        const double deviation = std::sqrt(6.0 / static_cast<double>(s.size(1, 4)));
        return g.state(name + std::to_string(i), real(s, 10 * i + name[0], -deviation, deviation));
      };
      value y = relu(conv2d(x, weight("a", {32, 64, 1, 1}), {}));
      y = relu(conv2d(y, weight("b", {32, 32, 3, 3}), {.padding = {1, 1}}));
      x = relu(conv2d(y, weight("c", {64, 32, 1, 1}), {}) + x);
    }
    g.output(x);
    return g.run(o)[0];
  };
  const array whole = run({});
  BOOST_TEST(relative_error(run(in_bfloat), whole) < 1e-2);
  BOOST_TEST(relative_error(run(in_bfloat), whole) > 1e-4);
}

BOOST_AUTO_TEST_CASE(blocks_of_a_transformer) {
  constexpr std::int64_t length = 40, width = 64, heads = 4;
  const auto run = [](const pass_options& o) {
    small_graph g;
    value x = g.input(real({1, length, width}, 1, -2, 2));
    const auto linear = [&](const value& v, const std::string& name, std::int64_t in, std::int64_t out) {
      const double deviation = std::sqrt(3.0 / static_cast<double>(in));
      const int seed = static_cast<int>(name[0]) + 7 * static_cast<int>(name[1]);
      return value(matmul(v, g.state(name, real({in, out}, seed, -deviation, deviation))));
    };
    for (int i = 0; i < 3; ++i) {
      const std::string at = std::to_string(i);
      const auto head = [&](const char* name) {
        return permute(reshape(linear(x, name + at, width, width), shape{1, length, heads, width / heads}),
                       {0, 2, 1, 3});
      };
      value a = attention(head("q"), head("k"), head("v"));
      a = reshape(permute(a, {0, 2, 1, 3}), shape{1, length, width});
      const value gain = g.state("g" + at, real({width}, 90 + i, 0.5, 1.5)),
                  bias = g.state("h" + at, real({width}, 80 + i));
      x = layer_norm(x + linear(a, "o" + at, width, width), gain, bias);
      x = layer_norm(x + linear(gelu(linear(x, "u" + at, width, 4 * width)), "d" + at, 4 * width, width), gain, bias);
    }
    g.output(x);
    return g.run(o)[0];
  };
  const array whole = run({});
  BOOST_TEST(relative_error(run(in_bfloat), whole) < 1e-2);
  BOOST_TEST(relative_error(run(in_bfloat), whole) > 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
