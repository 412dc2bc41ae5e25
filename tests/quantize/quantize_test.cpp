// Quantized programs: scales of every schema computed in double, profiles, the quantized nets, and errors.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "files.h"

module lamina;

#include "graph.h"
#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;
using nets_test::error_of;
using nets_test::holds;

namespace {

using schema = quantization_schema;
constexpr schema schemas[] = {schema::asymmetric, schema::symmetric, schema::symmetric_with_uint8,
                              schema::symmetric_with_power2_scale};

using lenet_model = model<nets_test::lenet, lamina::input<"N", 1, 28, 28>>;
nets_test::images pictures(std::int64_t n, int seed) {
  return nets_test::random_tensor<nets_test::images>({n, 1, 28, 28}, seed);
}
std::vector<std::vector<any_tensor>> some_pictures() { return {{pictures(8, 1)}, {pictures(3, 2)}}; }

std::vector<any_tensor> run(const program& p, const parameter_store& states, const std::vector<any_tensor>& in) {
  return program_factory(std::shared_ptr<const program>(&p, [](auto*) {}), states).create()(in);
}
std::vector<any_tensor> run(const quantized_program& q, const std::vector<any_tensor>& in) {
  return run(*q.program, q.states, in);
}

/// |a - b| over the largest |a|.
double relative(const any_tensor& a, const any_tensor& b) {
  double max = 0, apart = 0;
  const auto x = a.elements<float>(), y = b.elements<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    max = std::max(max, std::abs(static_cast<double>(x[i])));
    apart = std::max(apart, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  }
  return a.shape() == b.shape() ? apart / max : 1e9;
}
/// Root of the sum of squares of a - b, relative to that of a.
double root_error(const any_tensor& a, const any_tensor& b) {
  double errors = 0, squares = 0;
  const auto x = a.elements<float>(), y = b.elements<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), d = v - static_cast<double>(y[i]);
    errors += d * d, squares += v * v;
  }
  return std::sqrt(errors / squares);
}
std::int64_t count(const program& p, std::string_view name) {
  std::int64_t n = 0;
  const auto needed = p.reachable();
  for (std::size_t i = 0; i < p.nodes().size(); ++i) n += needed[i] && p.nodes()[i].op && p.nodes()[i].op->name == name;
  return n;
}
bool same_bytes(const any_tensor& a, const any_tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// A program of two linear layers, with the tests' options.
struct two_layers {
  program p;
  parameter_store states;
  two_layers() {
    value x = p.input("x", {dtype::float32, {dim::named("N"), 6}});
    value h = relu(linear(x, weight("a.weight", {5, 6}, 1), weight("a.bias", {5}, 2)));
    p.output("y", linear(h, weight("b.weight", {3, 5}, 3), weight("b.bias", {3}, 4)));
  }
  value weight(std::string name, const shape& s, int seed) {
    states.add(name, to_tensor(random_array(dtype::float32, s, seed, -1, 1)), state_role::parameter);
    return p.state(name, {dtype::float32, s});
  }
  static std::vector<std::vector<any_tensor>> samples() {
    return {{to_tensor(random_array(dtype::float32, {7, 6}, 5, -1, 2))}};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(quantized_programs)

BOOST_AUTO_TEST_CASE(numbers_of_each_schema) {
  // asymmetric: scale (high - low) / 255, zero point round(-128 - low / scale); 0 is always inside
  BOOST_TEST((numbers_for(-1, 3, schema::asymmetric) ==
              quantization_numbers{static_cast<float>(4.0 / 255), -64}));  // -128 + 63.75
  BOOST_TEST((numbers_for(2, 3, schema::asymmetric) == quantization_numbers{static_cast<float>(3.0 / 255), -128}));
  BOOST_TEST((numbers_for(-5, -2, schema::asymmetric) == quantization_numbers{static_cast<float>(5.0 / 255), 127}));
  // symmetric: the larger end is 127
  BOOST_TEST((numbers_for(-1, 3, schema::symmetric) == quantization_numbers{static_cast<float>(3.0 / 127), 0}));
  BOOST_TEST((numbers_for(-4, 3, schema::symmetric) == quantization_numbers{static_cast<float>(4.0 / 127), 0}));
  // uint8 operands: a range that starts at 0 uses all of -128..127
  BOOST_TEST(
      (numbers_for(0, 3, schema::symmetric_with_uint8) == quantization_numbers{static_cast<float>(3.0 / 255), -128}));
  BOOST_TEST(
      (numbers_for(1, 3, schema::symmetric_with_uint8) == quantization_numbers{static_cast<float>(3.0 / 255), -128}));
  BOOST_TEST(
      (numbers_for(-1, 3, schema::symmetric_with_uint8) == quantization_numbers{static_cast<float>(3.0 / 127), 0}));
  // power-of-two scales: 3 / 127 = 0.0236 becomes 2^-5; 127 is exactly 1
  BOOST_TEST((numbers_for(-1, 3, schema::symmetric_with_power2_scale) == quantization_numbers{0.03125f, 0}));
  BOOST_TEST((numbers_for(-127, 3, schema::symmetric_with_power2_scale) == quantization_numbers{1, 0}));
  BOOST_TEST((numbers_for(-127.5, 3, schema::symmetric_with_power2_scale) == quantization_numbers{2, 0}));
  for (auto s : schemas) {
    BOOST_TEST((numbers_for(0, 0, s) == quantization_numbers{1, 0}));
    BOOST_TEST(numbers_for(0, 1e-44, s).scale > 0);
    BOOST_TEST(std::isfinite(numbers_for(-1e38, 1e38, s).scale));
    BOOST_TEST((quantization_schema_of(name_of(s)) == s));
  }
  constexpr double inf = std::numeric_limits<double>::infinity();
  BOOST_TEST(holds(error_of([] { numbers_for(0, inf, schema::symmetric); }),
                   "value_error: the range [0, inf] cannot be quantized"));
  BOOST_TEST(holds(error_of([] { numbers_for(std::nan(""), 1, schema::symmetric); }), "cannot be quantized"));
  BOOST_TEST(holds(error_of([] { numbers_for(2, 1, schema::asymmetric); }), "the range [2, 1] cannot be quantized"));
  BOOST_TEST(holds(error_of([] { quantization_schema_of("symetric"); }),
                   "`symetric` is not a quantization schema; there are `asymmetric`"));
}

BOOST_AUTO_TEST_CASE(a_range_keeps_its_numbers_within_half_a_step) {
  for (auto s : schemas)
    for (auto [low, high] : {std::pair(-1.0, 3.0), std::pair(0.0, 7.0), std::pair(-0.1, 0.001)}) {
      const auto n = numbers_for(low, high, s);
      for (int k = 0; k <= 100; ++k) {
        const double x = low + (high - low) * k / 100;
        const double q = std::min(127.0, std::max(-128.0, std::nearbyint(x / n.scale) + n.zero_point));
        // the zero point is rounded, so an end may be off by a whole step
        BOOST_TEST(std::abs((q - n.zero_point) * n.scale - x) <= n.scale * 1.0001, name_of(s) << " " << x);
      }
      BOOST_TEST(std::nearbyint(0 / n.scale) + n.zero_point == n.zero_point);
    }
}

BOOST_AUTO_TEST_CASE(a_profile_has_the_ranges_of_operands_and_results) {
  two_layers net;
  const auto p = profile(net.p, net.states, net.samples());
  BOOST_TEST(p.samples == 1);
  BOOST_REQUIRE(p.values.size() == 4u);
  const auto x = random_array(dtype::float32, {7, 6}, 5, -1, 2), wa = random_array(dtype::float32, {5, 6}, 1, -1, 1),
             ba = random_array(dtype::float32, {5}, 2, -1, 1);
  BOOST_TEST(p.values[0].name == "a.weight:in");
  BOOST_TEST(p.values[0].low == *std::min_element(x.values.begin(), x.values.end()));
  BOOST_TEST(p.values[0].high == *std::max_element(x.values.begin(), x.values.end()));
  double max = 0;  // after bias and relu
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t o = 0; o < 5; ++o) {
      double sum = ba.values[o];
      for (std::size_t k = 0; k < 6; ++k) sum += x.values[i * 6 + k] * wa.values[o * 6 + k];
      max = std::max(max, sum);
    }
  BOOST_REQUIRE(p.find("a.weight:out"));
  BOOST_TEST(p.find("a.weight:out")->low == 0);
  BOOST_TEST(p.find("a.weight:out")->high == max, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(p.find("b.weight:in")->high == p.find("a.weight:out")->high);
  BOOST_TEST(!p.find("c"));
}

BOOST_AUTO_TEST_CASE(weights_and_biases_are_those_of_the_formulas) {
  two_layers net;
  const auto ranges = profile(net.p, net.states, net.samples());
  for (auto s : schemas)
    for (const int bits : {8, 7}) {
      const int largest = bits == 7 ? 63 : 127;
      const auto q = quantize(net.p, net.states, ranges, {.schema = s, .weight_bits = bits});
      const auto w = net.states.find("a.weight")->value().elements<float>(),
                 b = net.states.find("a.bias")->value().elements<float>();
      const auto* made = q.states.find("a.weight.int8");
      BOOST_REQUIRE(made);
      BOOST_TEST((made->value().type() == tensor_type{dtype::int8, {5, 6}}));
      const auto scales = q.states.find("a.weight.scale")->value().elements<float>();
      const double x_scale = numbers_for(ranges.values[0].low, ranges.values[0].high, s).scale;
      for (std::size_t o = 0; o < 5; ++o) {
        double max = 0;
        for (std::size_t k = 0; k < 6; ++k) max = std::max(max, std::abs(static_cast<double>(w[o * 6 + k])));
        const double step = s == schema::symmetric_with_power2_scale
                                ? std::exp2(std::ceil(std::log2(max / largest)))
                                : static_cast<double>(static_cast<float>(max / largest));
        BOOST_TEST(static_cast<double>(scales[o]) == step);
        for (std::size_t k = 0; k < 6; ++k)
          BOOST_TEST(made->value().elements<std::int8_t>()[o * 6 + k] == std::nearbyint(w[o * 6 + k] / step));
        BOOST_TEST(q.states.find("a.weight.bias")->value().elements<std::int32_t>()[o] ==
                   std::nearbyint(static_cast<double>(b[o]) / (x_scale * step)));
      }
      BOOST_TEST(!q.states.find("a.weight"));
      BOOST_TEST(q.report.quantized == 2);
      BOOST_TEST(count(*q.program, "matmul") == 0);
      BOOST_TEST(count(*q.program, "relu") == 0);
      BOOST_TEST(count(*q.program, "quantize") == 1);
      BOOST_TEST(count(*q.program, "dequantize") == 1);
      const auto expected = run(net.p, net.states, net.samples()[0]), got = run(q, net.samples()[0]);
      BOOST_TEST(relative(expected[0], got[0]) < (s == schema::symmetric_with_power2_scale ? 0.06 : 0.03) * (9 - bits),
                 name_of(s));
    }
}

BOOST_AUTO_TEST_CASE(lenet_computes_in_int8_between_its_ends) {
  const lenet_model net({.seed = 42});
  const auto ranges = profile(net, some_pictures());
  for (auto s : schemas) {
    const auto q = quantize(net, ranges, {.schema = s});
    BOOST_TEST(q.report.quantized == 5);
    BOOST_TEST(count(*q.program, "quantize") == 1);
    BOOST_TEST(count(*q.program, "dequantize") == 1);
    BOOST_TEST(count(*q.program, "quantized_conv2d") == 2);
    BOOST_TEST(count(*q.program, "quantized_linear") == 3);
    BOOST_TEST(count(*q.program, "max_pool2d") == 2);
    const std::vector<any_tensor> x{pictures(5, 9)};
    const auto expected = run(net.core().inference(), net.parameters(), x), got = run(q, x);
    BOOST_TEST(relative(expected[0], got[0]) < (s == schema::symmetric_with_power2_scale ? 0.12 : 0.06), name_of(s));
    BOOST_TEST(q.states.bytes() * 3.5 < static_cast<double>(net.parameters().bytes()));
  }
  BOOST_TEST(holds(quantize(net, ranges).report.text(), "5 of 5 products are in int8; 1 quantize, 1 dequantize"));
}

BOOST_AUTO_TEST_CASE(products_that_are_kept_stay_float) {
  const lenet_model net({.seed = 42});
  const auto ranges = profile(net, some_pictures());
  const auto all = quantize(net, ranges, {.keep_float = {"0", "3.weight", "7", "9", "11"}});
  BOOST_TEST(all.report.quantized == 0);
  const std::vector<any_tensor> x{pictures(5, 9)};
  BOOST_TEST(same_bytes(run(all, x)[0], run(net.core().inference(), net.parameters(), x)[0]));
  const auto some = quantize(net, ranges, {.keep_float = {"3"}});
  BOOST_TEST(some.report.quantized == 4);
  BOOST_TEST(count(*some.program, "quantize") == 2);
  BOOST_TEST(count(*some.program, "dequantize") == 2);
  BOOST_TEST(holds(some.report.text(), "conv2d 3.weight: float, because it is in `keep_float`"));
  BOOST_TEST(some.states.find("3.weight"));
  BOOST_TEST(holds(error_of([&] { quantize(net, ranges, {.keep_float = {"3.wieght"}}); }),
                   "value_error: quantize: keep_float: no product is named `3.wieght`; there are `0.weight`"));
}

inline constexpr auto normalized =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 5, .kernel_size = 3, .bias = false},
               nn::batch_norm2d{.num_features = 5}, nn::relu{},
               nn::conv2d{.in_channels = 5, .out_channels = 5, .kernel_size = 3, .padding = 1}, nn::sigmoid{},
               nn::flatten{}, nn::linear{.in_features = 3380, .out_features = 4});

BOOST_AUTO_TEST_CASE(batch_norms_are_folded_and_other_operations_stay_float) {
  model<normalized, lamina::input<"N", 1, 28, 28>> net({.seed = 3});
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    if (auto& p = net.parameters()[i];
        p.name() == "1.running_mean" || p.name() == "1.running_var" || p.name() == "1.weight")
      for (std::int64_t k = 0; k < 5; ++k)
        reinterpret_cast<float*>(p.mutable_data())[k] = 0.5f + 0.25f * static_cast<float>(k);
  const auto ranges = profile(net, some_pictures());
  BOOST_TEST(ranges.find("0.weight:out"));
  const auto q = quantize(net, ranges);
  BOOST_TEST(q.report.quantized == 3);
  BOOST_TEST(count(*q.program, "sigmoid") == 1);
  BOOST_TEST(count(*q.program, "quantize") == 2);
  BOOST_TEST(count(*q.program, "dequantize") == 2);
  BOOST_TEST(count(*q.program, "multiply") == 0);
  const std::vector<any_tensor> x{pictures(5, 9)};
  BOOST_TEST(relative(run(net.core().inference(), net.parameters(), x)[0], run(q, x)[0]) < 0.06);
}

inline constexpr auto branched = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 3, .stride = 2, .padding = 1}, nn::relu{},
    nn::residual{sequential(nn::conv2d{.in_channels = 6, .out_channels = 6, .kernel_size = 3, .padding = 1})},
    nn::relu{}, nn::avg_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 8, .kernel_size = 1},
    nn::relu{}, nn::global_avg_pool2d{}, nn::flatten{}, nn::linear{.in_features = 8, .out_features = 4});

