// Batch norm with statistics across all shards of an update: equal bits for any number of threads, and the numbers of
// one shard.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

import lamina;

#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace nets_test;
using namespace replicas_test;

namespace {

const loss::cross_entropy by_entropy;

// Two layers with statistics, the second depending on the first, and one over features.
template <bool Across> constexpr auto deep_net = sequential(
    sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
    sublayer<"norm">(nn::batch_norm2d{.num_features = 4, .across_shards = Across}), nn::relu{},
    sublayer<"conv2">(nn::conv2d{.in_channels = 4, .out_channels = 6, .kernel_size = 3}),
    sublayer<"norm2">(nn::batch_norm2d{.num_features = 6, .affine = false, .across_shards = Across}), nn::relu{},
    nn::flatten{}, sublayer<"norm3">(nn::batch_norm1d{.num_features = 24, .across_shards = Across}),
    sublayer<"head">(nn::linear{.in_features = 24, .out_features = 3}));
template <bool Across> using deep_model = model<deep_net<Across>, input<"N", 1, 6, 6>, policies<element<double>>>;

double farthest(const parameter_store& a, const parameter_store& b) {
  double max = 0;
  for (const auto& p : a)
    if (p.role() == state_role::parameter || p.role() == state_role::statistic) {
      const auto x = p.value().elements<double>(), y = b.find(p.name())->value().elements<double>();
      for (std::size_t i = 0; i < x.size(); ++i) max = std::max(max, std::abs(x[i] - y[i]));
    }
  return max;
}
template <class Model> Model alone(const image_dataset& data, const fit_options& options) {
  Model net({.seed = 1});
  fit(net, data, by_entropy, optim::sgd{.lr = 0.05, .momentum = 0.9}, options);
  return net;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(statistics_across_shards)

// Also with a last batch of 2 samples, which leaves most shards empty.
BOOST_AUTO_TEST_CASE(shards_have_the_statistics_of_the_batch) {
  const auto data = squares(50, 1);
  const auto whole = alone<deep_model<false>>(data, {.epochs = 3, .batch = 16});
  const auto one = alone<deep_model<true>>(data, {.epochs = 3, .batch = 16});
  BOOST_TEST(farthest(whole.parameters(), one.parameters()) < 1e-10);
  for (const std::int64_t shards : {2, 4, 8}) {
    const auto cut = alone<deep_model<true>>(data, {.epochs = 3, .batch = 16, .shards = shards});
    BOOST_TEST(farthest(whole.parameters(), cut.parameters()) < 1e-9);
    // Statistics of single shards give other results.
    const auto own = alone<deep_model<false>>(data, {.epochs = 3, .batch = 16, .shards = shards});
    BOOST_TEST(farthest(whole.parameters(), own.parameters()) > 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(any_number_of_replicas_has_the_same_bits) {
  const auto data = squares(50, 1);
  const optim::sgd optimizer{.lr = 0.05, .momentum = 0.9};
  const auto check = [&]<class Model>(const Model&, fit_options options) {
    options.shards = 8;
    const auto whole = alone<Model>(data, options);
    for (const int count : {1, 2, 4, 8})
      for (const auto& n :
           trained_by<Model>(optimizer, Model({.seed = 1}), count, data, options, nullptr, nullptr,
                             [](Model& net, thread_replicas& all) { gather_slots(net.parameters(), all); }))
        BOOST_TEST(same_bits(n.parameters(), whole.parameters()));
  };
  check(deep_model<true>({.seed = 1}), {.epochs = 2, .batch = 16});
  check(across_model({.seed = 1}), {.epochs = 2, .batch = 16, .bucket_bytes = 1});
  check(deep_model<true>({.seed = 1}), {.epochs = 2, .batch = 16, .shard_optimizer = true});
  check(across_model({.seed = 1}), {.epochs = 2, .batch = 8, .accumulate = 2});
}

// Statistics cover the shards of all batches of an update.
BOOST_AUTO_TEST_CASE(batches_of_one_update_are_one) {
  const auto data = squares(64, 1);
  const auto whole = alone<across_model>(data, {.epochs = 2, .batch = 32, .shards = 8});
  const auto parts = alone<across_model>(data, {.epochs = 2, .batch = 16, .shards = 4, .accumulate = 2});
  BOOST_TEST(same_bits(whole.parameters(), parts.parameters()));
}

// A user-defined layer with a sum over shards that is not a statistic: the gradient passes through it.
namespace {
struct centered {
  constexpr auto forward(auto& s, const auto& x) const {
    auto shift = s.parameter("shift", shape{16}, initializer::constant(0.1));
    const reduce_attributes over{.axes = {0}, .keepdim = true};
    return x - sum_over_shards(sum_over_shards(reduce_sum(tanh(x * shift), over)) * 0.01) * 0.1;
  }
};
constexpr auto centered_net = sequential(
    nn::flatten{}, sublayer<"hidden">(nn::linear{.in_features = 36, .out_features = 16}),
    sublayer<"centered">(centered{}), nn::relu{}, sublayer<"head">(nn::linear{.in_features = 16, .out_features = 3}));
using centered_model = model<centered_net, input<"N", 1, 6, 6>, policies<element<double>>>;
}  // namespace
BOOST_AUTO_TEST_CASE(sums_of_sums) {
  const auto data = squares(32, 1);
  // The sum over shards of equal terms is their number times the term; in one shard it is the term.
  const auto two = alone<centered_model>(data, {.epochs = 2, .batch = 16, .shards = 2});
  for (const auto& n : trained_by<centered_model>(optim::sgd{.lr = 0.05, .momentum = 0.9}, centered_model({.seed = 1}),
                                                  2, data, {.epochs = 2, .batch = 16, .shards = 2}))
    BOOST_TEST(same_bits(n.parameters(), two.parameters()));
}

BOOST_AUTO_TEST_SUITE_END()
