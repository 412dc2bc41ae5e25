// Plans that compute products with weights in bfloat16, against float32 plans over operands rounded beforehand.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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
/// Euclidean norm of the difference, relative to that of b.
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

/// A net of one product: its result in bfloat16, and that of float32 plans over rounded and unrounded operands.
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
  // Winograd rounds the transforms.
  const auto all = outcome_of(
      real({1, 40, 30, 30}, 1), real({48, 40, 3, 3}, 2),
      [](small_graph& g, const value& x, const array& a) { return conv2d(x, g.state("w", a), {.padding = {1, 1}}); });
  BOOST_TEST(lines_in_bfloat(*all.planned) == 1u);
  BOOST_TEST(relative_error(all.rounds, all.of_whole) < 1e-2);
}

namespace {
std::int64_t images_in_bfloat(const plan& p) {
  return std::count_if(p.lines().begin(), p.lines().end(), [](const auto& l) { return l.form == layout::rounded; });
}
/// Whether convolutions in bfloat16 take the kernels that read and write images in bfloat16.
bool stores_images_in_bfloat(const plan& p) {
  const char* on = std::getenv("LAMINA_AMX");
  return p.isa() == isa::avx512 && __builtin_cpu_supports("amx-bf16") && (!on || std::string_view(on) != "0");
}
}  // namespace

// Images between convolutions that round them are stored in bfloat16: as outputs they stay float32, with the same bits.
BOOST_AUTO_TEST_CASE(images_between_convolutions_are_stored_rounded) {
  for (const std::int64_t side : {9, 40})
    for (const int channels : {24, 64}) {
      const auto run = [&](bool whole, int threads, std::int64_t* rounded = nullptr) {
        small_graph g;
        value x = g.input(real({2, 20, side, side}, 1));
        std::vector<value> between;
        const auto conv = [&](const char* name, std::int64_t outs, std::int64_t kernel, std::int64_t stride) {
          const value w = g.state(name,
                                  real({outs, x.shape()[1].code, kernel, kernel}, static_cast<int>(outs), -.2, .2)),
                      b = g.state(std::string(name) + "b", real({1, outs, 1, 1}, 3));
          x = relu(conv2d(x, w, {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}}) + b);
          between.push_back(x);
        };
        conv("first", channels, 3, 1);
        conv("pixels", 40, 1, 1);
        conv("window", 80, 3, 1);
        conv("odd", 33, 1, 2);
        conv("after", 48, 5, 1);
        conv("last", 17, 1, 1);
        x = max_pool2d(x, {.kernel_size = 2});
        g.output(x);
        if (whole)
          for (const auto& v : between) g.p.output("z" + std::to_string(&v - between.data()), v);
        const auto result = g.run(in_bfloat, threads)[0];
        if (rounded) {
          *rounded = images_in_bfloat(*g.plan);
          BOOST_TEST(*rounded == (!whole && stores_images_in_bfloat(*g.plan) ? 5 : 0));
        }
        return result;
      };
      std::int64_t rounded = 0;
      const auto found = run(false, 1, &rounded), expected = run(true, 1, &rounded);
      BOOST_TEST_CONTEXT(side << " with " << channels << " channels") {
        BOOST_TEST(same_bits(found, expected));
        for (int threads = 2; threads <= 4; ++threads) BOOST_TEST(same_bits(found, run(false, threads)));
      }
    }
}