BOOST_AUTO_TEST_CASE(sums_of_branches_and_averages_are_in_int8) {
  const model<branched, lamina::input<"N", 1, 28, 28>> net({.seed = 5});
  auto ranges = profile(net, some_pictures());
  const auto q = quantize(net, ranges);
  const auto& p = *q.program;
  BOOST_TEST(q.report.quantized == 4);
  BOOST_TEST(count(p, "quantized_add") == 1);
  BOOST_TEST(count(p, "quantized_avg_pool2d") == 2);
  for (const auto* name : {"add", "relu", "maximum", "avg_pool2d", "reduce_mean"})
    BOOST_TEST(count(p, name) == 0, name);
  BOOST_TEST(count(p, "quantize") == 1);
  BOOST_TEST(count(p, "dequantize") == 1);
  const std::vector<any_tensor> x{pictures(5, 9)};
  const auto expected = run(net.core().inference(), net.parameters(), x)[0];
  BOOST_TEST(relative(expected, run(q, x)[0]) < 0.06);
  // A float branch, or a profile without the sum's range, leaves the sum in float.
  const auto kept = quantize(net, ranges, {.keep_float = {"2"}});
  BOOST_TEST(count(*kept.program, "quantized_add") == 0);
  BOOST_TEST(relative(expected, run(kept, x)[0]) < 0.06);
  std::erase_if(ranges.values,
                [&](const value_range& r) { return !r.name.ends_with(":in") && !holds(r.name, ".weight:out"); });
  const auto products = quantize(net, ranges);
  BOOST_TEST(products.report.quantized == 4);
  BOOST_TEST(count(*products.program, "quantized_add") + count(*products.program, "quantized_avg_pool2d") == 0);
  BOOST_TEST(relative(expected, run(products, x)[0]) < 0.06);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_quantized_says_why) {
  program p;
  parameter_store states;
  value a = p.input("a", {dtype::float32, {4, 4}}), b = p.input("b", {dtype::float64, {4, 4}});
  states.add("w", to_tensor(random_array(dtype::float32, {4, 4}, 1)), state_role::parameter);
  states.add("d", to_tensor(random_array(dtype::float64, {4, 4}, 1)), state_role::parameter);
  value w = p.state("w", {dtype::float32, {4, 4}}), d = p.state("d", {dtype::float64, {4, 4}});
  p.output("0", matmul(a, a));
  p.output("1", matmul(w, a));
  p.output("2", matmul(b, d));
  p.output("3", matmul(a, w, {.transpose_a = true}));
  p.output("4", relu(clamp(matmul(a, w), -1, 1)) + matmul(a, w, {.transpose_b = true}));
  const std::vector<any_tensor> x{to_tensor(random_array(dtype::float32, {4, 4}, 2)),
                                  to_tensor(random_array(dtype::float64, {4, 4}, 3))};
  const std::vector<std::vector<any_tensor>> samples{x};
  const auto q = quantize(p, states, profile(p, states, samples));
  const auto message = q.report.text();
  for (std::string_view words :
       {"its second operand is not computed from parameters alone",
        "its first operand is computed from parameters alone", "it is float64; only float32 products are quantized",
        "its first operand is transposed", "matmul w#2: int8", "2 of 6 products are in int8"})
    BOOST_TEST(holds(message, words));
  const auto expected = run(p, states, x), got = run(q, x);
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(same_bytes(expected[i], got[i]), i);
  BOOST_TEST(relative(expected[4], got[4]) < 0.03);
}

