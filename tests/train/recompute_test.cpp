// Values of the forward pass that the backward pass recomputes: equal bits in less memory.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "files.h"
#include "message.h"
#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

const loss::cross_entropy by_entropy;

template <std::size_t> inline constexpr auto layer =
    sequential(nn::linear{.in_features = 64, .out_features = 64}, nn::tanh{});
inline constexpr auto deep = sequential(
    sublayer<"first">(nn::linear{.in_features = 8, .out_features = 64}), sublayer<"a0">(layer<0>),
    sublayer<"a1">(layer<1>), sublayer<"a2">(layer<2>), sublayer<"a3">(layer<3>), sublayer<"a4">(layer<4>),
    sublayer<"a5">(layer<5>), sublayer<"a6">(layer<6>), sublayer<"a7">(layer<7>), sublayer<"a8">(layer<8>),
    sublayer<"a9">(layer<9>), sublayer<"b0">(layer<10>), sublayer<"b1">(layer<11>), sublayer<"b2">(layer<12>),
    sublayer<"b3">(layer<13>), sublayer<"b4">(layer<14>), sublayer<"b5">(layer<15>), sublayer<"b6">(layer<16>),
    sublayer<"b7">(layer<17>), sublayer<"b8">(layer<18>), sublayer<"b9">(layer<19>),
    sublayer<"last">(nn::linear{.in_features = 64, .out_features = 3}));
using deep_model = model<deep, input<"N", 8>>;

// Residual blocks with batch norm and dropout.
inline constexpr auto block = topology(
    sublayer<"conv1">(nn::conv2d{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1}),
    sublayer<"norm1">(nn::batch_norm2d{8}), sublayer<"relu1">(nn::relu{}), sublayer<"drop">(nn::dropout{0.1}),
    sublayer<"conv2">(nn::conv2d{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1}),
    sublayer<"norm2">(nn::batch_norm2d{8}), sublayer<"sum">(nn::add{}), sublayer<"relu2">(nn::relu{}),
    connect<"input", "conv1.input">, connect<"conv1.output", "norm1.input">, connect<"norm1.output", "relu1.input">,
    connect<"relu1.output", "drop.input">, connect<"drop.output", "conv2.input">,
    connect<"conv2.output", "norm2.input">, connect<"norm2.output", "sum.lhs">, connect<"input", "sum.rhs">,
    connect<"sum.output", "relu2.input">, connect<"relu2.output", "output">);
inline constexpr auto residual =
    sequential(sublayer<"stem">(nn::conv2d{.in_channels = 1, .out_channels = 8, .kernel_size = 3, .padding = 1}),
               sublayer<"block1">(block), sublayer<"block2">(block), sublayer<"block3">(block),
               sublayer<"block4">(block), sublayer<"block5">(block), sublayer<"block6">(block), nn::flatten{},
               sublayer<"head">(nn::linear{.in_features = 8 * 36, .out_features = 3}));
using residual_model = model<residual, input<"N", 1, 6, 6>>;

inline constexpr auto encoder =
    nn::transformer_encoder_layer{.d_model = 32, .nhead = 4, .dim_feedforward = 64, .dropout = 0.1};
inline constexpr auto transformer =
    sequential(sublayer<"layer1">(encoder), sublayer<"layer2">(encoder), sublayer<"layer3">(encoder),
               sublayer<"layer4">(encoder), sublayer<"layer5">(encoder), sublayer<"layer6">(encoder));
using transformer_model = model<transformer, input<"N", 12, 32>>;

// Trains with and without recomputation; returns the remaining share of the arena.
template <class Model, class Loss, class X, class Y>
double share_of_arena(const Loss& loss, const X& x, const Y& y, const decltype(training_options::recompute)& how,
                      const training_options& o = {}) {
  Model kept({.seed = 1}), again({.seed = 1});
  training_options other = o;
  other.recompute = how;
  training plain(kept, loss, optim::adam{.lr = 1e-3}, o), less(again, loss, optim::adam{.lr = 1e-3}, other);
  for (int i = 0; i < 3; ++i) {
    const double a = plain(x, y), b = less(x, y);
    BOOST_TEST(a == b);
  }
  BOOST_TEST(nets_test::same_bits(kept.parameters(), again.parameters()));
  const double share = static_cast<double>(less.arena_bytes()) / static_cast<double>(plain.arena_bytes());
  BOOST_TEST_MESSAGE("arena " << plain.arena_bytes() << " becomes " << less.arena_bytes());
  return share;
}
const auto squared_mean = [](const value& y, const value& t) { return reduce_mean(square(y - t)); };