// A convolution whose results are computed in bands, for a depthwise convolution or a pool after it, reads such images.
BOOST_AUTO_TEST_CASE(bands_of_rounded_images) {
  for (const bool pools : {false, true}) {
    const auto run = [&](bool whole, int threads) {
      small_graph g;
      const auto conv = [&](const char* name, const value& x, std::int64_t outs, std::int64_t groups = 1) {
        const std::int64_t kernel = groups > 1 ? 3 : 1;
        const value w = g.state(name, real({outs, x.shape()[1].code / groups, kernel, kernel}, 2, -.3, .3));
        return conv2d(x, w, {.padding = {kernel / 2, kernel / 2}, .groups = groups});
      };
      const value x = conv("narrow", g.input(real({1, 40, 61, 59}, 1)), 24), wide = relu(conv("wide", x, 96));
      g.output(pools ? max_pool2d(wide, {.kernel_size = 2}) : relu(conv("each", wide, 96, 96)));
      if (whole) g.p.output("x", x);
      const auto result = g.run(in_bfloat, threads)[0];
      BOOST_TEST(lines_with(*g.plan, pools ? "relu + max_pool2d" : "relu + conv2d") == 1u);
      BOOST_TEST(images_in_bfloat(*g.plan) == (!whole && stores_images_in_bfloat(*g.plan)));
      return result;
    };
    const auto expected = run(true, 1);
    for (int threads = 1; threads <= 4; ++threads) BOOST_TEST(same_bits(run(false, threads), expected));
  }
}

// Elementwise operations before convolutions store their results in bfloat16: with the same bits as float32 results.
BOOST_AUTO_TEST_CASE(chains_of_rounded_images) {
  using chain = std::function<value(small_graph&, const value& y, const value& z)>;
  const auto of_channels = [](small_graph& g, const char* name, const value& y, int seed) -> value {
    return g.state(name, real({1, y.shape()[1].code, 1, 1}, seed));
  };
  const chain chains[] = {[](small_graph&, const value& y, const value&) -> value { return gelu(y); },
                          [&](small_graph& g, const value& y, const value&) -> value {
                            return relu(y * of_channels(g, "scale", y, 4) + of_channels(g, "shift", y, 5));
                          },
                          [](small_graph&, const value& y, const value&) -> value {
                            return y * sigmoid(reduce_mean(y, {.axes = {2, 3}, .keepdim = true}));
                          },
                          [](small_graph&, const value& y, const value& z) -> value { return silu(y) * z - y; },
                          [](small_graph&, const value& y, const value&) -> value { return tanh(y) + 0.5; }};
  for (const std::int64_t images : {1, 3})
    for (const std::int64_t channels : {24, 64, 80})
      for (std::size_t k = 0; k < std::size(chains); ++k) {
        const auto run = [&](bool whole, int threads) {
          small_graph g;
          const auto conv = [&](const char* name, const value& x, std::int64_t outs, std::int64_t kernel) {
            const value w = g.state(name, real({outs, x.shape()[1].code, kernel, kernel}, 2, -.2, .2));
            return conv2d(x, w, {.padding = {kernel / 2, kernel / 2}});
          };
          const value x = g.input(real({images, 32, 21, 23}, 1));
          const value y = conv("y", x, channels, 1), z = conv("z", x, channels, 3), c = chains[k](g, y, z);
          g.output(conv("pixels", c, 33, 1));
          g.output(conv("windows", c, 48, 3));
          if (whole) g.p.output("c", c);
          auto results = g.run(in_bfloat, threads);
          const bool stores = !whole && stores_images_in_bfloat(*g.plan);
          BOOST_TEST(images_in_bfloat(*g.plan) <= stores);
          if (channels % 16 == 0) BOOST_TEST(images_in_bfloat(*g.plan) == stores, g.plan->explain());
          BOOST_TEST(memory_clash(*g.plan) == "");
          return results;
        };
        const auto expected = run(true, 1);
        for (int threads = 1; threads <= 4; ++threads)
          BOOST_TEST_CONTEXT("chain " << k << " of " << channels << " channels, " << images << " images, " << threads) {
            const auto found = run(false, threads);
            for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(same_bits(found[i], expected[i]));
          }
      }
}