BOOST_AUTO_TEST_CASE(saved_nets_are_quantized_and_quantized_nets_are_saved) {
  const test_files::folder folder;
  const lenet_model net({.seed = 42});
  save_net(folder / "float", net);
  const auto loaded = load_net(folder / "float");
  const auto ranges = profile(loaded, some_pictures());
  BOOST_TEST((ranges == profile(net, some_pictures())));
  save_profile(folder / "profile.json", ranges);
  BOOST_TEST((load_profile(folder / "profile.json") == ranges));
  const auto q = quantize(loaded, load_profile(folder / "profile.json"));
  save_net(folder / "int8", *q.program, q.states);
  const auto again = load_net(folder / "int8");
  const std::vector<any_tensor> x{pictures(3, 4)};
  BOOST_TEST(same_bytes(run(q, x)[0], again.factory().create()(x)[0]));
  const auto sizes = std::pair(std::filesystem::file_size(folder / "float.safetensors"),
                               std::filesystem::file_size(folder / "int8.safetensors"));
  BOOST_TEST(static_cast<double>(sizes.second) < 0.29 * static_cast<double>(sizes.first),
             sizes.first << " " << sizes.second);
}

BOOST_AUTO_TEST_CASE(files_keep_the_bits_of_weights) {
  const test_files::folder folder;
  const lenet_model net({.seed = 42});
  const auto ranges = profile(net, some_pictures());
  const auto of_7 = quantize(net, ranges, {.weight_bits = 7}), of_8 = quantize(net, ranges);
  const std::vector<any_tensor> x{pictures(3, 4)};
  for (const auto* q : {&of_7, &of_8}) {
    save_net(folder / "int8", *q->program, q->states);
    const auto text = test_files::read_raw(folder / "int8.json");
    BOOST_TEST((text.find("weight_bits") != std::string::npos) == (q == &of_7));
    const auto again = load_net(folder / "int8");
    BOOST_TEST((again.program->id() == q->program->id()));
    BOOST_TEST(same_bytes(run(*q, x)[0], again.factory().create()(x)[0]));
  }
}