template <class Tensor> Tensor numbers(const shape& dims, int seed) {
  return nets_test::random_tensor<Tensor>(dims, seed);
}
vector<std::int64_t> classes(std::int64_t n) {
  vector<std::int64_t> all(n);
  for (std::int64_t i = 0; i < n; ++i) all.writable()[static_cast<std::size_t>(i)] = i % 3;
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recomputing)

BOOST_AUTO_TEST_CASE(a_deep_perceptron_keeps_fewer_values) {
  const auto x = numbers<matrix<float>>({512, 8}, 1);
  const auto y = classes(512);
  BOOST_TEST(share_of_arena<deep_model>(by_entropy, x, y, {.automatic = true}) < 0.55);
  // The only value of each layer is the next one's input, which stays.
  BOOST_TEST(share_of_arena<deep_model>(by_entropy, x, y, {.layers = {"a?", "b?"}}) == 1);
  BOOST_TEST(share_of_arena<deep_model>(by_entropy, x, y, {.automatic = true}, {.compute = dtype::bfloat16}) < 0.6);
  BOOST_TEST(share_of_arena<deep_model>(by_entropy, x, y, {.automatic = true},
                                        {.compute = dtype::float16, .scaling = loss_scaling{}}) < 0.6);
}

BOOST_AUTO_TEST_CASE(residual_blocks_with_dropout_and_running_statistics) {
  const auto x = numbers<tensor<float, extents<dyn, 1, 6, 6>>>({32, 1, 6, 6}, 1);
  const auto y = classes(32);
  BOOST_TEST(share_of_arena<residual_model>(by_entropy, x, y, {.automatic = true}) < 0.75);
  BOOST_TEST(share_of_arena<residual_model>(by_entropy, x, y, {.layers = {"block*"}}) < 0.75);
}

BOOST_AUTO_TEST_CASE(layers_of_a_transformer) {
  const auto x = numbers<tensor<float, extents<dyn, 12, 32>>>({16, 12, 32}, 1);
  const auto y = numbers<tensor<float, extents<dyn, 12, 32>>>({16, 12, 32}, 2);
  BOOST_TEST(share_of_arena<transformer_model>(squared_mean, x, y, {.automatic = true}) < 0.6);
  BOOST_TEST(share_of_arena<transformer_model>(squared_mean, x, y, {.layers = {"layer*"}}) < 0.6);
}

BOOST_AUTO_TEST_CASE(fit_reports_bytes_and_keeps_its_bits) {
  const auto data = nets_test::squares(70, 1);
  const test_files::folder dir;
  for (const std::int64_t shards : {1, 2}) {
    fit_options o{.epochs = 2, .batch = 32, .shards = shards};
    residual_model kept({.seed = 1}), again({.seed = 1}), cut({.seed = 1});
    const auto plain = fit(kept, data, by_entropy, optim::adam{.lr = 0.01}, o);
    o.recompute.automatic = true;
    for (int threads = 1; threads <= 4; ++threads) {
      residual_model net({.seed = 1});
      o.threads = threads;
      const auto less = fit(net, data, by_entropy, optim::adam{.lr = 0.01}, o);
      BOOST_TEST(nets_test::same_bits(kept.parameters(), net.parameters()));
      BOOST_TEST(less.arena_bytes > 0u);
      BOOST_TEST(less.arena_bytes < plain.arena_bytes);
    }
    o.threads = 1;
    o.checkpoint = dir / ("checkpoint" + std::to_string(shards));
    o.resume = true;
    int updates = 0;
    o.observer = [&](const training_progress&) { return ++updates != 3; };
    fit(cut, data, by_entropy, optim::adam{.lr = 0.01}, o);
    o.observer = {};
    fit(cut, data, by_entropy, optim::adam{.lr = 0.01}, o);
    BOOST_TEST(nets_test::same_bits(kept.parameters(), cut.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(a_pattern_fits_a_layer) {
  deep_model net({.seed = 1});
  const auto x = numbers<matrix<float>>({4, 8}, 1);
  training step(net, by_entropy, optim::sgd{}, {.recompute = {.layers = {"a1*", "c?"}}});
  BOOST_TEST(message_of([&] { step(x, classes(4)); }).starts_with("recompute: pattern `c?` matches no layer"));
}

BOOST_AUTO_TEST_SUITE_END()