// A sum with an image that is stored in bfloat16 reads it rounded; other readers keep it float32.
BOOST_AUTO_TEST_CASE(residuals_of_rounded_images) {
  for (const bool read_by_mean : {false, true}) {
    const auto run = [&](const pass_options& o, int threads, std::int64_t* rounded = nullptr) {
      small_graph g;
      int seed = 1;
      const auto conv = [&](const value& x, std::int64_t outs, std::int64_t kernel) {
        const auto name = "w" + std::to_string(++seed);
        const value w = g.state(name, real({outs, x.shape()[1].code, kernel, kernel}, seed, -.1, .1));
        return conv2d(x, w, {.padding = {kernel / 2, kernel / 2}});
      };
      const value x = conv(g.input(real({1, 32, 28, 28}, 1)), 80, 1);
      const value shortcut = conv(x, 128, 1);
      value y = relu(conv(relu(conv(x, 48, 3)), 128, 1) + shortcut);
      y = relu(conv(relu(conv(y, 64, 3)), 128, 1) + y);
      if (read_by_mean) g.p.output("mean", reduce_mean(y, {.axes = {2, 3}}));
      g.output(conv(y, 40, 1));
      const auto result = g.run(o, threads).back();
      if (rounded) {
        *rounded = images_in_bfloat(*g.plan);
        BOOST_TEST(*rounded == (stores_images_in_bfloat(*g.plan) ? read_by_mean ? 5 : 6 : 0));
      }
      return result;
    };
    std::int64_t rounded = 0;
    const auto found = run(in_bfloat, 1, &rounded), expected = run({}, 1);
    BOOST_TEST(relative_error(found, expected) < 1e-2);
    BOOST_TEST(relative_error(found, expected) > 1e-4);
    for (int threads = 2; threads <= 4; ++threads) BOOST_TEST(same_bits(found, run(in_bfloat, threads)));
  }
}

// Fast convolutions: a small error, the same bits for threads and batches, and nothing else changes.
BOOST_AUTO_TEST_CASE(fast_convolutions_are_nearly_as_accurate) {
  const array image = real({3, 40, 30, 33}, 1);
  const auto run = [&](const pass_options& o, int threads, std::int64_t images, bool pooled) {
    array part = image;
    part.type.dims = shape{images, 40, 30, 33};
    part.values.resize(static_cast<std::size_t>(images * 40 * 30 * 33));
    small_graph g;
    value y = conv2d(g.input(part), g.state("w", real({48, 40, 3, 3}, 2)), {.padding = {1, 1}});
    y = relu(y + g.state("b", real({1, 48, 1, 1}, 3)));
    g.output(pooled ? max_pool2d(y, {.kernel_size = 2}) : y);
    return g.run(o, threads)[0];
  };
  for (const bool pooled : {false, true}) {
    const array exact = run({}, 1, 3, pooled), fast = run({.fast_convolutions = true}, 1, 3, pooled);
    BOOST_TEST(relative_error(fast, exact) < 1e-5);
    BOOST_TEST(same_bits(fast, run({.fast_convolutions = true}, 4, 3, pooled)));
    const array one = run({.fast_convolutions = true}, 2, 1, pooled);
    BOOST_TEST(std::equal(one.values.begin(), one.values.end(), fast.values.begin()));
    if (target_isa() >= isa::avx2 && !pooled) BOOST_TEST(!same_bits(fast, exact));
  }
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

// ---- products that say themselves what they compute in --------------------------------------------------------------

namespace {

array rounded_to(dtype half, array a) {
  for (double& v : a.values) {
    const auto x = static_cast<float>(v);
    v = half == dtype::bfloat16 ? static_cast<double>(static_cast<float>(bfloat16(x)))
                                : static_cast<double>(static_cast<float>(float16(x)));
  }
  return a;
}
/// The product of matrices in the last two axes, one matrix at a time, in double.
array product_of(const array& a, const array& b, bool transpose_a, bool transpose_b) {
  const shape &s = a.shape(), &t = b.shape();
  const std::int64_t m = s.at(s.rank - (transpose_a ? 1 : 2)), k = s.at(s.rank - (transpose_a ? 2 : 1)),
                     n = t.at(t.rank - (transpose_b ? 2 : 1)), count = s.size(0, s.rank - 2);
  shape c = s;
  c[c.rank - 2] = dim(m);
  c[c.rank - 1] = dim(n);
  array result = array_of(dtype::float32, c, std::vector<double>(static_cast<std::size_t>(count * m * n)));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t z = 0; z < count; ++z)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t p = 0; p < k; ++p)
          result.values[at((z * m + i) * n + j)] +=
              a.values[at(z * m * k + (transpose_a ? p * m + i : i * k + p))] *
              b.values[at((t.rank > 2 ? z * k * n : 0) + (transpose_b ? j * k + p : p * n + j))];
  return result;
}
shape with_leading(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return batch ? shape{batch, rows, columns} : shape{rows, columns};
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_round_operands_of_any_kind) {
  for (const dtype half : {dtype::bfloat16, dtype::float16})
    for (const auto& [batch, m, k, n] : {std::tuple{0, 1, 7, 33},
                                         {0, 70, 129, 130},
                                         {0, 300, 33, 16},
                                         {0, 9, 770, 50},
                                         {0, 128, 64, 300},
                                         {3, 20, 17, 25},
                                         {5, 40, 64, 64}})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          const array a = real(ta ? with_leading(batch, k, m) : with_leading(batch, m, k), 1),
                      b = real(tb ? with_leading(batch, n, k) : with_leading(batch, k, n), 2);
          const auto run = [&](int threads) {
            small_graph g;
            const value x = g.input(a, "a"), y = g.input(b, "b");
            g.output(matmul(x, y, {.transpose_a = ta, .transpose_b = tb, .compute = half}));
            return g.run({}, threads)[0];
          };
          const array found = run(1);
          BOOST_TEST_CONTEXT(name_of(half) << " " << batch << " x " << m << " x " << k << " x " << n
                                           << (ta ? " transposed" : "") << (tb ? " by transposed" : "")) {
            BOOST_TEST(relative_error(found, product_of(rounded_to(half, a), rounded_to(half, b), ta, tb)) < 1e-6);
            BOOST_TEST(relative_error(found, product_of(a, b, ta, tb)) > 1e-5);
            for (int threads = 2; threads <= 4; ++threads) BOOST_TEST(same_bits(found, run(threads)));
          }
        }
}