BOOST_AUTO_TEST_CASE(nets_by_name_are_programs) {
  two_layers net;
  const auto ranges = profile(net.p, net.states, net.samples());
  const auto before = net.p.to_json();
  const auto one = quantize(net.p, net.states, ranges), other = quantize(net.p, net.states, ranges);
  BOOST_TEST(net.p.to_json() == before);  // the source is unchanged
  BOOST_TEST((one.program->id() == other.program->id()));
  // a row has the same bits alone and in the batch, for any number of threads
  const auto x = random_array(dtype::float32, {7, 6}, 8, -1, 2);
  const auto batch = run(one, {to_tensor(x)})[0];
  for (std::size_t i = 0; i < 7; ++i) {
    const auto row = run(one, {to_tensor(array_of(dtype::float32, {1, 6},
                                                  {x.values.begin() + static_cast<std::ptrdiff_t>(6 * i),
                                                   x.values.begin() + static_cast<std::ptrdiff_t>(6 * i + 6)}))})[0];
    BOOST_TEST(std::memcmp(row.data(), batch.data() + i * row.bytes(), row.bytes()) == 0);
  }
}

// ---- calibration

namespace {

/// A histogram of numbers, with equal bins between minimum and maximum.
value_range counted(const std::vector<double>& x, std::size_t bins) {
  value_range r{"x", *std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end())};
  r.counts.assign(bins, 0);
  for (const double v : x)
    ++r.counts[std::min(bins - 1,
                        static_cast<std::size_t>((v - r.low) / (r.high - r.low) * static_cast<double>(bins)))];
  return r;
}
/// The sum of squared int8 quantization errors for a range.
double error_of_range(const std::vector<double>& x, double low, double high) {
  const double step = (high - low) / 255;
  double sum = 0;
  for (const double v : x) {
    const double q = low + std::nearbyint((std::clamp(v, low, high) - low) / step) * step;
    sum += (v - q) * (v - q);
  }
  return sum;
}
/// Normally distributed numbers with a few outliers.
std::vector<double> bell(int count, bool positive, double far) {
  std::vector<double> x;
  for (int i = 0; i < count; ++i) {
    const philox random(7);
    const auto at = static_cast<std::size_t>(2 * i);
    const double v = std::sqrt(-2 * std::log(1 - random.uniform<double>(at))) *
                     std::cos(6.283185307179586 * random.uniform<double>(at + 1));
    x.push_back(positive ? std::abs(v) : v);
  }
  x[11] = far;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(histograms_count_every_number_of_every_sample) {
  two_layers net;
  auto samples = net.samples();
  samples.push_back({to_tensor(random_array(dtype::float32, {3, 6}, 8, -3, 1))});
  const auto plain = profile(net.p, net.states, samples), counts = profile(net.p, net.states, samples, {.bins = 64});
  BOOST_TEST(plain.values.size() == counts.values.size());
  for (std::size_t i = 0; i < counts.values.size(); ++i) {
    const auto& v = counts.values[i];
    BOOST_TEST((v.low == plain.values[i].low && v.high == plain.values[i].high));
    BOOST_TEST(plain.values[i].counts.empty());
    BOOST_TEST(v.counts.size() == 64u);
    const std::int64_t columns = v.name == "a.weight:in" ? 6 : v.name == "b.weight:out" ? 3 : 5;
    BOOST_TEST(std::accumulate(v.counts.begin(), v.counts.end(), std::int64_t(0)) == 10 * columns, v.name);
    BOOST_TEST((v.counts.front() > 0 && v.counts.back() > 0));
  }
  std::vector<double> x;  // the operand is the input
  for (const auto& s : samples)
    for (const float v : s[0].elements<float>()) x.push_back(static_cast<double>(v));
  BOOST_TEST((counts.find("a.weight:in")->counts == counted(x, 64).counts));
  BOOST_TEST((read_profile(counts.to_json()) == counts));
  BOOST_TEST(holds(error_of([&] { profile(net.p, net.states, samples, {.bins = -1}); }),
                   "value_error: profile: `bins` is -1; expected 0 to 65536"));
}

BOOST_AUTO_TEST_CASE(calibration_keeps_what_it_says) {
  const auto x = bell(400000, false, 40);
  const auto r = counted(x, 4096);
  const auto all = calibrated(r, calibration::extrema);
  BOOST_TEST((all.low == r.low && all.high == 40));
  // Half a percent of 400,000 numbers at each end; bins are 0.01 wide.
  auto sorted = x;
  std::sort(sorted.begin(), sorted.end());
  const auto max = calibrated(r, calibration::percentile, 99);
  BOOST_TEST(std::abs(max.low - sorted[2000]) < 0.03);
  BOOST_TEST(std::abs(max.high - sorted[398000]) < 0.03);
  BOOST_TEST((calibrated(r, calibration::percentile, 100) == value_range{"x", r.low, r.high}));
  // No symmetric range has an error more than one percent below that of the found range.
  const auto least = calibrated(r, calibration::squared_error);
  const double found = error_of_range(x, least.low, least.high);
  for (int i = 1; i <= 40; ++i)
    BOOST_TEST(found <= 1.01 * error_of_range(x, std::max(r.low, -1.0 * i), std::min(r.high, 1.0 * i)));
  BOOST_TEST(found < 0.8 * error_of_range(x, r.low, r.high));
}

BOOST_AUTO_TEST_CASE(entropy_cuts_what_is_far_away_and_nothing_else) {
  for (const bool positive : {false, true}) {
    const auto r = counted(bell(20000, positive, 60), 4096), near = counted(bell(20000, positive, 1), 4096);
    const auto kept = calibrated(r, calibration::entropy);
    BOOST_TEST((kept.high > 1.5 && kept.high < 12), kept.high);
    BOOST_TEST((positive ? kept.low == 0 : kept.low < -1.5), kept.low);
    BOOST_TEST(calibrated(near, calibration::entropy).high > 0.5 * near.high);
  }
  // Equal counts in all 256 bins: the whole range is the best.
  value_range flat{"x", 0, 1};
  flat.counts.assign(256, 100);
  BOOST_TEST(calibrated(flat, calibration::entropy).high == 1);
}

BOOST_AUTO_TEST_CASE(zero_stays_in_a_range_and_empty_ones_are_whole) {
  value_range r{"x", 2, 5};
  r.counts.assign(64, 10);
  for (const auto how :
       {calibration::extrema, calibration::percentile, calibration::entropy, calibration::squared_error}) {
    BOOST_TEST(calibrated(r, how).low == 0);
    BOOST_TEST(calibrated(r, how).high <= 5);
    BOOST_TEST((calibration_of(name_of(how)) == how));
    BOOST_TEST((calibrated({"x", 3, 3}, how) == value_range{"x", 0, 3}));
  }
  BOOST_TEST(holds(error_of([] { calibration_of("entrpy"); }), "`entrpy` is not a calibration; there are `extrema`"));
  BOOST_TEST(holds(error_of([&] { calibrated(r, calibration::percentile, 50); }),
                   "`percentile` is 50; expected more than 50 and at most 100 percent"));
  BOOST_TEST(holds(error_of([] { calibrated({"x", -1, 1}, calibration::entropy); }),
                   "quantize: calibration by entropy needs a histogram of `x`; profile this net with bins"));
}

// One outlier spoils the min-max range; other calibrations cut it off.
BOOST_AUTO_TEST_CASE(calibration_makes_a_net_better_where_a_number_is_far_away) {
  two_layers net;
  std::vector<std::vector<any_tensor>> samples;
  for (int i = 0; i < 8; ++i) samples.push_back({to_tensor(random_array(dtype::float32, {50, 6}, 20 + i, -1, 1))});
  const std::vector<any_tensor> usual = samples[0];
  reinterpret_cast<float*>(samples[3][0].mutable_data())[8] = 400;
  const auto ranges = profile(net.p, net.states, samples, {.bins = 8192});
  const auto exact = run(net.p, net.states, usual)[0];
  const auto error = [&](calibration how) {
    return relative(exact, run(quantize(net.p, net.states, ranges, {.calibration = how, .percentile = 99}), usual)[0]);
  };
  const double whole = error(calibration::extrema);
  BOOST_TEST(whole > 0.5);
  BOOST_TEST(error(calibration::percentile) < 0.2 * whole);
  BOOST_TEST(error(calibration::entropy) < 0.1 * whole);
}

// ---- errors of products

BOOST_AUTO_TEST_CASE(products_that_lose_too_much_stay_float) {
  two_layers net;
  // One weight of the second layer is so large that all others in its row round to zero.
  float* weight = reinterpret_cast<float*>(net.states.find("b.weight")->mutable_data());
  for (int row = 0; row < 3; ++row) weight[5 * row] = 1000, weight[5 * row + 4] = -1000;
  auto samples = net.samples();
  const auto ranges = profile(net.p, net.states, samples);
  const auto all = quantize(net.p, net.states, ranges, {}, samples);
  BOOST_TEST(all.report.quantized == 2);
  const double a = *all.report.products[0].error, b = *all.report.products[1].error;
  BOOST_TEST((a > 1e-4 && a < 0.02), a);
  BOOST_TEST(all.report.outputs.size() == 1u);
  BOOST_TEST(all.report.outputs[0].first == "y");
  const auto exact = run(net.p, net.states, samples[0])[0], got = run(all, samples[0])[0];
  BOOST_TEST(all.report.outputs[0].second == root_error(exact, got), boost::test_tools::tolerance(1e-5));
  const double between = std::sqrt(a * b);
  BOOST_TEST_REQUIRE(b != a);
  const auto some = quantize(net.p, net.states, ranges, {.largest_error = between}, samples);
  BOOST_TEST(some.report.quantized == 1);
  const auto& lost = some.report.products[a > b ? 0 : 1];
  BOOST_TEST(!lost.quantized);
  BOOST_TEST(holds(lost.why, "its error on the samples is "));
  BOOST_TEST(holds(some.report.text(), ", more than "));
  BOOST_TEST(holds(some.report.text(), "output `y`: error "));
  const auto none = quantize(net.p, net.states, ranges, {.largest_error = 0}, samples);
  BOOST_TEST(none.report.quantized == 0);
  BOOST_TEST(none.report.outputs[0].second == 0);
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, ranges, {.largest_error = 0.1}); }),
                   "value_error: quantize: `largest_error` needs samples to measure errors on, and there are none"));
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, ranges, {.weight_bits = 6}); }),
                   "value_error: quantize: `weight_bits` is 6; expected 7 or 8"));
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, ranges, {.largest_error = -1}, samples); }),
                   "quantize: `largest_error` is -1; expected 0 or more"));
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, ranges, {}, std::vector<std::vector<any_tensor>>{{}}); }),
                   "quantize: the program has 1 inputs, and sample 0 has 0"));
}

// A product's error is that of its own quantization: it equals the error of a net in which only that product is
// quantized.
BOOST_AUTO_TEST_CASE(errors_are_those_of_each_product_alone) {
  const lenet_model net({.seed = 42});
  const auto samples = some_pictures();
  const auto ranges = profile(net, samples);
  const auto all = quantize(net, ranges, {}, samples);
  BOOST_TEST_REQUIRE(all.report.products.size() == 5u);
  const auto last = quantize(net, ranges, {.keep_float = {"0", "3", "7", "9"}}, samples);
  BOOST_TEST(*all.report.products[4].error == last.report.outputs[0].second, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(all.report.outputs[0].second > last.report.outputs[0].second);
}

BOOST_AUTO_TEST_CASE(wrong_use_is_told) {
  two_layers net;
  const auto ranges = profile(net.p, net.states, net.samples());
  BOOST_TEST(holds(error_of([&] { profile(net.p, net.states, {}); }),
                   "value_error: profile: there are no samples to run the net on"));
  BOOST_TEST(holds(error_of([&] { profile(net.p, net.states, std::vector<std::vector<any_tensor>>{{}}); }),
                   "the program has 1 inputs, and sample 0 has 0"));
  BOOST_TEST(holds(error_of([&] {
                     profile(
                         net.p, net.states,
                         std::vector<std::vector<any_tensor>>{{to_tensor(random_array(dtype::float64, {2, 6}, 1))}});
                   }),
                   "input `x` is float32[Nx6], and in sample 0 float64[2x6]"));
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto x = random_array(dtype::float32, {2, 6}, 1);
    x.values[3] = bad;
    BOOST_TEST(holds(error_of([&] {
                       profile(net.p, net.states,
                               std::vector<std::vector<any_tensor>>{net.samples()[0], {to_tensor(x)}});
                     }),
                     "profile: `a.weight:in` has the range ["));
  }
  const lenet_model other({.seed = 1});
  BOOST_TEST(holds(error_of([&] { quantize(other, ranges); }),
                   "value_error: quantize: the profile is of another program; profile this net"));
  auto less = ranges;
  less.values.erase(less.values.begin() + 1);
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, less); }),
                   "quantize: the profile has no range of `a.weight:out`; profile this net again"));
  auto wrong = ranges;
  wrong.values[1].high = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, wrong); }), "cannot be quantized"));
  auto empty = ranges;
  empty.samples = 0;
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, empty); }), "quantize: the profile is empty"));
  BOOST_TEST(holds(error_of([&] { quantize(net.p, parameter_store(), ranges); }),
                   "of the program is not among the parameters"));
  reinterpret_cast<float*>(net.states.find("b.weight")->mutable_data())[2] = std::numeric_limits<float>::infinity();
  BOOST_TEST(holds(error_of([&] { quantize(net.p, net.states, ranges); }),
                   "quantize: the weights of `b.weight` are not finite"));
}