BOOST_AUTO_TEST_CASE(gradients_round_as_their_products_do) {
  for (const dtype half : {dtype::bfloat16, dtype::float16})
    for (const std::int64_t batch : {0, 3}) {
      const array x = real(with_leading(batch, 40, 70), 1), w = real({90, 70}, 2),
                  up = real(with_leading(batch, 40, 90), 3);
      small_graph g;
      const value a = g.input(x, "x"), b = g.state("w", w), start = g.input(up, "up");
      const value loss = reduce_sum(matmul(a, b, {.transpose_b = true, .compute = half}) * start), wanted[] = {a, b};
      for (const auto& d : gradients(loss, wanted)) g.output(d);
      const auto found = g.run();
      const array of_up = rounded_to(half, up);
      BOOST_TEST(relative_error(found[0], product_of(of_up, rounded_to(half, w), false, false)) < 1e-6);
      array sum = product_of(of_up, rounded_to(half, x), true, false), flat = found[1];
      for (std::size_t i = 0; batch && i < sum.values.size(); ++i)
        if (i >= flat.values.size()) sum.values[i % flat.values.size()] += sum.values[i];
      sum.values.resize(flat.values.size());
      BOOST_TEST(relative_error(flat, sum) < 1e-6);
    }
}

// A convolution with its first and second gradients, against float32 ones of operands rounded beforehand.
BOOST_AUTO_TEST_CASE(convolutions_round_operands_of_any_kind) {
  struct {
    shape image, weight;
    conv2d_attributes how;
    bool winograd = false;  // rounds the transforms, too
  } const cases[] = {{{3, 8, 9, 11}, {12, 8, 3, 3}, {.padding = 1}},
                     {{2, 20, 12, 13}, {33, 20, 1, 1}, {}},
                     {{2, 17, 12, 13}, {20, 17, 3, 3}, {.stride = 2, .padding = 1}},
                     {{2, 12, 10, 9}, {8, 3, 3, 3}, {.padding = 1, .groups = 4}},
                     {{2, 32, 10, 9}, {48, 16, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
                     {{2, 48, 7, 5}, {96, 16, 3, 2}, {.padding = 1, .groups = 3}},
                     {{1, 64, 16, 16}, {64, 32, 3, 3}, {.padding = 1, .groups = 2}, true},
                     {{1, 3, 14, 15}, {16, 3, 5, 5}, {.padding = 2}},
                     {{2, 1, 28, 28}, {6, 1, 5, 5}, {.padding = 2}},
                     {{2, 16, 9, 9}, {24, 16, 3, 3}, {.padding = 2, .dilation = 2}},
                     {{1, 48, 16, 16}, {40, 48, 3, 3}, {.padding = 1}, true}};
  for (const dtype half : {dtype::bfloat16, dtype::float16})
    for (const auto& c : cases) {
      const auto run = [&](dtype compute, bool rounds, int threads) {
        auto how = c.how;
        how.compute = compute;
        const auto operand = [&](const shape& s, int seed) {
          return rounds ? rounded_to(half, real(s, seed)) : real(s, seed);
        };
        small_graph g;
        const value x = g.input(operand(c.image, 1), "x"), w = g.state("w", operand(c.weight, 2));
        const value y = conv2d(x, w, how), wanted[] = {x, w};
        g.output(y);
        for (const auto& d : gradients(value(reduce_sum(y * g.input(operand(y.shape(), 3), "up"))), wanted))
          g.output(d);
        return g.run({}, threads);
      };
      const auto found = run(half, false, 1), of_rounded = run(dtype::float32, true, 1),
                 whole = run(dtype::float32, false, 1);
      for (std::size_t i = 0; i < found.size(); ++i)
        BOOST_TEST_CONTEXT(name_of(half) << " " << c.image.string() << " by " << c.weight.string() << ", result "
                                         << i) {
          BOOST_TEST(relative_error(found[i], of_rounded[i]) < (c.winograd && half == dtype::bfloat16 ? 1e-2 : 1e-6));
          BOOST_TEST(relative_error(found[i], whole[i]) > 1e-5);
        }
      for (int threads = 2; threads <= 4; ++threads) {
        const auto again = run(half, false, threads);
        for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(same_bits(found[i], again[i]));
      }
    }
}

BOOST_AUTO_TEST_CASE(transposed_convolutions_round_their_operands) {
  for (const dtype half : {dtype::bfloat16, dtype::float16})
    for (const std::int64_t stride : {1, 2}) {
      const auto run = [&](dtype compute, bool rounds) {
        const auto operand = [&](const shape& s, int seed) {
          return rounds ? rounded_to(half, real(s, seed)) : real(s, seed);
        };
        small_graph g;
        const value x = g.input(operand({2, 20, 7, 9}, 1), "x"), w = g.state("w", operand({20, 17, 3, 3}, 2));
        g.output(conv_transpose2d(x, w, {.stride = stride, .padding = 1, .compute = compute}));
        return g.run()[0];
      };
      const array found = run(half, false);
      BOOST_TEST(relative_error(found, run(dtype::float32, true)) < 1e-6);
      BOOST_TEST(relative_error(found, run(dtype::float32, false)) > 1e-5);
    }
}

BOOST_AUTO_TEST_CASE(float16_is_rounded_as_casts_do) {
  std::vector<double> all{0, -0.0, 65504, 65519, 65520, 1e30, -1e30, 6e-8, 2.9e-8, 3e-5, 6.1e-5, 1.0009765625};
  for (int i = 0; i < 4000; ++i) all.push_back(std::ldexp(1 + i / 4000., i % 45 - 26) * (i % 3 ? 1 : -1));
  const auto n = static_cast<std::int64_t>(all.size());
  const array x = array_of(dtype::float32, {n, 1}, all);
  small_graph g;
  g.output(matmul(g.input(x), g.input(array_of(dtype::float32, {1, 1}, {1}), "one"), {.compute = dtype::float16}));
  const array found = g.run()[0], wanted = rounded_to(dtype::float16, x);
  for (std::size_t i = 0; i < all.size(); ++i)
    BOOST_TEST((found.values[i] == wanted.values[i]), all[i] << " becomes " << found.values[i]);
}

BOOST_AUTO_TEST_CASE(attention_computes_in_half_types_and_so_does_its_gradient) {
  for (const dtype half : {dtype::bfloat16, dtype::float16}) {
    const auto run = [&](dtype compute, int threads) {
      small_graph g;
      const value q = g.input(real({2, 3, 33, 16}, 1), "q"), k = g.input(real({2, 3, 35, 16}, 2), "k"),
                  v = g.input(real({2, 3, 35, 24}, 3), "v"), wanted[] = {q, k, v};
      const value y = attention(q, k, v, attention_attributes{.causal = true, .compute = compute});
      g.output(y);
      for (const auto& d : gradients(value(reduce_sum(tanh(y))), wanted)) g.output(d);
      return g.run({}, threads);
    };
    const auto whole = run(dtype::float32, 1), found = run(half, 1);
    for (int threads = 2; threads <= 4; ++threads) {
      const auto again = run(half, threads);
      for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(same_bits(found[i], again[i]));
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      BOOST_TEST(relative_error(found[i], whole[i]) < 2e-2);
      BOOST_TEST(relative_error(found[i], whole[i]) > 1e-5);
    }
  }
}

// Rules that replace products keep their compute type.
BOOST_AUTO_TEST_CASE(rules_keep_what_products_compute_in) {
  small_graph g;
  const value q = g.input(real({2, 20, 16}, 1), "q"), k = g.input(real({2, 24, 16}, 2), "k"),
              v = g.input(real({2, 24, 16}, 3), "v");
  const matmul_attributes half{.compute = dtype::bfloat16};
  g.output(matmul(softmax(matmul(q, permute(k, {0, 2, 1}), half) * 0.25), v, half));
  const array found = g.run()[0];
  BOOST_TEST(g.plan->counters().of(rewrite::attention) == 1);
  BOOST_TEST(g.plan->counters().of(rewrite::transposed_operand) == 1);
  BOOST_TEST(lines_in_bfloat(*g.plan) == 1u);
  small_graph w;
  w.output(attention(w.input(g.data[0], "q"), w.input(g.data[1], "k"), w.input(g.data[2], "v"),
                     attention_attributes{.scale = 0.25, .compute = dtype::bfloat16}));
  BOOST_TEST(same_bits(found, w.run()[0]));
}

BOOST_AUTO_TEST_CASE(what_products_cannot_compute_in) {
  small_graph g;
  const value x = g.input(real({2, 3}, 1)), w = g.input(random_array(dtype::float64, {3, 4}, 2), "w"),
              y = g.input(random_array(dtype::float64, {2, 3}, 1), "y");
  BOOST_TEST(
      message_of([&] { matmul(y, w, {.compute = dtype::bfloat16}); })
          .find("`compute` is bfloat16 and the operands are float64; float32 operands may be rounded to bfloat16 or "
                "float16") != std::string::npos);
  const value image = g.input(random_array(dtype::float64, {1, 2, 5, 5}, 3), "image"),
              filter = g.input(random_array(dtype::float64, {2, 2, 3, 3}, 4), "filter");
  BOOST_TEST(message_of([&] {
               conv2d(image, filter, {.compute = dtype::bfloat16});
             }).find("`compute` is bfloat16 and the operands are float64") != std::string::npos);
  BOOST_TEST(message_of([&] {
               matmul(x, x, {.transpose_b = true, .compute = dtype::int8});
             }).find("`compute` is int8") != std::string::npos);
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

// Blocks of typical nets: results stay within one hundredth.
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