BOOST_AUTO_TEST_CASE(profiles_from_files_are_checked) {
  two_layers net;
  const auto good = profile(net.p, net.states, net.samples()).to_json();
  const auto with = [&](std::string from, const std::string& to) {
    auto words = good;
    const auto at = words.find(from);
    BOOST_REQUIRE(at != words.npos);
    words.replace(at, from.size(), to);
    return error_of([&] { read_profile(words, "p.json"); });
  };
  BOOST_TEST(error_of([&] { read_profile(good); }) == "");
  BOOST_TEST(holds(with("lamina profile", "lamina net"),
                   "file_error: p.json: `format` is `lamina net`; expected `lamina profile`"));
  BOOST_TEST(holds(with("\"version\": 1", "\"version\": 2"),
                   "p.json: version 2 of `lamina profile`; this library reads version 1"));
  BOOST_TEST(holds(with("\"samples\": 1", "\"samples\": 0"), "`samples` is 0; expected 1 or more"));
  BOOST_TEST(holds(with("\"samples\": 1", "\"samples\": 1.5"), "`samples` must be an integer; got a number"));
  BOOST_TEST(holds(with("\"program\": \"", "\"program\": \"z"), "expected 32 hexadecimal digits"));
  BOOST_TEST(holds(with("\"low\": ", "\"low\": 1e9, \"was\": "), "expected finite ends, the smaller first"));
  BOOST_TEST(holds(with("a.weight:out", "a.weight:in"), "two ranges are named `a.weight:in`"));
  BOOST_TEST(holds(with("\"values\": [", "\"values\": [3,"), "`values` has an integer; expected objects"));
  BOOST_TEST(holds(with("\"samples\": 1,", ""), "`samples` is missing"));
  BOOST_TEST(holds(with("\"low\": ", "\"counts\": [1, -2], \"low\": "),
                   "`counts` of `a.weight:in`: expected at most 65536 numbers of 0 or more"));
  BOOST_TEST(holds(with("\"low\": ", "\"counts\": 3, \"low\": "), "`counts` must be an array; got an integer"));
  for (std::size_t end = 0; end < good.size() - 2; end += 7)
    BOOST_TEST(holds(error_of([&] { read_profile(std::string_view(good).substr(0, end), "p.json"); }),
                     "file_error: p.json: "));
}

BOOST_AUTO_TEST_SUITE_END()
